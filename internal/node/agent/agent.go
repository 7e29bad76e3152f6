// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/clocks"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/health"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/objects"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/pathmtu"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/peers"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/removal"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/sweep"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	// lingerPeers is longer than the operator needs to write all objects of a change.
	lingerPeers = 10 * time.Second
	// keepPeers is longer than it needs for those of all nodes, after an upgrade from a release without them.
	keepPeers = 2 * time.Minute
)

// Parts of the agent that must be well for it to be ready.
const (
	partKtsnd    = "ktsnd"
	partKubelet  = "kubelet"
	partNetworks = "networks"
	partLimits   = "limits"
)

// privileges are the capabilities that the agent keeps of those of its container.
func (o *Options) privileges() []privilege.Capability {
	keep := []privilege.Capability{
		privilege.SysAdmin, // mount volumes
		privilege.NetAdmin, // forwarding entries of tunnels, interfaces that pods left, devices of relays
		privilege.NetRaw,   // packet sockets of relays; say by ARP where Open vSwitch's tunnel address is
		// Start relays as another user, and end them.
		privilege.SetUID, privilege.SetGID, privilege.Kill,
		privilege.Chown, // give sockets of vhost-user to the users of virtual machines
	}
	if o.Proc != "" {
		// What other users' programs were started with.
		keep = append(keep, privilege.DACReadSearch, privilege.SysPtrace)
	}
	return keep
}

// agent is what its parts share.
type agent struct {
	*Options
	platform *Platform
	log      *slog.Logger
	board    *health.Board
	manager  manager.Manager
	link     daemon.Link
	// objects are what the API server says of the node, nil where the networks are those of a file.
	objects *objects.Informer
	volumes *csi.Volumes
	host    *install.Node
	metrics *metrics.Metrics
	sweeper *sweep.Sweeper
	relays  *relay.Supervisor
	clock   *clocks.Follower
	paths   *pathmtu.Prober
	// encryption has the node's encrypted networks encrypted, and judge says whether they are; nil where the networks are those of a file.
	encryption *encryption.Reconciler
	judge      *encryption.Judge
	// links plugs links; nil before it does.
	links atomic.Pointer[linking]
	// left is closed when kubelet is not served any more.
	left chan struct{}
	// again asks the peers' reconciler to look, gatesAgain that of the schedule, limitsAgain that of the limits, clockAgain that of
	// reports of the clock, encryptionAgain that of encryption.
	again, gatesAgain, limitsAgain, clockAgain, encryptionAgain chan event.GenericEvent
}

// Run serves the node until ctx ends.
func Run(ctx context.Context, options *Options, platform *Platform, config *rest.Config, log *slog.Logger) error {
	a := &agent{
		Options: options, platform: platform, log: log, link: daemon.Link{Path: options.Control},
		host:  &install.Node{Root: options.Host, List: install.DefaultList},
		again: make(chan event.GenericEvent, 1), gatesAgain: make(chan event.GenericEvent, 1),
		limitsAgain: make(chan event.GenericEvent, 1), clockAgain: make(chan event.GenericEvent, 1),
		encryptionAgain: make(chan event.GenericEvent, 1), left: make(chan struct{}),
	}
	var err error
	if a.metrics, err = metrics.New(platform.Registry); err != nil {
		return fmt.Errorf("prepare the metrics: %w", err)
	}
	parts := []string{partKtsnd, partKubelet, partNetworks}
	if a.FromCluster {
		parts = append(parts, partLimits)
	}
	a.board = health.New(a.changed, parts...)
	a.volumes = &csi.Volumes{Dir: a.runDir(), Library: filepath.Join(a.runDir(), "lib", "libktsn.so"), Daemon: a.link}
	if err := platform.Reduce(options.privileges()...); err != nil {
		return err
	}
	if err := awaitAlone(ctx, options.Health, log); err != nil {
		return err
	}
	if err := a.installPrograms(); err != nil {
		return err
	}
	start := objects.NewStart(time.Now(), platform.Uptime())
	if a.manager, err = newManager(config, a.Options, platform, start, a.board, log); err != nil {
		return err
	}
	if err := a.addObjects(start); err != nil {
		return err
	}
	addLinks := func() error { return a.addLinks(start) }
	for _, add := range []func() error{a.addRelays, a.addClock, a.addPaths, a.addEncryption, a.addGates, a.addLimits, a.addPeers, a.addResync, a.addSweeper, a.addCSI, a.addPoller, a.addWatcher, addLinks} {
		if err := add(); err != nil {
			return err
		}
	}
	return a.manager.Start(ctx)
}

// changed is called when a part is not as it was.
func (a *agent) changed(part string, err error) {
	a.metrics.Part(part, err)
	again(a.gatesAgain) // which reports it
	if err != nil {
		a.log.Warn("not well", "part", part, "error", err)
		return
	}
	a.log.Info("well", "part", part)
}

// installPrograms puts onto the node what others start there.
func (a *agent) installPrograms() error {
	changed, err := a.host.Copy(filepath.Join(a.Programs, "tsn-cni"), filepath.Join(a.PluginDir, "tsn-cni"), 0o755)
	if err != nil {
		return err
	}
	a.log.Info("network plugin", "path", filepath.Join(a.PluginDir, "tsn-cni"), "changed", changed)
	// Beside the pods' folders, which have links to it. In memory, so nothing is written down.
	return install.Replace(filepath.Join(a.Programs, "libktsn.so"), a.volumes.Library, 0o444)
}

// again has reconcilers look again.
func again(reconcilers ...chan event.GenericEvent) {
	for _, reconciler := range reconcilers {
		select {
		case reconciler <- event.GenericEvent{}:
		default: // it is to look anyway, or does not run
		}
	}
}

// addObjects watches the node's objects and those of its networks, where these are the cluster's.
func (a *agent) addObjects(start objects.Start) error {
	if !a.FromCluster {
		return nil
	}
	watching, err := client.NewWithWatch(a.manager.GetConfig(), client.Options{
		Scheme: a.manager.GetScheme(), Mapper: a.manager.GetRESTMapper(), HTTPClient: a.manager.GetHTTPClient(),
	})
	if err != nil {
		return fmt.Errorf("prepare to watch the node's objects: %w", err)
	}
	a.objects = &objects.Informer{
		Client: watching, Node: a.Node, Minimum: &a.Minimum, Wait: start.Wait, Log: a.log.With("part", "objects"),
		Changed: func() {
			again(a.again, a.gatesAgain, a.limitsAgain, a.clockAgain, a.encryptionAgain)
			a.clock.Again()
		},
	}
	return a.manager.Add(manager.RunnableFunc(a.objects.Run))
}

// addPeers has the reconciler called for nodes, for the node's objects, and when ktsnd was told.
func (a *agent) addPeers() error {
	events := a.manager.GetEventRecorderFor("ktsn-agent")
	through, err := a.through()
	if err != nil {
		return err
	}
	r := &peers.Reconciler{
		Plan: &peers.FromNodes{Nodes: a.manager.GetClient(), Networks: network.File{Path: a.Networks}, Node: a.Node},
		Now:  time.Now, Log: a.log.With("part", partNetworks),
		Open: a.platform.Overlay,
		Do: func(ctx context.Context, ask func(context.Context, peers.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
		Configure: a.configure,
		Links:     func() (map[uint32]bool, error) { return overlay.LinkVNIs(a.StateDir) },
		Through:   through,
		Report:    func(err error) { a.board.Set(partNetworks, err) },
		LeftOut:   a.metrics.LeftOut,
		Warn: func(own *corev1.Node, reason, sentence string) {
			events.Event(own, corev1.EventTypeWarning, reason, sentence)
		},
	}
	if a.FromCluster {
		r.Plan = &peers.FromCluster{Nodes: a.manager.GetClient(), Node: a.Node, State: a.objects.State, Encryption: a.judge.Look, EncryptedPort: a.EncryptedPort}
		r.Linger, r.Patience = lingerPeers, keepPeers
	}
	// All events are the same one: there is one thing to look at.
	same := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(a.manager).Named("peers").
		Watches(&corev1.Node{}, same, builder.WithPredicates(relevant)).
		WatchesRawSource(source.Channel(a.again, same)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// configure writes a configuration for each network of which the node has a part, and removes those of other networks if these
// are all.
func (a *agent) configure(networks []network.Network, parts map[string][]netip.Prefix, complete bool) error {
	var all error
	wanted := map[string]bool{}
	for _, n := range networks {
		path := filepath.Join(a.ConfDir, n.Name+".conf")
		wanted[path] = true
		if parts[n.Name] == nil {
			continue // what there was, is better than nothing
		}
		text, err := install.Config(&n, parts[n.Name])
		if err == nil {
			_, err = a.host.File(path, text, 0o644)
		}
		all = errors.Join(all, err)
	}
	if !complete {
		return all
	}
	installed, err := a.host.Installed()
	if err != nil {
		return errors.Join(all, err)
	}
	for _, path := range installed {
		if filepath.Dir(path) == a.ConfDir && !wanted[path] {
			all = errors.Join(all, a.forget(path))
		}
	}
	return all
}

// forget removes a network's configuration, and what host-local remembers of its addresses. As long as an address is
// given away both stay: the configuration is what tells that there is something left to remove.
func (a *agent) forget(path string) error {
	network := strings.TrimSuffix(filepath.Base(path), ".conf")
	if err := removal.RemoveIPAM(filepath.Join(a.Host, a.IPAMDir, network)); err != nil {
		a.log.Warn("a network that has gone is not forgotten yet", "network", network, "reason", err)
		return nil // nothing that the node's pods would miss
	}
	return a.host.Remove(path)
}

// addResync keeps ktsnd told.
func (a *agent) addResync() error {
	resync := &daemon.Resync{
		Link: a.link, StateDir: a.StateDir, Sockets: a.volumes, Log: a.log.With("part", partKtsnd),
		Report: func(err error) { a.board.Set(partKtsnd, err) },
		First:  func(ctx context.Context, client *control.Client) error { return a.clock.Teller.TellNew(ctx, client) },
		Told: func() {
			again(a.again, a.gatesAgain, a.limitsAgain)
			a.clock.Teller.Anew()
			a.tellEncryption()
		},
	}
	return a.manager.Add(manager.RunnableFunc(resync.Run))
}

// addCSI serves kubelet.
func (a *agent) addCSI() error {
	log := a.log.With("part", partKubelet)
	server := &csi.Server{
		Driver: &csi.Driver{
			Node: a.Node, Version: a.Version, PodsDir: filepath.Join(a.Kubelet, "pods"), Volumes: a.volumes, Log: log,
			Ready: func() bool { return a.board.Get(partKtsnd) == nil },
		},
		Endpoint: a.endpoint(), Registry: a.registry(), Log: log,
		Registered: func(err error) { a.board.Set(partKubelet, err) },
		Leave:      a.leave,
	}
	run := func(ctx context.Context) error {
		defer close(a.left)
		return server.Run(ctx)
	}
	if err := a.manager.Add(manager.RunnableFunc(run)); err != nil {
		return fmt.Errorf("serve kubelet: %w", err)
	}
	return nil
}
