// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/peers"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/removal"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	// peerLinger is longer than the operator needs to write all objects of a change.
	peerLinger = 10 * time.Second
	// peerStartupGrace is longer than the operator needs after its start to write the objects of all nodes.
	peerStartupGrace = 2 * time.Minute
)

// addPeers adds the controller that keeps the other nodes in the kernel, ktsnd and Open vSwitch. ovs may be nil.
func addPeers(c *core, planner peers.Planner, host *install.Node, ovs *openvswitch.Reconciler) error {
	events := c.manager.GetEventRecorderFor("ktsn-agent")
	files := &configurations{Options: c.Options, host: host, log: c.log}
	r := &peers.Reconciler{
		Plan: planner, Now: time.Now, Log: c.log.With("part", partNetworks),
		Open:      c.platform.Overlay,
		Do:        ask(c, func(k *control.Client) peers.Ktsnd { return k }),
		Configure: files.write,
		Links:     func() (map[uint32]bool, error) { return overlay.LinkVNIs(c.StateDir) },
		Report:    func(err error) { c.board.set(partNetworks, err) },
		LeftOut:   c.metrics.LeftOut,
		Warn: func(node *corev1.Node, reason, message string) {
			events.Event(node, corev1.EventTypeWarning, reason, message)
		},
	}
	if ovs != nil {
		r.Switch = ovs.Reconcile
	}
	if c.FromCluster {
		r.Linger, r.StartupGrace = peerLinger, peerStartupGrace
	}
	return ctrl.NewControllerManagedBy(c.manager).Named("peers").
		Watches(&corev1.Node{}, wholeNode, builder.WithPredicates(nodeChanged)).
		// The node's objects have changed, or ktsnd has started without peers.
		WatchesRawSource(c.queue.source(concernPeers)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// configurations are the node's network configurations, which Multus reads.
type configurations struct {
	*Options
	host *install.Node
	log  *slog.Logger
}

// write writes the configuration of each network in which the node has a subnet. If complete, it removes the
// configurations of other networks.
func (c *configurations) write(networks []network.Network, parts map[string][]netip.Prefix, complete bool) error {
	var errs error
	keep := map[string]bool{}
	for _, network := range networks {
		path := filepath.Join(c.ConfDir, network.Name+".conf")
		keep[path] = true
		if parts[network.Name] == nil {
			continue // an existing configuration stays
		}
		text, err := install.Config(&network, parts[network.Name])
		if err == nil {
			_, err = c.host.File(path, text, 0o644)
		}
		errs = errors.Join(errs, err, c.writeAddressOwners(&network))
	}
	if !complete {
		return errs
	}
	installed, err := c.host.Installed()
	if err != nil {
		return errors.Join(errs, err)
	}
	for _, path := range installed {
		if filepath.Dir(path) == c.ConfDir && !keep[path] {
			errs = errors.Join(errs, c.remove(path))
		}
	}
	return errs
}

// writeAddressOwners writes which pods have static addresses of a network, unless that is not known yet.
func (c *configurations) writeAddressOwners(network *network.Network) error {
	if len(network.Static) == 0 {
		return attachment.WriteAddressOwners(c.StateDir, network.Name, nil)
	}
	if network.AddressOwners == nil {
		return nil
	}
	return attachment.WriteAddressOwners(c.StateDir, network.Name, &attachment.AddressOwners{Node: c.Node, Addresses: network.AddressOwners})
}

// remove removes a network's configuration and host-local's records of its addresses. Both stay while an address is in
// use: the configuration shows that something is left to remove.
func (c *configurations) remove(path string) error {
	network := strings.TrimSuffix(filepath.Base(path), ".conf")
	if err := removal.RemoveIPAM(filepath.Join(c.Host, c.IPAMDir, network)); err != nil {
		c.log.Warn("keeping the configuration of a deleted network", "network", network, "reason", err)
		return nil
	}
	return errors.Join(attachment.WriteAddressOwners(c.StateDir, network, nil), c.host.Remove(path))
}
