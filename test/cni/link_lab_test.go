// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	agentlinks "github.com/kubernetsn/kubernetsn/internal/node/agent/links"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// linkVNI is a VNI that no network over Open vSwitch can have.
const linkVNI = 0x800005

// end is one end of a link.
type end struct {
	*pod
	name      string
	addresses []string
	routes    []string
	forward   []string
}

// linkedPods is a link between two pods.
type linkedPods struct {
	vni              int
	mtu              int
	client, endpoint *end
}

// newLinked returns an unplugged link between pods of one or two nodes.
func newLinked(client, endpoint *pod, vni int) *linkedPods {
	number := vni & 0xff
	return &linkedPods{
		vni: vni, mtu: 1450,
		client:   &end{pod: client, name: "up0", addresses: []string{fmt.Sprintf("10.200.%d.0/31", number), fmt.Sprintf("fd00:200:%d::/127", number)}},
		endpoint: &end{pod: endpoint, name: "down0", addresses: []string{fmt.Sprintf("10.200.%d.1/31", number), fmt.Sprintf("fd00:200:%d::1/127", number)}},
	}
}

// withoutLength returns addresses without prefix lengths.
func withoutLength(addresses []string) []string {
	var all []string
	for _, address := range addresses {
		all = append(all, netip.MustParsePrefix(address).Addr().String())
	}
	return all
}

// config returns the configuration that plugs one end.
func (l *linkedPods) config(local, other *end) map[string]any {
	clientMAC, endpointMAC := attachment.LinkMACs(uint32(l.vni))
	mac, peerMAC := clientMAC.String(), endpointMAC.String()
	if local == l.endpoint {
		mac, peerMAC = peerMAC, mac
	}
	peer := fields{"addresses": withoutLength(other.addresses), "mac": peerMAC}
	if local.node != other.node {
		peer["node"] = other.node.address.String()
	}
	link := fields{"addresses": local.addresses, "mac": mac, "peer": peer}
	if local.routes != nil {
		link["routes"] = local.routes
	}
	if local.forward != nil {
		link["forward"] = local.forward
	}
	return local.node.config(fields{"ipam": nil, "capabilities": nil, "socketDir": nil, "vni": l.vni, "mtu": l.mtu, "link": link})
}

func (l *linkedPods) configOf(local *end) map[string]any {
	if local == l.client {
		return l.config(l.client, l.endpoint)
	}
	return l.config(l.endpoint, l.client)
}

// attachment returns the runtime configuration of the link.
func (e *end) attachment() *libcni.RuntimeConf {
	named := e.pod.attachment()
	named.IfName = e.name
	return named
}

// plugWith plugs one end.
func (l *linkedPods) plugWith(t testing.TB, runtime *libcni.CNIConfig, local *end) error {
	t.Helper()
	_, err := runtime.AddNetworkList(context.Background(), rename(t, attachment.LinkNetwork, l.configOf(local)), local.attachment())
	return err
}

// plug plugs both ends, and unplugs them at the end of the test.
func (l *linkedPods) plug(t testing.TB) {
	t.Helper()
	for _, local := range []*end{l.client, l.endpoint} {
		if err := l.plugWith(t, local.node.runtime, local); err != nil {
			t.Fatalf("plug %s: %v", local.name, err)
		}
		t.Cleanup(func() { l.unplug(t, local) })
	}
}

func (l *linkedPods) unplug(t testing.TB, local *end) {
	t.Helper()
	must(t, local.node.runtime.DelNetworkList(context.Background(), rename(t, attachment.LinkNetwork, l.configOf(local)), local.attachment()))
}

// check runs CHECK for the link.
func (l *linkedPods) check(t testing.TB, local *end) error {
	t.Helper()
	return local.node.runtime.CheckNetworkList(context.Background(), rename(t, attachment.LinkNetwork, l.configOf(local)), local.attachment())
}

// sandboxes returns the configuration with which a runtime records sandboxes.
func (n *node) sandboxes(t testing.TB) *libcni.NetworkConfigList {
	t.Helper()
	config := n.config(fields{"ipam": nil, "capabilities": nil, "vni": nil, "socketDir": nil, "uplink": nil, "links": true})
	return rename(t, attachment.SandboxNetwork, config)
}

func prefixesOf(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func addressesOf(texts []string) (all []netip.Addr) {
	for _, prefix := range prefixesOf(texts) {
		all = append(all, prefix.Addr())
	}
	return all
}

// quiet discards logs.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// tsnLinks is a fake API server of TSNLinks.
type tsnLinks struct {
	client.SubResourceWriter
	mu      sync.Mutex
	objects map[types.NamespacedName]*v1alpha1.TSNLink
	// patches counts the writes.
	patches int
}

func (l *tsnLinks) Get(name types.NamespacedName) *v1alpha1.TSNLink {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[name].DeepCopy()
}

func (l *tsnLinks) All() ([]types.NamespacedName, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.objects)), true
}

func (l *tsnLinks) set(link *v1alpha1.TSNLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.objects == nil {
		l.objects = map[types.NamespacedName]*v1alpha1.TSNLink{}
	}
	l.objects[client.ObjectKeyFromObject(link)] = link
}

func (l *tsnLinks) remove(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.objects, name)
}

// Patch applies an end's part of the status like the API server.
func (l *tsnLinks) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var patch v1alpha1.TSNLink
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, &patch); err != nil {
		return err
	}
	link := l.objects[client.ObjectKeyFromObject(object)]
	if link == nil {
		return nil
	}
	l.patches++
	for _, condition := range patch.Status.Conditions {
		meta.SetStatusCondition(&link.Status.Conditions, condition)
	}
	if patch.Status.MeasuredMTU > 0 {
		link.Status.MeasuredMTU = patch.Status.MeasuredMTU
	}
	if patch.Status.Since != nil {
		link.Status.Since = patch.Status.Since
	}
	return nil
}

// linkAgent is the part of a node's agent that plugs links.
type linkAgent struct {
	*node
	links      *tsnLinks
	sandboxes  *attachment.SandboxList
	prober     *linkprobe.Prober
	reconciler *agentlinks.Reconciler
	stop       context.CancelFunc
	done       sync.WaitGroup
}

// startLinkAgent starts the agent. The end of the test stops it.
func (n *node) startLinkAgent(t testing.TB, name string, all *tsnLinks) *linkAgent {
	t.Helper()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	a := &linkAgent{node: n, links: all, sandboxes: &attachment.SandboxList{StateDir: filepath.Join(n.dir, "state")}}
	a.prober = &linkprobe.Prober{Changed: func(string) {}, Log: log}
	a.reconciler = &agentlinks.Reconciler{
		Node: name, Objects: all, Sandboxes: a.sandboxes, Plugin: a, Prober: a.prober, Status: all, Now: time.Now, Log: log,
		Files: &agentlinks.Files{PodDir: a.podDir}, Hosts: &agentlinks.Hosts{Dir: filepath.Join(n.dir, "kubelet")},
		Capacity: a.carried, HasPod: func(context.Context, string) bool { return true },
	}
	a.reconciler.Encryption = func(encryption.LinkMode, *v1alpha1.LinkEnd, *v1alpha1.LinkEnd) encryption.LinkState {
		return encryption.LinkState{Refused: "node " + name + " cannot encrypt"}
	}
	a.start(t)
	return a
}

// podDir returns the folder that the pod mounts as /run/ktsn.
func (n *node) podDir(uid string) string { return filepath.Join(n.dir, "podfolders", uid) }

func (a *linkAgent) start(t testing.TB) {
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.done.Go(func() { _ = a.prober.Run(ctx) })
	a.done.Go(func() { a.loop(ctx) })
	t.Cleanup(a.end)
}

// end stops it like a killed agent, without cleaning up.
func (a *linkAgent) end() {
	a.stop()
	a.done.Wait()
}

// loop reconciles all links, in the node's network namespace.
func (a *linkAgent) loop(ctx context.Context) {
	before := map[types.NamespacedName]bool{}
	for ctx.Err() == nil {
		_, _ = a.sandboxes.Refresh()
		now := map[types.NamespacedName]bool{}
		names, _ := a.links.All()
		for _, name := range names {
			now[name] = true
		}
		for name := range before {
			now[name] = true
		}
		_ = a.Do(func() error {
			for name := range now {
				_, _ = a.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: name})
			}
			_ = a.reconciler.Hosts.Refresh()
			return nil
		})
		before = map[types.NamespacedName]bool{}
		for _, name := range names {
			before[name] = true
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sweepOnce removes what is left of deleted links.
func (a *linkAgent) sweepOnce() error {
	return a.Do(func() error {
		_, err := a.reconciler.Reconcile(context.Background(), reconcile.Request{})
		return err
	})
}

func (a *linkAgent) options() *attachment.LinkOptions {
	return &attachment.LinkOptions{StateDir: filepath.Join(a.dir, "state"), ControlSocket: a.control(), Patience: patience}
}

func (a *linkAgent) Plug(ctx context.Context, plan *attachment.LinkPlan) error {
	return attachment.PlugLink(ctx, a.options(), plan)
}

func (a *linkAgent) Unplug(ctx context.Context, plugged *attachment.Plugged) error {
	return attachment.UnplugLinks(ctx, a.options(), []*attachment.Plugged{plugged})[0]
}

func (a *linkAgent) Close(plugged *attachment.Plugged) error { return attachment.CloseLink(plugged) }

func (a *linkAgent) Plugged(name string) ([]attachment.Plugged, error) {
	return attachment.PluggedLinks(filepath.Join(a.dir, "state"), name)
}

func (a *linkAgent) Ports() (map[string]bool, error) {
	links, err := netdev.Dump(netlink.LinkList)
	all := map[string]bool{}
	for _, link := range links {
		all[link.Attrs().Name] = true
	}
	return all, err
}

func (a *linkAgent) carried(context.Context, netip.Addr, bool) (agentlinks.Capacity, error) {
	link, err := netlink.LinkByName(uplinkName)
	if err != nil {
		return agentlinks.Capacity{}, err
	}
	return agentlinks.Capacity{Uplink: link.Attrs().MTU - 50, Local: a.address}, nil
}

// linkLab is two nodes with agents.
type linkLab struct {
	*lab
	links *tsnLinks
	agent map[*node]*linkAgent
}

func newAgentsLab(t testing.TB) *linkLab {
	t.Helper()
	lab := newLinkLab(t)
	l := &linkLab{lab: lab, links: &tsnLinks{}, agent: map[*node]*linkAgent{}}
	l.agent[lab.a] = lab.a.startLinkAgent(t, "a", l.links)
	l.agent[lab.b] = lab.b.startLinkAgent(t, "b", l.links)
	return l
}

func (l *linkLab) nameOf(n *node) string {
	if n == l.a {
		return "a"
	}
	return "b"
}

// sandbox creates a pod's sandbox with the folders of kubelet and the agent.
func (l *linkLab) sandbox(t testing.TB, n *node) *pod {
	t.Helper()
	p := n.newPod(t)
	must(t, os.MkdirAll(n.podDir(p.uid), 0o755))
	must(t, os.MkdirAll(filepath.Join(n.dir, "kubelet", p.uid), 0o755))
	must(t, os.WriteFile(p.hosts(), []byte("127.0.0.1\tlocalhost\n"), 0o644))
	must(t, n.attach(n.sandboxes(t), p.attachment()))
	t.Cleanup(func() { _ = n.runtime.DelNetworkList(context.Background(), n.sandboxes(t), p.attachment()) })
	return p
}

// hosts returns the path of the pod's /etc/hosts.
func (p *pod) hosts() string { return filepath.Join(p.node.dir, "kubelet", p.uid, "etc-hosts") }

// link creates a TSNLink between two pods.
func (l *linkLab) link(name string, pair *linkedPods, change func(*v1alpha1.TSNLinkSpec)) types.NamespacedName {
	object := l.object(name, pair)
	if change != nil {
		change(&object.Spec)
	}
	l.links.set(object)
	return client.ObjectKeyFromObject(object)
}

// object returns a TSNLink as the operator creates it.
func (l *linkLab) object(name string, pair *linkedPods) *v1alpha1.TSNLink {
	end := func(pair *end) v1alpha1.LinkEnd {
		return v1alpha1.LinkEnd{
			Namespace: "default", Pod: pair.id, UID: pair.uid, Node: l.nameOf(pair.node), NodeAddress: pair.node.address.String(),
			Interface: pair.name, Addresses: pair.addresses, Routes: pair.routes, Forward: pair.forward,
		}
	}
	object := &v1alpha1.TSNLink{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.Now(),
			Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerOperator}},
		Spec: v1alpha1.TSNLinkSpec{Service: "shop", VNI: int32(pair.vni), Client: end(pair.client), Endpoint: end(pair.endpoint)},
	}
	object.Spec.Client.Names = []string{"shop", "shop.default"}
	object.Spec.Endpoint.Names = []string{pair.client.id}
	return object
}

// awaitCondition waits until a condition of a link has a status, and returns it.
func (l *linkLab) awaitCondition(t testing.TB, name types.NamespacedName, condition string, status metav1.ConditionStatus) metav1.Condition {
	t.Helper()
	return testlab.EventuallyValue(t, patience, 5*time.Millisecond, func() (metav1.Condition, error) {
		link := l.links.Get(name)
		if link == nil {
			return metav1.Condition{}, fmt.Errorf("there is no link %s", name.Name)
		}
		if reported := meta.FindStatusCondition(link.Status.Conditions, condition); reported != nil && reported.Status == status {
			return *reported, nil
		}
		text, _ := json.Marshal(link.Status)
		return metav1.Condition{}, fmt.Errorf("%s of link %s does not become %s: %s", condition, name.Name, status, text)
	})
}
