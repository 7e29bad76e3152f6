// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// InPod tells whether a pod has an inline volume of a driver.
func InPod(pod *corev1.Pod, driver string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.CSI != nil && volume.CSI.Driver == driver
	})
}
