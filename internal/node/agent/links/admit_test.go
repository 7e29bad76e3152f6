// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeCluster has links, a pod of the UID "e", and what is said of links.
type fakeCluster struct {
	client.SubResourceWriter
	links    map[types.NamespacedName]*v1alpha1.TSNLink
	statuses []string
}

func (f *fakeCluster) Get(name types.NamespacedName) *v1alpha1.TSNLink { return f.links[name] }

func (f *fakeCluster) All() ([]types.NamespacedName, bool) {
	return slices.Collect(maps.Keys(f.links)), true
}

func (f *fakeCluster) Youngest(identity string) (attachment.Sandbox, bool) {
	return attachment.Sandbox{Identity: identity, ContainerID: "c1"}, identity == "e"
}

func (f *fakeCluster) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	conditions, _, err := unstructured.NestedSlice(object.(*unstructured.Unstructured).Object, "status", "conditions")
	for _, condition := range conditions {
		entry := condition.(map[string]any)
		message, _ := entry["message"].(string)
		f.statuses = append(f.statuses, object.GetName()+" "+entry["type"].(string)+" "+entry["status"].(string)+": "+message)
	}
	return err
}

// hubs is a link of a hub's, whose endpoint is a pod of the node's, and which asks for encryption.
func newLink(name, mode string, decision admission) *v1alpha1.TSNLink {
	link := newSide(mode, false, true).link
	link.Name, link.Namespace, link.Generation, link.Spec.Endpoint.Node = name, "ns", 2, "n"
	link.Labels = map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}
	condition := metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, ObservedGeneration: link.Generation}
	switch decision {
	case refused:
		condition.Status = metav1.ConditionFalse
	case unknown:
		condition.ObservedGeneration--
	}
	meta.SetStatusCondition(&link.Status.Conditions, condition)
	return link
}

// pluggedAs is what the plugin has of a link's endpoint.
func newPlugged(link *v1alpha1.TSNLink, encrypted bool) attachment.Plugged {
	end := &link.Spec.Endpoint
	plugged := attachment.Plugged{Sandbox: attachment.Sandbox{Identity: end.UID, ContainerID: "c1"}, Interface: end.Interface, VNI: uint32(link.Spec.VNI), Encrypted: encrypted}
	plugged.Link.Addresses, _ = prefixes("addresses", end.Addresses)
	return plugged
}

// aNode is an agent that has just started.
func newTestReconciler(t *testing.T, plugin *fakePlugin, links ...*v1alpha1.TSNLink) (*Reconciler, *fakeCluster) {
	t.Helper()
	cluster := &fakeCluster{links: map[types.NamespacedName]*v1alpha1.TSNLink{}}
	for _, link := range links {
		cluster.links[client.ObjectKeyFromObject(link)] = link
	}
	folder := t.TempDir()
	testlab.Must(t, os.Mkdir(filepath.Join(folder, "e"), 0o700))
	return &Reconciler{
		Node: "n", Objects: cluster, Sandboxes: cluster, Status: cluster, Plugin: plugin, Prober: &linkprobe.Prober{}, Now: time.Now,
		Files: &Files{PodDir: func(uid string) string { return filepath.Join(folder, uid) }}, Hosts: &Hosts{Dir: t.TempDir()}, Log: slog.New(slog.DiscardHandler),
		Capacity: func(context.Context, netip.Addr, bool) (Capacity, error) { return Capacity{Uplink: 1450}, nil },
		Encryption: func(encryption.LinkMode, *v1alpha1.LinkEnd, *v1alpha1.LinkEnd) encryption.LinkState {
			return encryption.LinkState{Unknown: "nobody looked"}
		},
	}, cluster
}

// reconciled has the agent look at link a.
func reconcileAll(t *testing.T, r *Reconciler) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}}); err != nil {
		t.Fatal(err)
	}
}

func TestReconcileUnplugsClearLink(t *testing.T) {
	for what, condition := range map[string]admission{"how it is encrypted": admitted, "whether it may be": unknown} {
		for asked, want := range map[string]string{v1alpha1.EncryptionRequired: "e view0", v1alpha1.EncryptionPreferred: ""} {
			link := newLink("a", asked, condition)
			plugin := &fakePlugin{plugged: []attachment.Plugged{newPlugged(link, false)}}
			r, cluster := newTestReconciler(t, plugin, link)
			r.ends.plug("e view0", client.ObjectKeyFromObject(link), &attachment.LinkPlan{}, time.Now())
			reconcileAll(t, r)
			if got := strings.Join(plugin.unplugged, ","); got != want {
				t.Errorf("%s is not known, %s: unplugged %q", what, asked, got)
			}
			if statuses := strings.Join(cluster.statuses, "; "); strings.Contains(statuses, "EndpointPlugged False") != (want != "") {
				t.Errorf("%s is not known, %s: it says %q", what, asked, statuses)
			}
		}
	}
}

func TestReconcileUnplugsRefusedLink(t *testing.T) {
	for what, test := range map[string]struct {
		other      admission
		deleted    bool
		vni        int32
		hasStarted bool
		want       string
	}{
		"there is no other":                     {other: refused, want: "e view0"},
		"the other is plugged":                  {other: admitted, hasStarted: true},
		"the other was, by a former agent":      {other: admitted},
		"nobody has said what the other may be": {other: unknown},
		"the other is being deleted":            {other: admitted, deleted: true, want: "e view0"},
		"the other has another number":          {other: admitted, vni: 1, want: "e view0"},
	} {
		link, other := newLink("a", "", refused), newLink("b", "", test.other)
		other.Spec.VNI += test.vni
		if test.deleted {
			other.DeletionTimestamp = &metav1.Time{}
		}
		plugin := &fakePlugin{plugged: []attachment.Plugged{newPlugged(link, false)}}
		r, cluster := newTestReconciler(t, plugin, link, other)
		if test.hasStarted {
			r.ends.plug("e view0", client.ObjectKeyFromObject(other), &attachment.LinkPlan{}, time.Now())
		}
		reconcileAll(t, r)
		if got := strings.Join(plugin.unplugged, ","); got != test.want {
			t.Errorf("%s: unplugged %q", what, got)
		}
		if statuses := strings.Join(cluster.statuses, "; "); !strings.Contains(statuses, "a EndpointPlugged False: pods of this cluster have not") {
			t.Errorf("%s: it says %q", what, statuses)
		}
		if _, owned := r.ends.ownerOf("e view0"); owned != test.hasStarted {
			t.Errorf("%s: the agent has forgotten the other: %v", what, !owned)
		}
		if files, err := filepath.Glob(r.Files.PodDir("e/*/*")); err != nil || len(files) > 0 != (test.want != "") {
			t.Errorf("%s: the pod was told %v, %v", what, files, err)
		}
	}
}

func TestReconcileKeepsUndecidedLink(t *testing.T) {
	for what, test := range map[string]struct {
		encrypted, bySelf bool
		change            func(*attachment.Plugged)
		// says is a part of what it says, "" if it says nothing.
		says, unplugged string
	}{
		"it is there":                    {encrypted: true},
		"it is there in clear":           {says: "EndpointPlugged False: ktsn-operator has not decided yet", unplugged: "e view0"},
		"of another number":              {encrypted: true, change: func(plugged *attachment.Plugged) { plugged.VNI++ }, says: "has not decided yet"},
		"with another address":           {encrypted: true, change: func(plugged *attachment.Plugged) { plugged.Link.Addresses = nil }, says: "has not decided yet"},
		"as it was when it was admitted": {encrypted: true, bySelf: true, change: func(plugged *attachment.Plugged) { plugged.Link.Addresses = nil }},
		"of a sandbox that has gone":     {encrypted: true, change: func(plugged *attachment.Plugged) { plugged.ContainerID = "c0" }, says: "has not decided yet"},
	} {
		link := newLink("a", v1alpha1.EncryptionRequired, unknown)
		plugged := newPlugged(link, test.encrypted)
		if test.change != nil {
			test.change(&plugged)
		}
		plugin := &fakePlugin{plugged: []attachment.Plugged{plugged}}
		r, cluster := newTestReconciler(t, plugin, link)
		if test.bySelf {
			r.ends.plug("e view0", client.ObjectKeyFromObject(link), &attachment.LinkPlan{}, time.Now())
		}
		reconcileAll(t, r)
		if got := strings.Join(plugin.unplugged, ","); got != test.unplugged {
			t.Errorf("%s: unplugged %q", what, got)
		}
		if statuses := strings.Join(cluster.statuses, "; "); !strings.Contains(statuses, test.says) || (statuses == "") != (test.says == "") {
			t.Errorf("%s: it says %q", what, statuses)
		}
	}
}

func TestSweepKeepsNamesOfUndecidedLink(t *testing.T) {
	for decision, want := range map[admission]bool{unknown: true, refused: false} {
		r, _ := newTestReconciler(t, &fakePlugin{}, newLink("a", "", decision))
		var path string
		left := kubelets + hostsBegin + "\n10.200.5.1\tshop\n" + hostsEnd + "\n"
		r.Hosts, path = newPod(t, left)
		for range 2 {
			testlab.Must(t, r.sweep(t.Context()))
		}
		if got := read(t, path); (got == left) != want {
			t.Errorf("admission %v: the file is %q", decision, got)
		}
	}
}

// TestConsent has a service of another namespace whose owner gives its clients routes.
func TestConsent(t *testing.T) {
	const chain = "10.200.0.3/32" // of a pod behind the first one
	for name, test := range map[string]struct {
		namespace, annotation string
		unknown               bool
		routes, left          string
	}{
		"nothing":               {"other", "", false, chain, "0.0.0.0/1, 10.96.0.10/32"},
		"a range":               {"other", "10.96.0.0/12", false, "10.96.0.10/32 " + chain, "to 0.0.0.0/1; name"},
		"all":                   {"other", "0.0.0.0/0, ::/0", false, "0.0.0.0/1 10.96.0.10/32 " + chain, ""},
		"a part of a range":     {"other", "0.0.0.0/2", false, "10.96.0.10/32 " + chain, "0.0.0.0/1"},
		"no range":              {"other", "10.96.0.10", false, "", ""},
		"what nobody knows yet": {"other", "", true, "", ""},
		"nothing, in its own":   {"ns", "", false, "0.0.0.0/1 10.96.0.10/32 " + chain, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newTestReconciler(t, &fakePlugin{})
			r.Consent = func(context.Context, *v1alpha1.LinkEnd) (string, bool) { return test.annotation, !test.unknown }
			s := newSide(v1alpha1.EncryptionNone, false, true)
			s.isClient, s.link.Namespace, s.end.Namespace = true, "ns", test.namespace
			s.end.Routes = []string{"0.0.0.0/1", "10.96.0.10/32", chain}
			s.end.Hosts = []v1alpha1.LinkHost{{Name: "s", Addresses: []string{"10.200.0.3"}}}
			plan, err := r.plan(t.Context(), s)
			if test.routes == "" {
				if err == nil {
					t.Errorf("the plan is %+v", plan)
				}
				return
			}
			testlab.Must(t, err)
			var routes []string
			for _, route := range plan.Link.Routes {
				routes = append(routes, route.String())
			}
			if got := strings.Join(routes, " "); got != test.routes || !strings.Contains(s.refusedRoutes, test.left) || (test.left == "") != (s.refusedRoutes == "") {
				t.Errorf("routes %s, message %q, want %s, %q", got, s.refusedRoutes, test.routes, test.left)
			}
			if plugged := r.buildReport(s, &outcome{mtu: 1450, refusedRoutes: s.refusedRoutes}).Conditions[0]; plugged.Message != s.refusedRoutes || plugged.Status != metav1.ConditionTrue {
				t.Errorf("the condition is %+v", plugged)
			}
		})
	}
}
