// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/links"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/objects"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	// plugAtOnce is how many links are plugged at once; what they do to the node's networks they do in turns. lookAtOnce is how many are looked
	// at: as many can be unplugged together.
	plugAtOnce = 4
	lookAtOnce = 32
	// sandboxesEvery is how often it is looked for new sandboxes, namesEvery for files that kubelet has overwritten, leftEvery for what is left
	// of links that there are no more.
	sandboxesEvery = 50 * time.Millisecond
	namesEvery     = time.Second
	leftEvery      = 30 * time.Second
	// uplinkFor is for how long what ktsnd says of its uplink counts.
	uplinkFor = 5 * time.Second
	// reportsPerSecond bounds what is written into links' status.
	reportsPerSecond = 100
)

// linking plugs links into the node's pods.
type linking struct {
	*agent
	objects    *objects.Links
	sandboxes  *attachment.SandboxList
	prober     *linkprobe.Prober
	reconciler *links.Reconciler
	due        dueLinks
	uplink     uplinkCache
	// plugging has room for those that are plugged at once.
	plugging  chan struct{}
	unplugger unplugger
}

// addLinks plugs links where the networks are the cluster's: those of a file have none.
func (a *agent) addLinks(start objects.Start) error {
	if !a.FromCluster {
		return nil
	}
	watching, err := client.NewWithWatch(a.manager.GetConfig(), client.Options{
		Scheme: a.manager.GetScheme(), Mapper: a.manager.GetRESTMapper(), HTTPClient: a.manager.GetHTTPClient(),
	})
	if err != nil {
		return fmt.Errorf("prepare to watch the node's links: %w", err)
	}
	writing, err := a.statusWriter()
	if err != nil {
		return err
	}
	log := a.log.With("part", "links")
	l := &linking{agent: a, plugging: make(chan struct{}, plugAtOnce)}
	l.unplugger.unplug = func(ctx context.Context, all []*attachment.Plugged) []error { return attachment.UnplugLinks(ctx, l.options(), all) }
	l.objects = &objects.Links{Client: watching, Node: a.Node, Minimum: &a.Minimum, Wait: start.Wait, Changed: l.changed, Log: log}
	l.sandboxes = &attachment.SandboxList{StateDir: a.StateDir}
	l.prober = &linkprobe.Prober{Changed: l.probed, Log: log}
	l.reconciler = &links.Reconciler{
		Node: a.Node, Objects: l.objects, Sandboxes: l.sandboxes, Plugin: l, Prober: l.prober,
		Files: &links.Files{PodDir: a.volumes.PodDir}, Hosts: &links.Hosts{Dir: filepath.Join(a.Kubelet, "pods")},
		Carried: l.carried, HasPod: func(ctx context.Context, uid string) bool { _, has := a.nameOf(ctx, uid); return has },
		Consent: l.consent, Status: writing, Now: time.Now, Log: log,
	}
	l.reconciler.Encryption, l.reconciler.EncryptedPort = a.judge.Link, a.EncryptedPort
	l.reconciler.Again(l.enqueue)
	a.links.Store(l)
	for _, run := range []manager.RunnableFunc{l.objects.Run, l.prober.Run, l.watchSandboxes, l.keepNames, l.lookForLeft} {
		if err := a.manager.Add(run); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(a.manager).Named("links").
		WatchesRawSource(source.Func(l.due.start)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(l.clientLinks), builder.WithPredicates(consentChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: lookAtOnce}).
		Complete(l.reconciler)
}

// consent returns the annotation by which a pod takes routes.
func (l *linking) consent(ctx context.Context, end *v1alpha1.LinkEnd) (annotation string, known bool) {
	pod := &corev1.Pod{}
	err := l.manager.GetClient().Get(ctx, types.NamespacedName{Namespace: end.Namespace, Name: end.Pod}, pod, client.UnsafeDisableDeepCopy)
	return pod.Annotations[v1alpha1.LinkRoutesAnnotation], err == nil && string(pod.UID) == end.UID
}

// consentChanged selects changes of the annotation by which a pod takes routes.
var consentChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[v1alpha1.LinkRoutesAnnotation] != e.ObjectNew.GetAnnotations()[v1alpha1.LinkRoutesAnnotation]
	},
}

// clientLinks returns requests for the links of which a pod is the client.
func (l *linking) clientLinks(_ context.Context, pod client.Object) (requests []ctrl.Request) {
	all, _ := l.all()
	for _, link := range all {
		if link.Spec.Client.UID == string(pod.GetUID()) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(link)})
		}
	}
	return requests
}

// statusWriter writes what has become of links. It has a limit of its own: a thousand links may come up at once, and the API server knows to
// keep itself from too much.
func (a *agent) statusWriter() (client.SubResourceWriter, error) {
	config := rest.CopyConfig(a.manager.GetConfig())
	config.QPS, config.Burst = reportsPerSecond, 2*reportsPerSecond
	made, err := client.New(config, client.Options{Scheme: a.manager.GetScheme(), Mapper: a.manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("prepare to say what has become of links: %w", err)
	}
	return made.Status(), nil
}

// enqueue has a link reconciled; the zero value has remains of other links removed. It does not block.
func (l *linking) enqueue(name types.NamespacedName) {
	l.due.add(ctrl.Request{NamespacedName: name})
}

// dueLinks are the links to reconcile. Callers of add hold locks and run before the controller and after it, so add never waits for it.
type dueLinks struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[ctrl.Request] // nil until the controller starts
	early map[ctrl.Request]bool                              // added before that
}

func (d *dueLinks) add(request ctrl.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.queue != nil:
		d.queue.Add(request)
	case d.early == nil:
		d.early = map[ctrl.Request]bool{request: true}
	default:
		d.early[request] = true
	}
}

// start is a source of the controller: it keeps the queue and adds the requests that came before.
func (d *dueLinks) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = queue
	for request := range d.early {
		queue.Add(request)
	}
	d.early = nil
	return nil
}

// changed has a link looked at, and what its encryption depends on.
func (l *linking) changed(name types.NamespacedName) {
	if link := l.objects.Get(name); link == nil || link.Spec.Encrypted() {
		again(l.encryptionAgain)
	}
	l.enqueue(name)
}

// all are the node's links, and whether these are all.
func (l *linking) all() (all []*v1alpha1.TSNLink, known bool) {
	names, known := l.objects.All()
	for _, name := range names {
		if link := l.objects.Get(name); link != nil {
			all = append(all, link)
		}
	}
	return all, known
}

// encryptedAgain has links looked at that ask for encryption.
func (l *linking) encryptedAgain() {
	all, _ := l.all()
	for _, link := range all {
		if link.Spec.Encrypted() {
			l.enqueue(client.ObjectKeyFromObject(link))
		}
	}
}

// probed has the link looked at that has an interface.
func (l *linking) probed(key string) {
	if name, ok := l.reconciler.Owner(key); ok {
		l.enqueue(name)
	}
}

// watchSandboxes has links looked at whose pods get a sandbox.
func (l *linking) watchSandboxes(ctx context.Context) error {
	return each(ctx, sandboxesEvery, func() {
		changed, err := l.sandboxes.Look()
		if err != nil {
			l.log.Error("look for sandboxes", "error", err)
		}
		if len(changed) == 0 {
			return
		}
		of := map[string]bool{}
		for _, uid := range changed {
			of[uid] = true
		}
		names, _ := l.objects.All()
		for _, name := range names {
			if link := l.objects.Get(name); link != nil && (of[link.Spec.Client.UID] || of[link.Spec.Endpoint.UID]) {
				l.enqueue(name)
			}
		}
	})
}

// keepNames puts names back that kubelet has overwritten.
func (l *linking) keepNames(ctx context.Context) error {
	return each(ctx, namesEvery, func() {
		if err := l.reconciler.Hosts.Look(); err != nil {
			l.log.Error("names of linked pods", "error", err)
		}
	})
}

// lookForLeft has it looked, now and then, for what is left of links that there are no more.
func (l *linking) lookForLeft(ctx context.Context) error {
	return each(ctx, leftEvery, func() { l.enqueue(types.NamespacedName{}) })
}

// each does something at once, and again and again until ctx ends.
func each(ctx context.Context, every time.Duration, do func()) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

func (l *linking) options() *attachment.LinkOptions {
	return &attachment.LinkOptions{StateDir: l.StateDir, ControlSocket: l.Control, Patience: daemon.Patience}
}

// Plug implements links.Plugin.
func (l *linking) Plug(ctx context.Context, plan *attachment.LinkPlan) error {
	select {
	case l.plugging <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.plugging }()
	return attachment.PlugLink(ctx, l.options(), plan)
}

// Unplug implements links.Plugin.
func (l *linking) Unplug(ctx context.Context, plugged *attachment.Plugged) error {
	return l.unplugger.do(ctx, plugged)
}

// Close implements links.Plugin.
func (l *linking) Close(plugged *attachment.Plugged) error { return attachment.CloseLink(plugged) }

// Plugged implements links.Plugin.
func (l *linking) Plugged(interfaceName string) ([]attachment.Plugged, error) {
	return attachment.PluggedLinks(l.StateDir, interfaceName)
}

// Ports implements links.Plugin.
func (l *linking) Ports() (map[string]bool, error) {
	found, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list the node's interfaces: %w", err)
	}
	all := map[string]bool{}
	for _, link := range found {
		all[link.Attrs().Name] = true
	}
	return all, nil
}

// carried is what the node's uplink, and the way to another node, carry.
func (l *linking) carried(ctx context.Context, other netip.Addr, foreign bool) (links.Carried, error) {
	status, err := l.uplink.get(ctx, l.link)
	if err != nil {
		return links.Carried{}, err
	}
	if err := overlay.CheckLinks(status.Uplink); err != nil {
		return links.Carried{}, err
	}
	carried := links.Carried{Uplink: overlay.MostMTU(status.Interface), Own: status.LocalAddress}
	if foreign && other.IsValid() && carried.Uplink > 0 {
		carried.Path = l.paths.Least([]netip.Addr{other}, carried.Uplink+overlay.EncapsulationBytes) - overlay.EncapsulationBytes
	}
	return carried, nil
}

// uplinkCache is what ktsnd has said of itself lately, for many links at once.
type uplinkCache struct {
	mu     sync.Mutex
	status *control.Status
	at     time.Time
}

func (c *uplinkCache) get(ctx context.Context, link daemon.Link) (*control.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != nil && time.Since(c.at) < uplinkFor {
		return c.status, nil
	}
	err := link.Do(ctx, func(ctx context.Context, client *control.Client) (err error) {
		c.status, err = client.Status(ctx)
		return err
	})
	if err != nil {
		c.status = nil
		return nil, err
	}
	c.at = time.Now()
	return c.status, nil
}
