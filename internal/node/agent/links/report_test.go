// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const encryptedPort = 4793

// aSide is the endpoint's end of a link.
func newSide(mode string, local, plugged bool) *side {
	link := &v1alpha1.TSNLink{Spec: v1alpha1.TSNLinkSpec{
		Service: "camera", VNI: v1alpha1.FirstLinkVNI, Encryption: mode,
		Client:   v1alpha1.LinkEnd{UID: "c", NodeAddress: "192.0.2.1", Interface: "cam", Addresses: []string{"10.200.0.0/31"}},
		Endpoint: v1alpha1.LinkEnd{UID: "e", NodeAddress: "192.0.2.2", Interface: "view0", Addresses: []string{"10.200.0.1/31"}},
	}}
	if plugged {
		link.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEndpointPlugged, Status: metav1.ConditionTrue}}
	}
	return &side{link: link, end: &link.Spec.Endpoint, otherEnd: &link.Spec.Client, local: local}
}

func TestEncrypt(t *testing.T) {
	const none, preferred, required = v1alpha1.EncryptionNone, v1alpha1.EncryptionPreferred, v1alpha1.EncryptionRequired
	for name, test := range map[string]struct {
		asked          string
		local, plugged bool
		state          encryption.LinkState
		encrypted      bool
		refused, note  string
	}{
		"none is asked for":                      {asked: none},
		"nothing leaves the node":                {asked: required, local: true, state: encryption.LinkState{Refused: "this node cannot"}},
		"preferred, and both nodes can":          {asked: preferred, encrypted: true, note: "are encrypted"},
		"required, and both nodes can":           {asked: required, encrypted: true, note: "are encrypted"},
		"preferred, and one cannot":              {asked: preferred, state: encryption.LinkState{Clear: "node a cannot encrypt"}, note: "leave in clear, as the service's encryption allows: node a cannot"},
		"required, and one cannot":               {asked: required, state: encryption.LinkState{Refused: "node a cannot encrypt"}, refused: "the service requires encryption, and node a cannot"},
		"no keys yet":                            {asked: preferred, state: encryption.LinkState{Silent: "no keys"}, refused: "are to be encrypted, and no keys"},
		"no keys any more":                       {asked: required, plugged: true, state: encryption.LinkState{Silent: "no keys"}, encrypted: true, note: "are encrypted"},
		"nothing is known yet":                   {asked: preferred, state: encryption.LinkState{Unknown: "nobody looked"}, refused: "not known yet: nobody looked"},
		"nothing is known, and it was plugged":   {asked: required, plugged: true, state: encryption.LinkState{Unknown: "nobody looked"}, refused: "not known yet"},
		"it was plugged, and cannot be any more": {asked: required, plugged: true, state: encryption.LinkState{Refused: "this node cannot"}, refused: "this node cannot"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{
				Now: time.Now, Capacity: func(context.Context, netip.Addr, bool) (Capacity, error) { return Capacity{Uplink: 1450}, nil }, EncryptedPort: encryptedPort,
				Encryption: func(mode encryption.LinkMode, here, there *v1alpha1.LinkEnd) encryption.LinkState {
					if bool(mode) != (test.asked == required) || here.UID != "e" || there.UID != "c" {
						t.Errorf("asked of mode %v from %s to %s", mode, here.UID, there.UID)
					}
					return test.state
				},
			}
			s := newSide(test.asked, test.local, test.plugged)
			plan, err := r.plan(t.Context(), s)
			testlab.Must(t, err)
			secret, err := r.encrypt(s, plan)
			if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Fatalf("got %v", err)
			}
			message := r.buildReport(s, &outcome{err: err, encryptionNotes: secret}).Conditions[0].Message
			if plan.Encrypted != test.encrypted || (plan.Port == encryptedPort) != test.encrypted || !strings.Contains(message, test.note+test.refused) {
				t.Errorf("encrypted %v by port %d, and its condition says %q", plan.Encrypted, plan.Port, message)
			}
			if less := test.asked != none && !test.local; plan.MTU != 1450-map[bool]int{true: xfrm.OverheadBytes}[less] || plan.MTU < overlay.MinMTU {
				t.Errorf("it has an MTU of %d", plan.MTU)
			}
			if (secret.silent != "") != (test.encrypted && test.state.Silent != "") {
				t.Errorf("that nothing can be sent is said by %q", secret.silent)
			}
		})
	}
}

func TestUpdatePodReportsMissingKeys(t *testing.T) {
	dir := t.TempDir()
	r := &Reconciler{Now: time.Now, Files: &Files{PodDir: func(string) string { return dir }}, Hosts: &Hosts{Dir: t.TempDir()}}
	s := newSide(v1alpha1.EncryptionRequired, false, true)
	const why = "frames to the other node are to be encrypted, and are not sent: node west/a: its cluster signs by another key"
	done := &outcome{mtu: 1413, finding: linkprobe.Finding{Message: "10.200.0.0, the other end, does not answer"}, encryptionNotes: encryptionNotes{silent: why}}
	testlab.Must(t, r.updatePod(s, done))
	text, err := os.ReadFile(filepath.Join(dir, "links", "view0.waiting"))
	if err != nil || string(text) != "link to service camera: plugged here; "+why+"\n" {
		t.Errorf("it is told %q: %v", text, err)
	}
}

// fakePlugin has links that are plugged.
type fakePlugin struct {
	Plugin
	plugged   []attachment.Plugged
	unplugged []string
	// closed are the pods that were to send to the other end by no other way.
	closed []string
}

func (f *fakePlugin) Close(plugged *attachment.Plugged) error {
	f.closed = append(f.closed, plugged.Identity+" "+plugged.Interface)
	return nil
}

func (f *fakePlugin) Plugged(string) ([]attachment.Plugged, error) { return f.plugged, nil }

func (f *fakePlugin) Ports() (map[string]bool, error) { return nil, nil }

func (f *fakePlugin) Unplug(_ context.Context, plugged *attachment.Plugged) error {
	f.unplugged = append(f.unplugged, plugged.Identity+" "+plugged.Interface)
	gone := plugged.Identity + " " + plugged.Interface + " " + plugged.ContainerID
	f.plugged = slices.DeleteFunc(slices.Clone(f.plugged), func(left attachment.Plugged) bool {
		return left.Identity+" "+left.Interface+" "+left.ContainerID == gone
	})
	return nil
}

func TestUnplugClear(t *testing.T) {
	for asked, want := range map[string]bool{v1alpha1.EncryptionRequired: true, v1alpha1.EncryptionPreferred: false, v1alpha1.EncryptionNone: false} {
		for _, encrypted := range []bool{false, true} {
			plugin := &fakePlugin{}
			for _, uid := range []string{"e", "other"} {
				plugin.plugged = append(plugin.plugged, attachment.Plugged{Sandbox: attachment.Sandbox{Identity: uid}, Interface: "view0", Encrypted: encrypted})
			}
			r := &Reconciler{
				Plugin: plugin, Prober: &linkprobe.Prober{}, Files: &Files{PodDir: func(string) string { return t.TempDir() }},
				Hosts: &Hosts{Dir: t.TempDir()}, Log: slog.New(slog.DiscardHandler),
			}
			unplugged, err := r.unplugClear(t.Context(), newSide(asked, false, true))
			testlab.Must(t, err)
			if got := strings.Join(plugin.unplugged, ","); (got == "e view0") != (want && !encrypted) || len(plugin.unplugged) > 1 || unplugged != (got != "") {
				t.Errorf("%s, encrypted %v: unplugged %q, and says %v", asked, encrypted, got, unplugged)
			}
			if !slices.Equal(plugin.closed, plugin.unplugged) {
				t.Errorf("%s, encrypted %v: unplugged %q, and closed %q", asked, encrypted, plugin.unplugged, plugin.closed)
			}
		}
	}
}

func TestUnplugClosesEncryptedLink(t *testing.T) {
	for encrypted, want := range map[bool]int{true: 1, false: 0} {
		plugin := &fakePlugin{}
		r := &Reconciler{
			Plugin: plugin, Prober: &linkprobe.Prober{}, Files: &Files{PodDir: func(string) string { return t.TempDir() }},
			Hosts: &Hosts{Dir: t.TempDir()}, Log: slog.New(slog.DiscardHandler),
		}
		r.ends.plug("e view0", types.NamespacedName{Name: "a"}, &attachment.LinkPlan{Sandbox: attachment.Sandbox{Identity: "e"}, Interface: "view0", Encrypted: encrypted}, time.Now())
		testlab.Must(t, r.removeLink(t.Context(), types.NamespacedName{Name: "a"}))
		if len(plugin.unplugged) != 1 || len(plugin.closed) != want {
			t.Errorf("encrypted %v: unplugged %q, and closed %q", encrypted, plugin.unplugged, plugin.closed)
		}
	}
}
