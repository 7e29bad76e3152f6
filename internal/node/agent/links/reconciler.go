// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// Objects are the TSNLinks of the node.
type Objects interface {
	Get(name types.NamespacedName) *v1alpha1.TSNLink
	All() (all []types.NamespacedName, known bool)
}

// Sandboxes finds the sandboxes of the node's pods.
type Sandboxes interface {
	Youngest(identity string) (attachment.Sandbox, bool)
}

// Plugin plugs links.
type Plugin interface {
	Plug(ctx context.Context, plan *attachment.LinkPlan) error
	Unplug(ctx context.Context, plugged *attachment.Plugged) error
	// Close makes the pod refuse packets to the other end until the link is plugged again.
	Close(plugged *attachment.Plugged) error
	// Plugged lists the plugged links with an interface name, "" for all.
	Plugged(interfaceName string) ([]attachment.Plugged, error)
	// Ports returns the names of the node's interfaces.
	Ports() (map[string]bool, error)
}

// Prober finds out whether links are up.
type Prober interface {
	Watch(name string, target *linkprobe.Target)
	Forget(name string)
	Finding(name string) (linkprobe.Finding, bool)
}

// Capacity describes the packets that the node can send to another one.
type Capacity struct {
	// Uplink is the largest MTU of pods' interfaces that the node's uplink allows, Path the one that the path to the
	// other node allows; 0: unknown.
	Uplink, Path int
	// Local is the node's tunnel address.
	Local netip.Addr
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
	// Capacity returns the capacity towards a node; foreign means that it is in another cluster.
	Capacity func(ctx context.Context, other netip.Addr, foreign bool) (Capacity, error)
	// Encryption returns how links to another node are encrypted, by tunnels to EncryptedPort.
	Encryption    func(mode encryption.LinkMode, here, there *v1alpha1.LinkEnd) encryption.LinkState
	EncryptedPort uint16
	// Consent returns the annotation with the ranges in which a pod of the node accepts routes of services of other
	// namespaces; known is false while the pod is not known.
	Consent func(ctx context.Context, end *v1alpha1.LinkEnd) (annotation string, known bool)
	// HasPod reports whether a pod is on the node, even without a known sandbox.
	HasPod func(ctx context.Context, uid string) bool
	// Status writes the status of links.
	Status client.SubResourceWriter
	Now    func() time.Time
	Log    *slog.Logger

	ends ends
}

// SetEnqueue sets the function that triggers the reconciliation of a link. Call it before anything else.
func (r *Reconciler) SetEnqueue(enqueue func(types.NamespacedName)) { r.ends.enqueue = enqueue }

// Owner returns the link that has an interface, by the prober's name for it.
func (r *Reconciler) Owner(key string) (types.NamespacedName, bool) { return r.ends.ownerOf(key) }

const (
	// retryDelay is the time until a failure is retried, resyncInterval the time between two reconciliations without a
	// trigger.
	retryDelay     = 2 * time.Second
	resyncInterval = 5 * time.Minute
	// repairInterval is the time between two attempts to repair a link that does not answer by plugging it again.
	repairInterval = 10 * time.Second
	// settleTimeout is how long to wait for the first answer of a link before it is reported as plugged: that mostly
	// saves one report.
	settleTimeout = 700 * time.Millisecond
)

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if request.Name == "" {
		if err := r.sweep(ctx); err != nil && ctx.Err() == nil {
			r.Log.Error("sweep links", "error", err)
			return reconcile.Result{RequeueAfter: retryDelay}, nil
		}
		return reconcile.Result{}, nil
	}
	link := r.Objects.Get(request.NamespacedName)
	if link == nil || link.DeletionTimestamp != nil {
		if err := r.removeLink(ctx, request.NamespacedName); err != nil {
			r.Log.Error("unplug", "link", request.NamespacedName, "error", err)
			return reconcile.Result{RequeueAfter: retryDelay}, nil
		}
		return reconcile.Result{}, nil
	}
	next := resyncInterval
	for _, s := range r.sides(link) {
		wait, err := r.reconcileSide(ctx, s)
		if err != nil && ctx.Err() == nil {
			r.Log.Error("reconcile link", "link", request.NamespacedName, "end", s.name(), "error", err)
			wait = retryDelay
		}
		next = min(next, wait)
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// sides returns the link's ends that may be on this node.
func (r *Reconciler) sides(link *v1alpha1.TSNLink) []*side {
	client := &side{link: link, end: &link.Spec.Client, otherEnd: &link.Spec.Endpoint, isClient: true}
	endpoint := &side{link: link, end: &link.Spec.Endpoint, otherEnd: &link.Spec.Client}
	var all []*side
	for _, s := range []*side{client, endpoint} {
		if s.end.Node != r.Node {
			continue
		}
		s.sandbox, s.hasSandbox = r.Sandboxes.Youngest(s.end.UID)
		_, otherHere := r.Sandboxes.Youngest(s.otherEnd.UID)
		s.local = otherHere && s.otherEnd.Node == r.Node
		all = append(all, s)
	}
	return all
}

// reconcileSide plugs one end and reports its state.
func (r *Reconciler) reconcileSide(ctx context.Context, s *side) (again time.Duration, err error) {
	key := s.key()
	if !s.hasSandbox {
		return r.reconcileWithoutSandbox(ctx, s)
	}
	switch s.admission() {
	case refused:
		return resyncInterval, r.refuse(ctx, s, refused)
	case unknown:
		return r.keepUndecided(ctx, s)
	}
	if younger := r.ends.claim(key, s.link); younger != "" {
		return resyncInterval, r.report(ctx, s, &outcome{err: fmt.Errorf("link %s has replaced it", younger)})
	}
	plan, err := r.plan(ctx, s)
	var notes encryptionNotes
	if err == nil {
		notes, err = r.encrypt(s, plan)
	}
	if err == nil {
		err = r.plug(ctx, s, plan)
	} else {
		unplugged, errClear := r.unplugClear(ctx, s)
		if errors.Is(err, errNotKnown) && s.wasPlugged() && !unplugged {
			return retryDelay, errClear // a link that a previous agent plugged stays
		}
		err = errors.Join(err, errClear)
	}
	if err != nil {
		r.Log.Warn("cannot plug link", "link", client.ObjectKeyFromObject(s.link), "end", s.name(), "error", errortext.OneLine(err))
		return retryDelay, errors.Join(r.updatePod(s, &outcome{err: err}), r.report(ctx, s, &outcome{err: err}))
	}
	result := &outcome{mtu: plan.MTU, encryptionNotes: notes, refusedRoutes: s.refusedRoutes}
	if s.isClient {
		target := &linkprobe.Target{
			Netns: plan.Netns, Interface: plan.Interface, Local: plan.Link.Addresses[0].Addr(), Peer: plan.Link.Peer.Addresses[0],
			MTU: plan.MTU, Adapt: s.link.Spec.MTU == 0,
		}
		r.Prober.Watch(key, target)
		result.finding, _ = r.Prober.Finding(key)
		if wait := r.ends.settleTime(key, r.Now()); wait > 0 && !result.finding.Up {
			return wait, nil
		}
	} else {
		result.finding = clientFinding(s.link)
	}
	err = errors.Join(r.updatePod(s, result), r.report(ctx, s, result))
	if s.isClient && !result.finding.Up {
		return repairInterval, err
	}
	return resyncInterval, err
}

// plan returns the desired state of the end.
func (r *Reconciler) plan(ctx context.Context, s *side) (*attachment.LinkPlan, error) {
	other, _ := netip.ParseAddr(s.otherEnd.NodeAddress)
	capacity, err := r.Capacity(ctx, other, s.otherEnd.Cluster != s.end.Cluster)
	if err != nil {
		return nil, err
	}
	linkPlan, err := s.plan(&capacity)
	if err != nil {
		return nil, err
	}
	if !s.isClient || s.end.Namespace == s.link.Namespace {
		return linkPlan, nil
	}
	annotation, known := r.Consent(ctx, s.end)
	if !known {
		return nil, fmt.Errorf("which routes pod %s/%s takes is %w", s.end.Namespace, s.end.Pod, errNotKnown)
	}
	return linkPlan, s.consent(linkPlan, annotation)
}

// plug plugs the end unless it is plugged as planned. A link that does not answer is plugged again from time to time,
// which repairs it.
func (r *Reconciler) plug(ctx context.Context, s *side, plan *attachment.LinkPlan) error {
	key := s.key()
	before := r.ends.plugged(key)
	if before != nil && before.ContainerID == plan.ContainerID && reflect.DeepEqual(before, plan) && !r.needsRepair(s) {
		return nil
	}
	if err := r.unplugOthers(ctx, s, plan); err != nil {
		return err
	}
	start := r.Now()
	if err := r.Plugin.Plug(ctx, plan); err != nil {
		return err
	}
	if before == nil || !reflect.DeepEqual(before, plan) {
		r.Log.Info("plugged link", "link", client.ObjectKeyFromObject(s.link), "end", s.name(), "interface", plan.Interface, "vni", plan.VNI, "mtu", plan.MTU,
			"routes", len(plan.Link.Routes), "took", r.Now().Sub(start))
	}
	r.ends.plug(key, client.ObjectKeyFromObject(s.link), plan, r.Now())
	return nil
}

// needsRepair reports whether to plug a link again that does not answer.
func (r *Reconciler) needsRepair(s *side) bool {
	if !s.isClient {
		return r.ends.broken(s.key())
	}
	finding, watched := r.Prober.Finding(s.key())
	return r.ends.broken(s.key()) || watched && !finding.Up && (finding.Broken || finding.Message != "") && r.ends.repairDue(s.key(), r.Now())
}

// unplugOthers unplugs other links with the interface's name in the pod, in this sandbox or a previous one.
func (r *Reconciler) unplugOthers(ctx context.Context, s *side, plan *attachment.LinkPlan) error {
	all, err := r.Plugin.Plugged(plan.Interface)
	if err != nil {
		return err
	}
	for i := range all {
		plugged := &all[i]
		if plugged.Identity != s.end.UID || plugged.Interface != s.end.Interface {
			continue
		}
		if plugged.ContainerID == plan.ContainerID && plugged.VNI == plan.VNI && plugged.Encrypted == plan.Encrypted && sameEnds(&plugged.Link, &plan.Link) {
			continue
		}
		r.Prober.Forget(s.key())
		if err := r.unplugClosed(ctx, plugged); err != nil {
			return fmt.Errorf("unplug the previous link: %w", err)
		}
	}
	return nil
}

func sameEnds(a, b *attachment.Link) bool {
	return reflect.DeepEqual(a.Addresses, b.Addresses) && reflect.DeepEqual(a.Peer.Addresses, b.Peer.Addresses) && a.MAC == b.MAC
}

// reconcileWithoutSandbox handles an end whose pod has no sandbox here.
func (r *Reconciler) reconcileWithoutSandbox(ctx context.Context, s *side) (time.Duration, error) {
	key := s.key()
	had := r.ends.plugged(key) != nil
	if had {
		r.forget(s.end.UID, s.end.Interface, key)
	} else {
		r.Prober.Forget(key) // plugged by a previous agent, probed by this one
	}
	if !had && !r.HasPod(ctx, s.end.UID) {
		return resyncInterval, nil // the pod is in another cluster, or comes later
	}
	err := fmt.Errorf("the network plugin does not know a sandbox of pod %s/%s yet; the link is plugged as soon as it does", s.end.Namespace, s.end.Pod)
	return resyncInterval, errors.Join(r.updatePod(s, &outcome{err: err}), r.report(ctx, s, &outcome{err: err}))
}

// forget drops the state of an end that is not plugged any more.
func (r *Reconciler) forget(uid, interfaceName, key string) {
	r.Prober.Forget(key)
	r.ends.forget(key)
	if err := errors.Join(r.Files.Remove(uid, interfaceName), r.Hosts.Set(uid, interfaceName, nil, nil)); err != nil {
		r.Log.Error("remove the description of a link", "uid", uid, "interface", interfaceName, "error", err)
	}
}

// removeLink unplugs the ends of a deleted link.
func (r *Reconciler) removeLink(ctx context.Context, name types.NamespacedName) error {
	var errs error
	for key, plan := range r.ends.ownedBy(name) {
		errs = errors.Join(errs, r.unplug(ctx, key, &attachment.Plugged{
			Sandbox: plan.Sandbox, Interface: plan.Interface, VNI: plan.VNI, Encrypted: plan.Encrypted, Link: plan.Link,
		}))
	}
	for _, key := range r.ends.release(name) {
		r.ends.enqueueClaims(key)
	}
	return errs
}

func (r *Reconciler) unplug(ctx context.Context, key string, plugged *attachment.Plugged) error {
	r.Prober.Forget(key)
	if err := r.unplugClosed(ctx, plugged); err != nil {
		return err
	}
	r.forget(plugged.Identity, plugged.Interface, key)
	r.Log.Info("unplugged link", "uid", plugged.Identity, "interface", plugged.Interface, "vni", plugged.VNI)
	return nil
}

// sweep unplugs the interfaces of deleted links, once all links are known, and triggers links whose interface was
// removed.
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
		for _, s := range r.sides(link) {
			undecided = undecided || s.hasSandbox && s.admission() == unknown
		}
		for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
			key := endKey(end.UID, end.Interface)
			if wanted[key] == nil {
				wanted[key] = map[uint32]bool{}
			}
			wanted[key][uint32(link.Spec.VNI)] = true
		}
	}
	var errs error
	for i := range plugged {
		key := endKey(plugged[i].Identity, plugged[i].Interface)
		switch {
		case known && !wanted[key][plugged[i].VNI]:
			errs = errors.Join(errs, r.unplug(ctx, key, &plugged[i]))
		case !ports[plugged[i].Port]:
			r.ends.setBroken(key)
		}
	}
	// Not in the first sweep: links of a previous agent may not have been reconciled yet, and their names must stay.
	// The names of links that wait for the operator are not known.
	if known && r.ends.countSweep() > 1 && !undecided {
		errs = errors.Join(errs, r.Hosts.Clean())
	}
	return errs
}

func endKey(uid, interfaceName string) string { return uid + " " + interfaceName }

func (s *side) key() string { return endKey(s.end.UID, s.end.Interface) }

func (s *side) name() string {
	if s.isClient {
		return "client"
	}
	return "endpoint"
}
