// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
)

const (
	// leaveEvery is how often to look whether kubelet still needs its agent.
	leaveEvery = 250 * time.Millisecond
	// answerTimeout bounds how long the API server may take each time: one that is hung is no reason to look no more.
	answerTimeout = 5 * time.Second
)

// AwaitUnmounted waits until kubelet has unmounted the volumes of pods that have ended, or ctx ends. A pod that was deleted
// without a grace period is gone from the API server before that, and kubelet cannot unmount a volume whose driver is gone
// as well. Pods that are there are not waited for: the next agent serves them. Nor is what the runtime does: it needs no agent.
func (s *Sweeper) AwaitUnmounted(ctx context.Context) error {
	ended := map[string]bool{}
	for {
		volumes, unreadable := s.Volumes.All()
		left, err := s.ofEnded(ctx, volumes, ended)
		if len(left) == 0 {
			return unreadable // which waiting does not mend
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w; not unmounted yet: %s", ctx.Err(), strings.Join(left, ", ")), err, unreadable)
		case <-time.After(leaveEvery):
		}
	}
}

// ofEnded are volumes of pods that do not exist any more, or whose containers have all ended, or of which nobody says
// whether they have. What the API server says of a pod is kept, so it is asked once, as a rule.
func (s *Sweeper) ofEnded(ctx context.Context, volumes []csi.Volume, ended map[string]bool) (left []string, err error) {
	isNew := func(volume csi.Volume) bool { _, known := ended[volume.UID]; return !known }
	if slices.ContainsFunc(volumes, isNew) {
		err = s.learn(ctx, volumes, ended)
	}
	for _, volume := range volumes {
		if isNew(volume) || ended[volume.UID] {
			left = append(left, fmt.Sprintf("volume of pod %s/%s", volume.Namespace, volume.Pod))
		}
	}
	return left, err
}

// learn asks the API server which of the volumes' pods have ended.
func (s *Sweeper) learn(ctx context.Context, volumes []csi.Volume, ended map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	pods, err := listPods(ctx, s.Live, s.ofNode())
	if err != nil {
		return err
	}
	alive := identitiesOf(slices.DeleteFunc(pods, hasEnded))
	for _, volume := range volumes {
		ended[volume.UID] = !alive[volume.UID]
	}
	return nil
}

func hasEnded(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
