// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// leaveEvery is how often to look whether the node still needs its agent.
const leaveEvery = 250 * time.Millisecond

// AwaitTakenDown waits until kubelet and the runtime have taken down what pods had that have ended, or ctx ends. A pod that
// was deleted without a grace period is gone from the API server before that, and kubelet cannot unmount a volume whose
// driver is gone as well. Pods that are there are not waited for: the next agent serves them.
func (s *Sweeper) AwaitTakenDown(ctx context.Context) error {
	for {
		left, err := s.leftOfEnded(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; not taken down yet: %s", ctx.Err(), strings.Join(left, ", "))
		case <-time.After(leaveEvery):
		}
	}
}

// leftOfEnded are volumes and interfaces of pods that do not exist any more, or whose containers have all ended. Interfaces
// without a network namespace are left out: nobody but the sweep takes those down.
func (s *Sweeper) leftOfEnded(ctx context.Context) ([]string, error) {
	volumes, err := s.Volumes.All()
	if err != nil {
		return nil, err
	}
	attached, err := s.Plugin.List()
	if err != nil || len(volumes)+len(attached) == 0 {
		return nil, err
	}
	pods, err := listPods(ctx, s.Live, s.ofNode())
	if err != nil {
		return nil, err
	}
	alive := identitiesOf(slices.DeleteFunc(pods, hasEnded))
	var left []string
	for _, volume := range volumes {
		if !alive[volume.UID] {
			left = append(left, fmt.Sprintf("volume of pod %s/%s", volume.Namespace, volume.Pod))
		}
	}
	for _, one := range attached {
		if !one.Gone && !alive[one.Identity] {
			left = append(left, fmt.Sprintf("interface %s of container %s", one.Interface, one.ContainerID))
		}
	}
	return left, nil
}

func hasEnded(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
