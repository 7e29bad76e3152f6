// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// Objects are the TSNLinks of the node.
type Objects interface {
	Get(name types.NamespacedName) *v1alpha1.TSNLink
	All() (all []types.NamespacedName, known bool)
}

// Sandboxes are those of the node into which links can be plugged.
type Sandboxes interface {
	Youngest(identity string) (attachment.Sandbox, bool)
}

// Plugin plugs links.
type Plugin interface {
	Plug(ctx context.Context, plan *attachment.LinkPlan) error
	Unplug(ctx context.Context, plugged *attachment.Plugged) error
	// Close has the pod refuse what is for the other end, until the link is plugged again.
	Close(plugged *attachment.Plugged) error
	// Plugged are those that there are of an interface's name, "" for all.
	Plugged(interfaceName string) ([]attachment.Plugged, error)
	// Ports are the names of the node's interfaces.
	Ports() (map[string]bool, error)
}

// Prober asks links whether they are up.
type Prober interface {
	Watch(name string, target *linkprobe.Target)
	Forget(name string)
	Of(name string) (linkprobe.Finding, bool)
}

// Carried says what packets this node, and the way to another one, carry; Own is where its tunnels end.
type Carried struct {
	// Uplink is the MTU that interfaces of pods can have by the node's uplink, Path by the way to the other node; 0: not known.
	Uplink, Path int
	Own          netip.Addr
}

// Reconciler makes true what one TSNLink says, or, called for no link, looks for what is left of none. It may be called by several
// goroutines, for a link by one at a time.
type Reconciler struct {
	// Node is the name of the node.
	Node      string
	Objects   Objects
	Sandboxes Sandboxes
	Plugin    Plugin
	Prober    Prober
	Files     *Files
	Hosts     *Hosts
	// Carried asks for the way to a node; foreign tells that it is of another cluster.
	Carried func(ctx context.Context, other netip.Addr, foreign bool) (Carried, error)
	// Encryption tells how links with encryption to another node are encrypted, by tunnels to EncryptedPort.
	Encryption    func(mode encryption.LinkMode, here, there *v1alpha1.LinkEnd) encryption.LinkState
	EncryptedPort uint16
	// Consent returns the annotation of a pod of the node with the ranges in which it takes routes of services of other namespaces; known tells whether the
	// API server has told of the pod.
	Consent func(ctx context.Context, end *v1alpha1.LinkEnd) (annotation string, known bool)
	// HasPod tells whether a pod of the UID is the node's, whether or not its sandbox is known.
	HasPod func(ctx context.Context, uid string) bool
	// Status writes the links' status.
	Status client.SubResourceWriter
	Now    func() time.Time
	Log    *slog.Logger

	ends ends
}

// Again has r look again at links, by their names, when it finds that it must. It is to be called before all else.
func (r *Reconciler) Again(look func(types.NamespacedName)) { r.ends.look = look }

// Owner is the link that has an interface, by the name under which the prober knows it.
func (r *Reconciler) Owner(key string) (types.NamespacedName, bool) { return r.ends.ownerOf(key) }

const (
	// afterFailure is when to try again what failed, everyLook how often to look at a link that nobody speaks of.
	afterFailure = 2 * time.Second
	everyLook    = 5 * time.Minute
	// mendEvery is how often a link that does not answer is plugged again, which mends what somebody has undone.
	mendEvery = 10 * time.Second
	// settle is for how long the first answer of a link is waited for before it is said that it is plugged: mostly one report does.
	settle = 700 * time.Millisecond
)

// Reconcile looks at one link.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if request.Name == "" {
		if err := r.sweep(ctx); err != nil && ctx.Err() == nil {
			r.Log.Error("look for links that nobody has any more", "error", err)
			return reconcile.Result{RequeueAfter: afterFailure}, nil
		}
		return reconcile.Result{}, nil
	}
	link := r.Objects.Get(request.NamespacedName)
	if link == nil || link.DeletionTimestamp != nil {
		if err := r.gone(ctx, request.NamespacedName); err != nil {
			r.Log.Error("unplug", "link", request.NamespacedName, "error", err)
			return reconcile.Result{RequeueAfter: afterFailure}, nil
		}
		return reconcile.Result{}, nil
	}
	next := everyLook
	for _, one := range r.sides(link) {
		wait, err := r.look(ctx, one)
		if err != nil && ctx.Err() == nil {
			r.Log.Error("link", "link", request.NamespacedName, "end", one.name(), "error", err)
			wait = afterFailure
		}
		next = min(next, wait)
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// sides are the link's ends that may be on this node.
func (r *Reconciler) sides(link *v1alpha1.TSNLink) []*side {
	client := &side{link: link, own: &link.Spec.Client, other: &link.Spec.Endpoint, isClient: true}
	endpoint := &side{link: link, own: &link.Spec.Endpoint, other: &link.Spec.Client}
	var all []*side
	for _, one := range []*side{client, endpoint} {
		if one.own.Node != r.Node {
			continue
		}
		one.sandbox, one.hasSandbox = r.Sandboxes.Youngest(one.own.UID)
		_, otherHere := r.Sandboxes.Youngest(one.other.UID)
		one.local = otherHere && one.other.Node == r.Node
		all = append(all, one)
	}
	return all
}

// look makes one end what it shall be, and says what has become of it.
func (r *Reconciler) look(ctx context.Context, s *side) (again time.Duration, err error) {
	key := s.key()
	if !s.hasSandbox {
		return r.withoutSandbox(ctx, s)
	}
	switch s.admission() {
	case refused:
		return everyLook, r.refuse(ctx, s, refused)
	case unknown:
		return r.keep(ctx, s)
	}
	if younger := r.ends.claim(key, s.link); younger != "" {
		return everyLook, r.report(ctx, s, &outcome{err: fmt.Errorf("link %s has taken its place", younger)})
	}
	plan, err := r.plan(ctx, s)
	var secret secrecy
	if err == nil {
		secret, err = r.encrypt(s, plan)
	}
	if err == nil {
		err = r.plug(ctx, s, plan)
	} else {
		unplugged, errClear := r.unplugClear(ctx, s)
		if errors.Is(err, errNotKnown) && s.wasPlugged() && !unplugged {
			return afterFailure, errClear // what a former agent has plugged stays
		}
		err = errors.Join(err, errClear)
	}
	if err != nil {
		r.Log.Warn("a link cannot be plugged", "link", client.ObjectKeyFromObject(s.link), "end", s.name(), "error", oneLine(err))
		return afterFailure, errors.Join(r.tell(s, &outcome{err: err}), r.report(ctx, s, &outcome{err: err}))
	}
	done := &outcome{mtu: plan.MTU, secrecy: secret, refusedRoutes: s.refusedRoutes}
	if s.isClient {
		target := &linkprobe.Target{
			Netns: plan.Netns, Interface: plan.Interface, Own: plan.Link.Addresses[0].Addr(), Peer: plan.Link.Peer.Addresses[0],
			MTU: plan.MTU, Adapt: s.link.Spec.MTU == 0,
		}
		r.Prober.Watch(key, target)
		done.finding, _ = r.Prober.Of(key)
		if wait := r.ends.settling(key, r.Now()); wait > 0 && !done.finding.Up {
			return wait, nil
		}
	} else {
		done.finding = said(s.link)
	}
	err = errors.Join(r.tell(s, done), r.report(ctx, s, done))
	if s.isClient && !done.finding.Up {
		return mendEvery, err
	}
	return everyLook, err
}

// plan is what the end shall be.
func (r *Reconciler) plan(ctx context.Context, s *side) (*attachment.LinkPlan, error) {
	other, _ := netip.ParseAddr(s.other.NodeAddress)
	carried, err := r.Carried(ctx, other, s.other.Cluster != s.own.Cluster)
	if err != nil {
		return nil, err
	}
	linkPlan, err := s.plan(&carried)
	if err != nil {
		return nil, err
	}
	if !s.isClient || s.own.Namespace == s.link.Namespace {
		return linkPlan, nil
	}
	annotation, known := r.Consent(ctx, s.own)
	if !known {
		return nil, fmt.Errorf("which routes pod %s/%s takes is %w", s.own.Namespace, s.own.Pod, errNotKnown)
	}
	return linkPlan, s.consent(linkPlan, annotation)
}

// plug plugs what is not plugged as it shall be. What nobody answers by is plugged again now and then, which mends it.
func (r *Reconciler) plug(ctx context.Context, s *side, plan *attachment.LinkPlan) error {
	key := s.key()
	before := r.ends.plugged(key)
	if before != nil && before.ContainerID == plan.ContainerID && reflect.DeepEqual(before, plan) && !r.mends(s) {
		return nil
	}
	if err := r.unplugOthers(ctx, s, plan); err != nil {
		return err
	}
	began := r.Now()
	if err := r.Plugin.Plug(ctx, plan); err != nil {
		return err
	}
	if before == nil || !reflect.DeepEqual(before, plan) {
		r.Log.Info("plugged", "link", client.ObjectKeyFromObject(s.link), "end", s.name(), "interface", plan.Interface, "vni", plan.VNI, "mtu", plan.MTU,
			"routes", len(plan.Link.Routes), "took", r.Now().Sub(began))
	}
	r.ends.plug(key, client.ObjectKeyFromObject(s.link), plan, r.Now())
	return nil
}

// mends tells whether it is time to plug a link again that does not answer.
func (r *Reconciler) mends(s *side) bool {
	if !s.isClient {
		return r.ends.broken(s.key())
	}
	finding, watched := r.Prober.Of(s.key())
	return r.ends.broken(s.key()) || watched && !finding.Up && (finding.Broken || finding.Sentence != "") && r.ends.due(s.key(), r.Now())
}

// unplugOthers unplugs what has the interface's name in the pod, in this sandbox or a former one, and is another link.
func (r *Reconciler) unplugOthers(ctx context.Context, s *side, plan *attachment.LinkPlan) error {
	all, err := r.Plugin.Plugged(plan.Interface)
	if err != nil {
		return err
	}
	for i := range all {
		plugged := &all[i]
		if plugged.Identity != s.own.UID || plugged.Interface != s.own.Interface {
			continue
		}
		if plugged.ContainerID == plan.ContainerID && plugged.VNI == plan.VNI && plugged.Encrypted == plan.Encrypted && sameEnds(&plugged.Link, &plan.Link) {
			continue
		}
		r.Prober.Forget(s.key())
		if err := r.pull(ctx, plugged); err != nil {
			return fmt.Errorf("unplug what was there before: %w", err)
		}
	}
	return nil
}

func sameEnds(a, b *attachment.Link) bool {
	return reflect.DeepEqual(a.Addresses, b.Addresses) && reflect.DeepEqual(a.Peer.Addresses, b.Peer.Addresses) && a.MAC == b.MAC
}

// withoutSandbox is what to do of an end whose pod has no sandbox here.
func (r *Reconciler) withoutSandbox(ctx context.Context, s *side) (time.Duration, error) {
	key := s.key()
	had := r.ends.plugged(key) != nil
	if had {
		r.forget(s.own.UID, s.own.Interface, key)
	} else {
		r.Prober.Forget(key) // of what a former agent has plugged, and this one has kept
	}
	if !had && !r.HasPod(ctx, s.own.UID) {
		return everyLook, nil // it is another cluster's, or comes later
	}
	err := fmt.Errorf("pod %s/%s has no sandbox yet that the network plugin knows of; it is plugged as soon as it has", s.own.Namespace, s.own.Pod)
	return everyLook, errors.Join(r.tell(s, &outcome{err: err}), r.report(ctx, s, &outcome{err: err}))
}

// forget forgets what belongs to an end that is not plugged any more.
func (r *Reconciler) forget(uid, interfaceName, key string) {
	r.Prober.Forget(key)
	r.ends.forget(key)
	if err := errors.Join(r.Files.Gone(uid, interfaceName), r.Hosts.Set(uid, interfaceName, nil, nil)); err != nil {
		r.Log.Error("what a pod was told of its link", "uid", uid, "interface", interfaceName, "error", err)
	}
}

// gone unplugs the ends of a link that there is no more.
func (r *Reconciler) gone(ctx context.Context, name types.NamespacedName) error {
	var all error
	for key, plan := range r.ends.of(name) {
		all = errors.Join(all, r.unplug(ctx, key, &attachment.Plugged{
			Sandbox: plan.Sandbox, Interface: plan.Interface, VNI: plan.VNI, Encrypted: plan.Encrypted, Link: plan.Link,
		}))
	}
	for _, key := range r.ends.release(name) {
		r.ends.again(key)
	}
	return all
}

func (r *Reconciler) unplug(ctx context.Context, key string, plugged *attachment.Plugged) error {
	r.Prober.Forget(key)
	if err := r.pull(ctx, plugged); err != nil {
		return err
	}
	r.forget(plugged.Identity, plugged.Interface, key)
	r.Log.Info("unplugged", "uid", plugged.Identity, "interface", plugged.Interface, "vni", plugged.VNI)
	return nil
}

// sweep unplugs what belongs to no link, once all links are known, and has ends looked at whose interface somebody has removed.
func (r *Reconciler) sweep(ctx context.Context) error {
	names, known := r.Objects.All()
	plugged, err := r.Plugin.Plugged("")
	if err != nil {
		return err
	}
	ports, err := r.Plugin.Ports()
	if err != nil {
		return err
	}
	wanted, undecided := map[string]map[uint32]bool{}, false
	for _, name := range names {
		link := r.Objects.Get(name)
		if link == nil || link.DeletionTimestamp != nil {
			continue
		}
		for _, one := range r.sides(link) {
			undecided = undecided || one.hasSandbox && one.admission() == unknown
		}
		for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
			key := endKey(end.UID, end.Interface)
			if wanted[key] == nil {
				wanted[key] = map[uint32]bool{}
			}
			wanted[key][uint32(link.Spec.VNI)] = true
		}
	}
	var all error
	for i := range plugged {
		key := endKey(plugged[i].Identity, plugged[i].Interface)
		switch {
		case known && !wanted[key][plugged[i].VNI]:
			all = errors.Join(all, r.unplug(ctx, key, &plugged[i]))
		case !ports[plugged[i].Port]:
			r.ends.breaks(key)
		}
	}
	// Not at the first look: until then not all links that a former agent has plugged were looked at, whose names shall stay. The names of
	// those that wait for the operator are not known.
	if known && r.ends.sweeps() > 1 && !undecided {
		all = errors.Join(all, r.Hosts.Clean())
	}
	return all
}

func endKey(uid, interfaceName string) string { return uid + " " + interfaceName }

func (s *side) key() string { return endKey(s.own.UID, s.own.Interface) }

func (s *side) name() string {
	if s.isClient {
		return "client"
	}
	return "endpoint"
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
