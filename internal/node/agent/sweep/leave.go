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
	// pollInterval is the time between two checks whether kubelet still needs its agent.
	pollInterval = 250 * time.Millisecond
	// answerTimeout limits each request to the API server, so that one that hangs does not end the checks.
	answerTimeout = 5 * time.Second
)

// AwaitUnmounted waits until kubelet has unmounted the volumes of ended pods, or ctx ends. A pod that was deleted
// without a grace period disappears from the API server before that, and kubelet cannot unmount a volume without the
// driver. It does not wait for existing pods, which the next agent serves, nor for the runtime, which needs no agent.
func (s *Sweeper) AwaitUnmounted(ctx context.Context) error {
	ended := map[string]bool{}
	for {
		volumes, errUnreadable := s.Volumes.All()
		left, err := s.endedVolumes(ctx, volumes, ended)
		if len(left) == 0 {
			return errUnreadable // waiting does not help
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w; not unmounted yet: %s", ctx.Err(), strings.Join(left, ", ")), err, errUnreadable)
		case <-time.After(pollInterval):
		}
	}
}

// endedVolumes returns volumes of pods that do not exist any more, whose containers have all ended, or whose state is
// unknown. It caches the state of pods, so that one request is usually enough.
func (s *Sweeper) endedVolumes(ctx context.Context, volumes []csi.Volume, ended map[string]bool) (left []string, err error) {
	isNew := func(volume csi.Volume) bool { _, known := ended[volume.UID]; return !known }
	if slices.ContainsFunc(volumes, isNew) {
		err = s.lookUpEnded(ctx, volumes, ended)
	}
	for _, volume := range volumes {
		if isNew(volume) || ended[volume.UID] {
			left = append(left, fmt.Sprintf("volume of pod %s/%s", volume.Namespace, volume.Pod))
		}
	}
	return left, err
}

// lookUpEnded asks the API server which of the volumes' pods have ended.
func (s *Sweeper) lookUpEnded(ctx context.Context, volumes []csi.Volume, ended map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	pods, err := listPods(ctx, s.Live, s.onNode())
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
