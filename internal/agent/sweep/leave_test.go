// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/cni"
)

func TestAnAgentThatEndsWaitsForPodsThatHaveEnded(t *testing.T) {
	ended := pod("ended")
	ended.Status.Phase = corev1.PodSucceeded
	for name, test := range map[string]struct {
		have things
		want string
	}{
		"nothing there": {},
		"not for pods that are there": {things{
			volumes: []csi.Volume{{UID: "alive"}}, attached: []cni.Attached{attached("alive", false)},
		}, ""},
		"for the volume of one that is gone":            {things{volumes: []csi.Volume{{UID: "gone", Namespace: "default", Pod: "p"}}}, "volume of pod default/p"},
		"for the volume of one that has run to its end": {things{volumes: []csi.Volume{{UID: "ended", Namespace: "default", Pod: "e"}}}, "volume of pod default/e"},
		"for the interface of one that is gone":         {things{attached: []cni.Attached{attached("gone", false)}}, "interface tsn0 of container "},
		"not for what nobody takes down any more":       {things{attached: []cni.Attached{attached("gone", true)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSweeper(&fakeNode{things: test.have}, pod("alive"), ended)
			ctx, cancel := context.WithTimeout(t.Context(), 2*leaveEvery)
			defer cancel()
			err := s.AwaitTakenDown(ctx)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("waited in vain: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), "not taken down yet: "+test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// unmounting is a node whose kubelet takes a moment.
type unmounting struct {
	fakeNode
	mu   sync.Mutex
	left []csi.Volume
}

func (u *unmounting) All() ([]csi.Volume, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left, nil
}

func (u *unmounting) unmount() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = nil
}

func TestAnAgentThatEndsGoesWhenAllIsTakenDown(t *testing.T) {
	on := &unmounting{left: []csi.Volume{{UID: "gone"}}}
	s := newSweeper(&on.fakeNode)
	s.Volumes = on
	left := make(chan error, 1)
	go func() { left <- s.AwaitTakenDown(t.Context()) }()
	select {
	case err := <-left:
		t.Fatalf("went before kubelet was done: %v", err)
	case <-time.After(2 * leaveEvery):
	}
	on.unmount()
	if err := <-left; err != nil {
		t.Error(err)
	}
}

func TestAnAgentThatCannotAskDoesNotWait(t *testing.T) {
	s := newSweeper(&fakeNode{things: things{volumes: []csi.Volume{{UID: "gone"}}}})
	s.Live = failing{s.Live}
	if err := s.AwaitTakenDown(t.Context()); err == nil {
		t.Error("no error")
	}
}
