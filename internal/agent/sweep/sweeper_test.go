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

	"github.com/kubernetsn/kubernetsn/internal/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/cni"
	"github.com/kubernetsn/kubernetsn/internal/control"
	"github.com/kubernetsn/kubernetsn/internal/overlay"
)

// fakeNode remembers what was removed.
type fakeNode struct {
	things
	removed []string
	refuse  error
}

func (f *fakeNode) note(text string) error {
	f.removed = append(f.removed, text)
	return f.refuse
}

func (f *fakeNode) All() ([]csi.Volume, error) { return f.volumes, nil }
func (f *fakeNode) Forget(_ context.Context, volume csi.Volume) error {
	return f.note("volume " + volume.UID)
}
func (f *fakeNode) PodDirs() ([]string, error)                    { return f.dirs, nil }
func (f *fakeNode) RemovePod(_ context.Context, uid string) error { return f.note("folder " + uid) }
func (f *fakeNode) List() ([]cni.Attached, error)                 { return f.attached, nil }
func (f *fakeNode) Detach(_ context.Context, one *cni.Attached) error {
	return f.note("interface " + one.Identity)
}
func (f *fakeNode) Pods(context.Context) ([]control.Pod, error) { return f.pods, nil }
func (f *fakeNode) SocketDel(_ context.Context, identity string) error {
	return f.note("socket " + identity)
}
func (f *fakeNode) EndpointDel(_ context.Context, who, _ string) error {
	return f.note("endpoint " + who)
}
func (f *fakeNode) Endpoints(context.Context) ([]control.AttachedEndpoint, error) {
	return f.endpoints, nil
}

func newSweeper(on *fakeNode, pods ...*corev1.Pod) *Sweeper {
	objects := fake.NewClientBuilder()
	for _, pod := range pods {
		objects = objects.WithObjects(pod)
	}
	return &Sweeper{
		Pods: objects.Build(), Volumes: on, Plugin: on, Swept: func(string) {},
		Do:     func(ctx context.Context, ask func(context.Context, Ktsnd) error) error { return ask(ctx, on) },
		Exists: func(path string) bool { return path == "/there" },
		Log:    slog.New(slog.DiscardHandler),
	}
}

func pod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}}
}

func attached(identity string, gone bool) cni.Attached {
	return cni.Attached{Attachment: overlay.Attachment{Identity: identity, Interface: "tsn0"}, Gone: gone}
}

func endpoint(identity, netns string) control.AttachedEndpoint {
	return control.AttachedEndpoint{Endpoint: control.Endpoint{Identity: identity, Interface: "tsn0", Netns: netns}}
}

func TestOnlyWhatIsLeftIsRemoved(t *testing.T) {
	static := pod("mirror")
	static.Annotations = map[string]string{staticUID: "static"}
	for name, test := range map[string]struct {
		have things
		want string
	}{
		"nothing of pods that are there": {things{
			volumes: []csi.Volume{{UID: "alive"}}, dirs: []string{"alive"}, attached: []cni.Attached{attached("alive", true), attached("static", true)},
			pods: []control.Pod{{Identity: "alive", Path: "/x"}}, endpoints: []control.AttachedEndpoint{endpoint("alive", "/gone")},
		}, ""},
		"all of one that is gone": {things{
			volumes: []csi.Volume{{UID: "gone"}}, dirs: []string{"gone"}, attached: []cni.Attached{attached("gone", true)},
			pods: []control.Pod{{Identity: "gone", Path: "/x"}}, endpoints: []control.AttachedEndpoint{endpoint("gone", "/gone")},
		}, "folder gone, interface gone, socket gone, volume gone"},
		"not the interface as long as the network namespace is there": {things{
			attached: []cni.Attached{attached("gone", false)}, endpoints: []control.AttachedEndpoint{endpoint("gone", "/there")},
		}, ""},
		"an endpoint that nobody remembers": {things{
			endpoints: []control.AttachedEndpoint{endpoint("gone", "/gone"), endpoint("also-gone", "/there")},
		}, "endpoint gone"},
	} {
		t.Run(name, func(t *testing.T) {
			on := &fakeNode{things: test.have}
			s := newSweeper(on, pod("alive"), static)
			if err := s.Look(t.Context()); err != nil || len(on.removed) > 0 {
				t.Fatalf("the first look removed %q, %v", on.removed, err)
			}
			if err := s.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			slices.Sort(on.removed)
			if got := strings.Join(on.removed, ", "); got != test.want {
				t.Errorf("removed %q, want %q", got, test.want)
			}
		})
	}
}

func TestAPodThatComesBackIsSpared(t *testing.T) {
	on := &fakeNode{things: things{volumes: []csi.Volume{{UID: "late"}}}}
	s := newSweeper(on)
	if err := s.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Pods.(client.Client).Create(t.Context(), pod("late")); err != nil {
		t.Fatal(err)
	}
	if err := s.Look(t.Context()); err != nil || len(on.removed) > 0 {
		t.Errorf("removed %q, %v", on.removed, err)
	}
}

func TestWhatCannotBeRemovedIsTriedAgain(t *testing.T) {
	on := &fakeNode{things: things{dirs: []string{"gone"}}, refuse: errors.New("busy")}
	s := newSweeper(on)
	for range 3 {
		err := s.Look(t.Context())
		if len(on.removed) > 0 && (err == nil || !strings.Contains(err.Error(), "remove folder gone, which no pod has any more: busy")) {
			t.Errorf("said %v", err)
		}
	}
	if len(on.removed) != 2 {
		t.Errorf("tried %d times in two looks", len(on.removed))
	}
}
