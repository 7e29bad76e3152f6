// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// ProcessorsAnnotation is Kata's annotation for the number of processors of a pod's machine; the default is 1.
const ProcessorsAnnotation = "io.katacontainers.config.hypervisor.default_vcpus"

// KataHandlers is the prefix of the RuntimeClass handlers that Kata installs.
const KataHandlers = "kata"

// ProcessorsOf returns the minimum number of processors of a Kata pod's machine, and the reason. Kata in Rust uses the sum of the
// containers' limits, rounded up, or the annotation if there are no limits (docs/design/vcpu-handling-runtime-rs.md of Kata 3); Kata in Go
// adds both. A default in Kata's configuration is unknown here.
func ProcessorsOf(pod *corev1.Pod) (count int, reason string, err error) {
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

// limitOf returns the pod's CPU limit, or the sum of the limits of the containers that run at the same time; 0 for none.
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
