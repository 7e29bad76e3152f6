// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// ProcessorsAnnotation is Kata's for those of a pod's machine, which has one without it.
const ProcessorsAnnotation = "io.katacontainers.config.hypervisor.default_vcpus"

// KataHandlers begins the names of Kata's handlers of RuntimeClasses, as Kata installs them.
const KataHandlers = "kata"

// ProcessorsOf is how many the machine of a pod of Kata has at least, and why. Kata in Rust makes them as many as the limits of its
// containers, rounded up, and without limits as its annotation says (docs/design/vcpu-handling-runtime-rs.md of Kata 3); Kata in Go
// adds both. A default in Kata's configuration nobody knows here.
func ProcessorsOf(pod *corev1.Pod) (count int, because string, err error) {
	if limit := limitOf(pod); limit > 0 {
		return int(math.Ceil(limit)), fmt.Sprintf("its limits of cpu are %v", limit), nil
	}
	text, given := pod.Annotations[ProcessorsAnnotation]
	if !given {
		return 1, "Kata's default", nil
	}
	value, err := strconv.ParseFloat(text, 32)
	if err != nil || !(value > 0) || value > math.MaxInt16 {
		return 0, "", fmt.Errorf("annotation %s is %q; give a number of processors", ProcessorsAnnotation, text)
	}
	return int(math.Ceil(value)), "annotation " + ProcessorsAnnotation, nil
}

// limitOf is the sum of the limits of those containers that run at the same time, or what the pod says of itself; 0: nobody has one.
func limitOf(pod *corev1.Pod) float64 {
	if pod.Spec.Resources != nil {
		if limit, given := pod.Spec.Resources.Limits[corev1.ResourceCPU]; given {
			return limit.AsApproximateFloat64()
		}
	}
	sum := 0.0
	for i := range pod.Spec.Containers {
		sum += pod.Spec.Containers[i].Resources.Limits.Cpu().AsApproximateFloat64()
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sum += container.Resources.Limits.Cpu().AsApproximateFloat64()
		}
	}
	return sum
}
