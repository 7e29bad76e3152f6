// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeNode remembers what was removed.
type fakeNode struct {
	inventory
	removed []string
	refuse  error
}

func (f *fakeNode) record(text string) error {
	f.removed = append(f.removed, text)
	return f.refuse
}

func (f *fakeNode) All() ([]csi.Volume, error) { return f.volumes, nil }
func (f *fakeNode) PodDirs() ([]string, error) { return f.dirs, nil }
func (f *fakeNode) Sweep(ctx context.Context, uid string, gone func(context.Context) (bool, error)) error {
	if isGone, err := gone(ctx); err != nil || !isGone {
		return err
	}
	return f.record("volume " + uid)
}
func (f *fakeNode) List() ([]attachment.Attached, error) { return f.attached, nil }
func (f *fakeNode) Detach(_ context.Context, attached *attachment.Attached) error {
	return f.record("interface " + attached.Identity)
}
func (f *fakeNode) Pods(context.Context) ([]control.Pod, error) { return f.pods, nil }
func (f *fakeNode) EndpointDel(_ context.Context, who, _ string) error {
	return f.record("endpoint " + who)
}
func (f *fakeNode) Endpoints(context.Context) ([]control.AttachedEndpoint, error) {
	return f.endpoints, nil
}

func newSweeper(on *fakeNode, pods ...*corev1.Pod) *Sweeper {
	objects := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	})
	for _, pod := range pods {
		objects = objects.WithObjects(pod)
	}
	server := objects.Build()
	return &Sweeper{
		Pods: server, Live: server, Node: "node1", Volumes: on, Plugin: on, Swept: func(string) {},
		Do:       func(ctx context.Context, ask func(context.Context, Ktsnd) error) error { return ask(ctx, on) },
		Exists:   func(path string) bool { return path == "/there" },
		Occupied: func(path string) bool { return path == "/there" },
		Log:      slog.New(slog.DiscardHandler),
	}
}

func pod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: "node1"}}
}

func attached(identity string, gone bool) attachment.Attached {
	return attachment.Attached{Attachment: overlay.Attachment{Identity: identity, Interface: "tsn0"}, Netns: "/there", Gone: gone}
}

// leftover is an attachment of a sandbox that was not deleted and whose network namespace is pinned.
func leftover(identity string, ended bool) attachment.Attached {
	return attachment.Attached{Attachment: overlay.Attachment{Identity: identity, Interface: "tsn0", ContainerID: "first"}, Netns: "/pinned", Present: true, Ended: ended}
}

func endpoint(identity, netns string) control.AttachedEndpoint {
	return control.AttachedEndpoint{Endpoint: control.Endpoint{Identity: identity, Interface: "tsn0", Netns: netns}}
}

func TestSweepRemovesRemainsOnly(t *testing.T) {
	static := pod("mirror")
	static.Annotations = map[string]string{staticUID: "static"}
	for name, test := range map[string]struct {
		have inventory
		want string
	}{
		"nothing of pods that are there": {inventory{
			volumes: []csi.Volume{{UID: "alive"}}, dirs: []string{"alive"}, attached: []attachment.Attached{attached("alive", true), attached("static", true)},
			pods: []control.Pod{{Identity: "alive", Path: "/x"}}, endpoints: []control.AttachedEndpoint{endpoint("alive", "/gone")},
		}, ""},
		"all of one that is gone": {inventory{
			volumes: []csi.Volume{{UID: "gone"}}, dirs: []string{"gone"}, attached: []attachment.Attached{attached("gone", true)},
			pods: []control.Pod{{Identity: "gone", Path: "/x"}}, endpoints: []control.AttachedEndpoint{endpoint("gone", "/gone")},
		}, "interface gone, volume gone"},
		"a folder that no volume is written down for": {inventory{dirs: []string{"gone"}}, "volume gone"},
		"a socket that nobody remembers":              {inventory{pods: []control.Pod{{Identity: "gone", Path: "/x"}, {Identity: "none"}}}, "volume gone"},
		"nothing as long as processes may be in the network namespace": {inventory{
			volumes: []csi.Volume{{UID: "gone"}}, attached: []attachment.Attached{attached("gone", false)},
			endpoints: []control.AttachedEndpoint{endpoint("gone", "/there")},
		}, ""},
		"an interface in a network namespace without processes": {inventory{attached: []attachment.Attached{leftover("gone", false)}}, "interface gone"},
		"nothing of a sandbox of a pod that is there":           {inventory{attached: []attachment.Attached{leftover("alive", false)}}, ""},
		"the previous sandbox of a pod that is there": {inventory{
			volumes: []csi.Volume{{UID: "alive"}}, attached: []attachment.Attached{leftover("alive", true), attached("alive", false)},
		}, "interface alive"},
		"an endpoint that nobody remembers": {inventory{
			endpoints: []control.AttachedEndpoint{endpoint("gone", "/gone"), endpoint("also-gone", "/there")},
		}, "endpoint gone"},
	} {
		t.Run(name, func(t *testing.T) {
			on := &fakeNode{inventory: test.have}
			s := newSweeper(on, pod("alive"), static)
			if err := s.Sweep(t.Context()); err != nil || len(on.removed) > 0 {
				t.Fatalf("the first look removed %q, %v", on.removed, err)
			}
			testlab.Must(t, s.Sweep(t.Context()))
			slices.Sort(on.removed)
			if got := strings.Join(on.removed, ", "); got != test.want {
				t.Errorf("removed %q, want %q", got, test.want)
			}
		})
	}
}

func TestSweepSparesReturnedPod(t *testing.T) {
	on := &fakeNode{inventory: inventory{volumes: []csi.Volume{{UID: "late"}}}}
	s := newSweeper(on)
	testlab.Must(t, s.Sweep(t.Context()))
	testlab.Must(t, s.Pods.(client.Client).Create(t.Context(), pod("late")))
	if err := s.Sweep(t.Context()); err != nil || len(on.removed) > 0 {
		t.Errorf("removed %q, %v", on.removed, err)
	}
}

func TestSweepConfirmsWithAPIServer(t *testing.T) {
	on := &fakeNode{inventory: inventory{
		volumes: []csi.Volume{{UID: "alive"}}, dirs: []string{"alive"}, attached: []attachment.Attached{attached("alive", true)},
		pods: []control.Pod{{Identity: "alive", Path: "/x"}}, endpoints: []control.AttachedEndpoint{endpoint("other", "/gone")},
	}}
	s := newSweeper(on)
	s.Live = newSweeper(on, pod("alive"), pod("other")).Live
	swept := 0
	s.Swept = func(string) { swept++ }
	for range 3 {
		if err := s.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(on.removed) > 0 || swept > 0 {
		t.Errorf("removed %q, counted %d", on.removed, swept)
	}
	s.Live = failing{}
	err := s.Sweep(t.Context())
	if err == nil || !strings.Contains(err.Error(), "remove volume alive of a pod or sandbox that has ended: list the node's pods: no connection") || len(on.removed) > 0 {
		t.Errorf("removed %q without asking, and said %v", on.removed, err)
	}
}

// failing is an API server that cannot be reached.
type failing struct{ client.Reader }

func (failing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no connection")
}

func TestSweepRetries(t *testing.T) {
	on := &fakeNode{inventory: inventory{dirs: []string{"gone"}}, refuse: errors.New("busy")}
	s := newSweeper(on)
	for range 3 {
		err := s.Sweep(t.Context())
		if len(on.removed) > 0 && (err == nil || !strings.Contains(err.Error(), "remove volume gone of a pod or sandbox that has ended: busy")) {
			t.Errorf("said %v", err)
		}
	}
	if len(on.removed) != 2 {
		t.Errorf("tried %d times in two looks", len(on.removed))
	}
}
