// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

func TestAwaitUnmounted(t *testing.T) {
	ended, failed := pod("ended"), pod("failed")
	ended.Status.Phase, failed.Status.Phase = corev1.PodSucceeded, corev1.PodFailed
	for name, test := range map[string]struct {
		have inventory
		want string
	}{
		"nothing there":                  {},
		"not for pods that are there":    {inventory{volumes: []csi.Volume{{UID: "alive"}}}, ""},
		"for one that is gone":           {inventory{volumes: []csi.Volume{{UID: "gone", Namespace: "default", Pod: "p"}}}, "volume of pod default/p"},
		"for one that has run to an end": {inventory{volumes: []csi.Volume{{UID: "ended", Namespace: "default", Pod: "e"}}}, "volume of pod default/e"},
		"for one that has failed":        {inventory{volumes: []csi.Volume{{UID: "failed", Namespace: "default", Pod: "f"}}}, "volume of pod default/f"},
		// Also one of a network namespace that stays for ever, which would keep ktsnd away at each upgrade.
		"not for an interface, which the runtime removes": {inventory{attached: []attachment.Attached{attached("gone", false), attached("gone", true)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSweeper(&fakeNode{inventory: test.have}, pod("alive"), ended, failed)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := s.AwaitUnmounted(ctx)
				switch {
				case test.want == "" && err != nil:
					t.Errorf("waited in vain: %v", err)
				case test.want != "" && (err == nil || !strings.Contains(err.Error(), "not unmounted yet: "+test.want)):
					t.Errorf("got %v, want %q", err, test.want)
				}
			})
		})
	}
}

// unmounting is a node whose kubelet takes a moment.
type unmounting struct {
	fakeNode
	mu         sync.Mutex
	left       []csi.Volume
	unreadable error
}

func (u *unmounting) All() ([]csi.Volume, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left, u.unreadable
}

func (u *unmounting) unmount() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = nil
}

// answers is an API server that does for some time what it should not.
type answers struct {
	client.Reader
	instead func(ctx context.Context) error
	until   time.Time
	asked   int
}

func (a *answers) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	a.asked++
	if time.Now().Before(a.until) {
		return a.instead(ctx)
	}
	return a.Reader.List(ctx, list, options...)
}

func refused(context.Context) error { return errors.New("Unauthorized") }
func hung(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAwaitUnmountedReturnsAfterUnmount(t *testing.T) {
	const kubelet, trouble = 20 * time.Second, 12 * time.Second
	for name, test := range map[string]struct {
		instead    func(context.Context) error
		trouble    time.Duration
		unreadable error
		most       int
	}{
		"":                                     {most: 1},
		"and asks again who refused it":        {instead: refused, trouble: trouble, most: 50},
		"though nobody answers":                {instead: refused, trouble: time.Hour, most: 100},
		"and asks again who did not answer":    {instead: hung, trouble: trouble, most: 5},
		"though the API server is hung":        {instead: hung, trouble: time.Hour, most: 10},
		"also where one record makes no sense": {unreadable: errors.New("broken"), most: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				on := &unmounting{left: []csi.Volume{{UID: "gone"}}, unreadable: test.unreadable}
				s := newSweeper(&on.fakeNode)
				server := &answers{Reader: s.Live, instead: test.instead, until: time.Now().Add(test.trouble)}
				s.Volumes, s.Live = on, server
				began := time.Now()
				time.AfterFunc(kubelet, on.unmount)
				err := s.AwaitUnmounted(t.Context())
				if took := time.Since(began); took < kubelet || took > kubelet+answerTimeout+pollInterval {
					t.Errorf("went after %v, and kubelet was done after %v", took, kubelet)
				}
				if !errors.Is(err, test.unreadable) {
					t.Errorf("got %v, want %v", err, test.unreadable)
				}
				if server.asked > test.most {
					t.Errorf("asked the API server %d times", server.asked)
				}
			})
		})
	}
}

// The pods that are there are learned as soon as somebody says so, and not waited for.
func TestAwaitUnmountedLimitsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSweeper(&fakeNode{inventory: inventory{volumes: []csi.Volume{{UID: "alive"}}}}, pod("alive"))
		s.Live = &answers{Reader: s.Live, instead: refused, until: time.Now().Add(time.Second)}
		began := time.Now()
		if err := s.AwaitUnmounted(t.Context()); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("went after %v: %v", time.Since(began), err)
		}
	})
}
