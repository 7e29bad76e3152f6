// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/objects"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/peers"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Parts that must work for the agent to be ready.
const (
	partKtsnd    = "ktsnd"
	partKubelet  = "kubelet"
	partNetworks = "networks"
	partLimits   = "limits"
)

// privileges returns the capabilities that the agent keeps.
func (o *Options) privileges() []privilege.Capability {
	keep := []privilege.Capability{
		privilege.SysAdmin, // mount volumes
		privilege.NetAdmin, // forwarding entries of tunnels, interfaces that pods left, devices of relays
		privilege.NetRaw,   // packet sockets of relays; ARP announcements of Open vSwitch's tunnel address
		// Start relays as another user, and end them.
		privilege.SetUID, privilege.SetGID, privilege.Kill,
		privilege.Chown, // give vhost-user sockets to the users of virtual machines
	}
	if o.Proc != "" {
		// Read the environment and the maps of other users' programs.
		keep = append(keep, privilege.DACReadSearch, privilege.SysPtrace)
	}
	return keep
}

// core holds the dependencies that all parts share.
type core struct {
	*Options
	platform *Platform
	manager  manager.Manager
	queue    *queue
	ktsnd    daemon.Link
	board    *board
	faults   networkFaults
	metrics  *metrics.Metrics
	log      *slog.Logger
}

// Run serves the node until ctx ends.
func Run(ctx context.Context, options *Options, platform *Platform, config *rest.Config, log *slog.Logger) error {
	c := &core{Options: options, platform: platform, queue: newQueue(), ktsnd: daemon.Link{Path: options.Control}, log: log}
	host := &install.Node{Root: options.Host, Mounts: addedMounts(options.Etc), List: install.DefaultList}
	volumes := &csi.Volumes{Dir: c.runDir(), Library: filepath.Join(c.runDir(), "lib", "libktsn.so"), Daemon: c.ktsnd}
	var err error
	if c.metrics, err = metrics.New(platform.Registry); err != nil {
		return fmt.Errorf("prepare the metrics: %w", err)
	}
	parts := []string{partKtsnd, partKubelet, partNetworks}
	if c.FromCluster {
		parts = append(parts, partLimits)
	}
	c.board = newBoard(c.partChanged, parts...)
	if err := platform.Reduce(options.privileges()...); err != nil {
		return err
	}
	if err := awaitAlone(ctx, options.Health, log); err != nil {
		return err
	}
	if err := installPrograms(c, host, volumes.Library); err != nil {
		return err
	}
	if c.Etc != "" {
		installUnmanaged(host, log)
	}
	start := objects.NewStart(time.Now(), platform.Uptime())
	if c.manager, err = newManager(config, options, platform, start, c.board, log); err != nil {
		return err
	}
	relays, err := addPods(c, host, volumes)
	if err != nil {
		return err
	}
	if c.FromCluster {
		err = addClusterNetworks(c, start, host, volumes, relays)
	} else {
		err = addFileNetworks(c, host, volumes)
	}
	if err != nil {
		return err
	}
	return c.manager.Start(ctx)
}

// partChanged logs and counts a new state of a part, and triggers a report.
func (c *core) partChanged(part string, err error) {
	c.metrics.Part(part, err)
	c.queue.wake(concernSchedule)
	if err != nil {
		c.log.Warn("part is not ready", "part", part, "error", err)
		return
	}
	c.log.Info("part is ready", "part", part)
}

// installPrograms copies the network plugin and libktsn.so onto the node.
func installPrograms(c *core, host *install.Node, library string) error {
	plugin := filepath.Join(c.PluginDir, "tsn-cni")
	changed, err := host.Copy(filepath.Join(c.Programs, "tsn-cni"), plugin, 0o755)
	if err != nil {
		return err
	}
	c.log.Info("installed the network plugin", "path", plugin, "changed", changed)
	// The run directory is in memory, so the copy need not be recorded for removal.
	return install.Replace(filepath.Join(c.Programs, "libktsn.so"), library, 0o444)
}

// addPods adds the parts that serve the node's pods with either source of networks.
func addPods(c *core, host *install.Node, volumes *csi.Volumes) (*relay.Supervisor, error) {
	kubeletLeft := make(chan struct{})
	relays, err := newRelays(c, kubeletLeft)
	if err != nil {
		return nil, err
	}
	sweeper, err := newSweeper(c, volumes)
	if err != nil {
		return nil, err
	}
	if err := addDevices(c, host); err != nil {
		return nil, err
	}
	if err := addCSI(c, volumes, sweeper, kubeletLeft); err != nil {
		return nil, err
	}
	if err := addPoller(c, relays); err != nil {
		return nil, err
	}
	return relays, addWatcher(c, relays)
}

// addFileNetworks adds the parts that serve the networks of a file.
func addFileNetworks(c *core, host *install.Node, volumes *csi.Volumes) error {
	follower, err := newClock(c, nil)
	if err != nil {
		return err
	}
	ovs, err := newOVS(c)
	if err != nil {
		return err
	}
	planner := &peers.FromNodes{Nodes: c.manager.GetClient(), Networks: network.File{Path: c.Networks}, Node: c.Node}
	if err := addPeers(c, planner, host, ovs); err != nil {
		return err
	}
	return addResync(c, volumes, follower, nil)
}

// addClusterNetworks adds the parts that serve the networks and links of the cluster's objects.
func addClusterNetworks(c *core, start objects.Start, host *install.Node, volumes *csi.Volumes, relays *relay.Supervisor) error {
	watching, err := client.NewWithWatch(c.manager.GetConfig(), client.Options{
		Scheme: c.manager.GetScheme(), Mapper: c.manager.GetRESTMapper(), HTTPClient: c.manager.GetHTTPClient(),
	})
	if err != nil {
		return fmt.Errorf("prepare to watch the node's objects: %w", err)
	}
	informer := &objects.Informer{Client: watching, Node: c.Node, Minimum: &c.Minimum, Wait: start.Wait, Log: c.log.With("part", "objects")}
	nodeLinks := newLinkInformer(c, watching, start)
	judge := &encryption.Judge{Node: c.Node}
	follower, err := newClock(c, informer.State)
	if err != nil {
		return err
	}
	informer.Changed = func() {
		c.queue.wake(concernPeers, concernSchedule, concernLimits, concernClock, concernEncryption)
		follower.Trigger()
	}
	if err := c.manager.Add(manager.RunnableFunc(informer.Run)); err != nil {
		return err
	}
	paths, err := newPaths(c)
	if err != nil {
		return err
	}
	ovs, err := newOVS(c)
	if err != nil {
		return err
	}
	encrypted, err := newEncryption(c, informer.State, judge, nodeLinks, paths)
	if err != nil {
		return err
	}
	settings, err := newHost(c)
	if err != nil {
		return err
	}
	if err := addNodeStatus(c, informer.State, judge, follower, relays, paths, ovs, settings); err != nil {
		return err
	}
	if err := addLimits(c, informer.State); err != nil {
		return err
	}
	if err := addAttached(c); err != nil {
		return err
	}
	planner := &peers.FromCluster{Nodes: c.manager.GetClient(), Node: c.Node, State: informer.State, Encryption: judge.Look, EncryptedPort: c.EncryptedPort}
	if err := addPeers(c, planner, host, ovs); err != nil {
		return err
	}
	if err := addLinks(c, nodeLinks, judge, volumes, paths); err != nil {
		return err
	}
	return addResync(c, volumes, follower, encrypted)
}

// ask returns a function that calls ktsnd through the interface that a part defines for it.
func ask[K any](c *core, as func(*control.Client) K) func(context.Context, func(context.Context, K) error) error {
	return func(ctx context.Context, do func(context.Context, K) error) error {
		return c.ktsnd.Do(ctx, func(ctx context.Context, client *control.Client) error { return do(ctx, as(client)) })
	}
}
