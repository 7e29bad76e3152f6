// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// checkProcessors returns an error for several queues of a machine that may have one processor: a queue would wait while another is
// served.
func checkProcessors(pod *corev1.Pod, queues string) error {
	if queues == "" || queues == "1" {
		return nil
	}
	count, because, err := tsnnetwork.ProcessorsOf(pod)
	if err != nil || count > 1 {
		return err
	}
	return fmt.Errorf("annotation %s is %q, and the pod's machine has one processor (%s): a queue would wait while another is served; give it two or more by "+
		"annotation %s or by limits of cpu, or one queue", v1alpha1.DeviceQueuesAnnotation, queues, because, tsnnetwork.ProcessorsAnnotation)
}
