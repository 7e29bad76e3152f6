// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/links"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/objects"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

const (
	// maxPlugging limits how many links are plugged concurrently; changes of the node's networks are serialised.
	// maxReconciling limits how many links are reconciled concurrently: their unplugging is batched.
	maxPlugging    = 4
	maxReconciling = 32
	// sandboxesInterval is the time between two checks for new sandboxes, hostsInterval between two checks of kubelet's
	// hosts files, linkSweepInterval between two sweeps for the remains of deleted links.
	sandboxesInterval = 50 * time.Millisecond
	hostsInterval     = time.Second
	linkSweepInterval = 30 * time.Second
	// reportsPerSecond limits the writes of link status.
	reportsPerSecond = 100
)

// newLinkInformer returns a watch of the node's TSNLinks. A change of a link triggers its reconciliation, and that of
// encryption if it depends on the link.
func newLinkInformer(c *core, watching client.WithWatch, start objects.Start) *objects.Links {
	informer := &objects.Links{Client: watching, Node: c.Node, Minimum: &c.Minimum, Wait: start.Wait, Log: c.log.With("part", "links")}
	informer.Changed = func(name types.NamespacedName) {
		if link := informer.Get(name); link == nil || link.Spec.Encrypted() {
			c.queue.wake(concernEncryption)
		}
		c.queue.add(concernLinks, ctrl.Request{NamespacedName: name})
	}
	return informer
}

// addLinks adds the controller that plugs links into the node's pods, and its periodic triggers.
func addLinks(c *core, informer *objects.Links, judge *encryption.Judge, volumes *csi.Volumes, paths pathMTUs) error {
	status, err := linkStatusWriter(c)
	if err != nil {
		return err
	}
	log := c.log.With("part", "links")
	enqueue := func(name types.NamespacedName) { c.queue.add(concernLinks, ctrl.Request{NamespacedName: name}) }
	sandboxes := &attachment.SandboxList{StateDir: c.StateDir}
	capacity := &linkCapacity{status: statusCache{ktsnd: ktsndTunnels{c.ktsnd}}, paths: paths}
	r := &links.Reconciler{
		Node: c.Node, Objects: informer, Sandboxes: sandboxes, Plugin: newLinkPlugin(c.Options),
		Files: &links.Files{PodDir: volumes.PodDir}, Hosts: &links.Hosts{Dir: filepath.Join(c.Kubelet, "pods")},
		Capacity: capacity.get, Consent: c.routeConsent, Encryption: judge.Link, EncryptedPort: c.EncryptedPort,
		HasPod: func(ctx context.Context, uid string) bool { _, ok := c.podName(ctx, uid); return ok },
		Status: status, Now: time.Now, Log: log,
	}
	prober := &linkprobe.Prober{Log: log, Changed: func(key string) {
		if name, ok := r.Owner(key); ok {
			enqueue(name)
		}
	}}
	r.Prober = prober
	r.SetEnqueue(enqueue)
	for _, run := range []manager.RunnableFunc{
		informer.Run, prober.Run,
		every(sandboxesInterval, func() { enqueueNewSandboxes(c.queue, informer, sandboxes, log) }),
		every(hostsInterval, func() {
			if err := r.Hosts.Refresh(); err != nil {
				log.Error("cannot write the names of linked services into pods' hosts files", "error", err)
			}
		}),
		every(linkSweepInterval, func() { c.queue.wake(concernLinks) }), // the zero request is a sweep
	} {
		if err := c.manager.Add(run); err != nil {
			return err
		}
	}
	clientLinks := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, pod client.Object) (requests []ctrl.Request) {
		all, _ := listLinks(informer)
		for _, link := range all {
			if link.Spec.Client.UID == string(pod.GetUID()) {
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(link)})
			}
		}
		return requests
	})
	return ctrl.NewControllerManagedBy(c.manager).Named("links").
		WatchesRawSource(c.queue.source(concernLinks)).
		Watches(&corev1.Pod{}, clientLinks, builder.WithPredicates(consentChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxReconciling}).
		Complete(r)
}

// linkStatusWriter returns a writer of link status with its own rate limit: a thousand links may come up at once, and
// the API server has its own protection.
func linkStatusWriter(c *core) (client.SubResourceWriter, error) {
	config := rest.CopyConfig(c.manager.GetConfig())
	config.QPS, config.Burst = reportsPerSecond, 2*reportsPerSecond
	writer, err := client.New(config, client.Options{Scheme: c.manager.GetScheme(), Mapper: c.manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("prepare to write the status of links: %w", err)
	}
	return writer.Status(), nil
}

// routeConsent returns the annotation by which a pod of the node accepts routes; known is false while the pod is not in
// the cache.
func (c *core) routeConsent(ctx context.Context, end *v1alpha1.LinkEnd) (annotation string, known bool) {
	pod := &corev1.Pod{}
	err := c.manager.GetClient().Get(ctx, types.NamespacedName{Namespace: end.Namespace, Name: end.Pod}, pod, client.UnsafeDisableDeepCopy)
	return pod.Annotations[v1alpha1.LinkRoutesAnnotation], err == nil && string(pod.UID) == end.UID
}

// consentChanged selects changes of the annotation by which a pod accepts routes.
var consentChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[v1alpha1.LinkRoutesAnnotation] != e.ObjectNew.GetAnnotations()[v1alpha1.LinkRoutesAnnotation]
	},
}

// listLinks returns the node's links; known is false while the list is incomplete.
func listLinks(informer *objects.Links) (all []*v1alpha1.TSNLink, known bool) {
	names, known := informer.All()
	for _, name := range names {
		if link := informer.Get(name); link != nil {
			all = append(all, link)
		}
	}
	return all, known
}

// enqueueLinks enqueues the selected links of the node.
func enqueueLinks(q *queue, informer *objects.Links, selected func(*v1alpha1.TSNLink) bool) {
	all, _ := listLinks(informer)
	for _, link := range all {
		if selected(link) {
			q.add(concernLinks, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(link)})
		}
	}
}

// enqueueNewSandboxes enqueues the links of pods whose sandbox is new or has changed.
func enqueueNewSandboxes(q *queue, informer *objects.Links, sandboxes *attachment.SandboxList, log *slog.Logger) {
	uids, err := sandboxes.Refresh()
	if err != nil {
		log.Error("cannot list the pods' sandboxes", "error", err)
	}
	if len(uids) == 0 {
		return
	}
	enqueueLinks(q, informer, func(link *v1alpha1.TSNLink) bool {
		return slices.Contains(uids, link.Spec.Client.UID) || slices.Contains(uids, link.Spec.Endpoint.UID)
	})
}

// every returns a runnable that calls do at once and then once per interval.
func every(interval time.Duration, do func()) manager.RunnableFunc {
	return func(ctx context.Context) error {
		wait.NonSlidingUntilWithContext(ctx, func(context.Context) { do() }, interval)
		return nil
	}
}

// linkPlugin plugs links into pods' sandboxes.
type linkPlugin struct {
	options *attachment.LinkOptions
	// slots limits how many links are plugged concurrently.
	slots     chan struct{}
	unplugger unplugger
}

func newLinkPlugin(o *Options) *linkPlugin {
	p := &linkPlugin{options: linkOptions(o), slots: make(chan struct{}, maxPlugging)}
	p.unplugger.unplug = func(ctx context.Context, all []*attachment.Plugged) []error {
		return attachment.UnplugLinks(ctx, p.options, all)
	}
	return p
}

func linkOptions(o *Options) *attachment.LinkOptions {
	return &attachment.LinkOptions{StateDir: o.StateDir, ControlSocket: o.Control, Patience: daemon.LockTimeout}
}

// Plug implements links.Plugin.
func (p *linkPlugin) Plug(ctx context.Context, plan *attachment.LinkPlan) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	return attachment.PlugLink(ctx, p.options, plan)
}

// Unplug implements links.Plugin.
func (p *linkPlugin) Unplug(ctx context.Context, plugged *attachment.Plugged) error {
	return p.unplugger.do(ctx, plugged)
}

// Close implements links.Plugin.
func (p *linkPlugin) Close(plugged *attachment.Plugged) error { return attachment.CloseLink(plugged) }

// Plugged implements links.Plugin.
func (p *linkPlugin) Plugged(interfaceName string) ([]attachment.Plugged, error) {
	return attachment.PluggedLinks(p.options.StateDir, interfaceName)
}

// Ports implements links.Plugin.
func (p *linkPlugin) Ports() (map[string]bool, error) {
	interfaces, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list the node's interfaces: %w", err)
	}
	names := map[string]bool{}
	for _, link := range interfaces {
		names[link.Attrs().Name] = true
	}
	return names, nil
}

// linkCapacity finds the possible MTU of links.
type linkCapacity struct {
	status statusCache
	paths  pathMTUs
}

// get returns the MTU of the node's uplink and, for a node of another cluster, that of the path to it.
func (l *linkCapacity) get(ctx context.Context, other netip.Addr, foreign bool) (links.Capacity, error) {
	status, err := l.status.get(ctx)
	if err != nil {
		return links.Capacity{}, err
	}
	if err := overlay.CheckLinks(status.Uplink); err != nil {
		return links.Capacity{}, err
	}
	capacity := links.Capacity{Uplink: overlay.MostMTU(status.Interface), Local: status.LocalAddress}
	if foreign && other.IsValid() && capacity.Uplink > 0 {
		capacity.Path = l.paths.PathMTU([]netip.Addr{other}, capacity.Uplink+overlay.EncapsulationBytes) - overlay.EncapsulationBytes
	}
	return capacity, nil
}
