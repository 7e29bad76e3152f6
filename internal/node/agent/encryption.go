// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/objects"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// keySettleTime is longer than another agent of the cluster needs to accept a key from the API server.
const keySettleTime = 2 * time.Second

// errOpenVSwitch is returned if neither ktsnd nor the kernel carries the node's frames.
var errOpenVSwitch = errors.New("the node's messages go through Open vSwitch, whose tunnels are not encrypted")

// newEncryption adds the controller that encrypts the tunnels of networks and links.
func newEncryption(c *core, state func() network.Cluster, judge *encryption.Judge, nodeLinks *objects.Links, paths pathMTUs) (
	*encryption.Reconciler, error) {
	r := encryption.New(encryption.Config{
		Judge: judge, State: state, Own: c.tunnelAddress,
		Try: func() error {
			if c.OVS != nil {
				return errOpenVSwitch
			}
			return xfrm.Try()
		},
		OpenKernel: func() (encryption.Kernel, error) { return xfrm.Open(c.EncryptedPort) },
		OpenKeys: func() (*security.Keyring, string, error) {
			return security.Open(c.keysDir(), c.runDir(), security.DefaultTimes, time.Now)
		},
		RemoveKeys: func() error { return security.Remove(c.keysDir(), c.runDir()) }, SeenDir: c.keysDir(),
		Do:      ask(c, func(k *control.Client) encryption.Ktsnd { return k }),
		Retune:  c.retune,
		MTU:     func(joined *network.Joined) int { return podMTU(state().Node, joined, paths) },
		Changed: func() { c.queue.wake(concernPeers, concernSchedule) },
		Links:   func() ([]*v1alpha1.TSNLink, bool) { return listLinks(nodeLinks) },
		Plugged: func() (bool, error) {
			plugged, err := attachment.PluggedLinks(c.StateDir, "")
			return slices.ContainsFunc(plugged, func(p attachment.Plugged) bool { return p.Encrypted }), err
		},
		LinksChanged: func() { enqueueLinks(c.queue, nodeLinks, func(l *v1alpha1.TSNLink) bool { return l.Spec.Encrypted() }) },
		Linger:       peerLinger, Settle: keySettleTime, Now: time.Now, Log: c.log.With("part", "encryption"),
	})
	return r, ctrl.NewControllerManagedBy(c.manager).Named("encryption").
		WatchesRawSource(c.queue.source(concernEncryption)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// keysDir returns the folder of the node's keys.
func (o *Options) keysDir() string { return filepath.Join(o.StateDir, "keys") }

// tunnelAddress returns the node's own tunnel address.
func (c *core) tunnelAddress(ctx context.Context) (netip.Addr, error) {
	var node corev1.Node
	if err := c.manager.GetClient().Get(ctx, types.NamespacedName{Name: c.Node}, &node); err != nil {
		return netip.Addr{}, fmt.Errorf("get node %s: %w", c.Node, err)
	}
	return tsnnetwork.TunnelAddress(&node)
}

// retune recreates tunnels whose encryption must change, and lowers the MTU of running pods' interfaces if necessary.
func (c *core) retune(ctx context.Context, wanted []encryption.Tunnel) error {
	tunings := make([]overlay.Tuning, 0, len(wanted))
	for _, tunnel := range wanted {
		tuning := overlay.Tuning{VNI: tunnel.VNI, Port: tunnel.Port, Encrypted: tunnel.Encrypted, MTU: tunnel.MTU}
		if tunnel.Encrypted {
			tuning.Port = c.EncryptedPort
		}
		tunings = append(tunings, tuning)
	}
	node, err := overlay.Open(c.StateDir, daemon.LockTimeout)
	if err != nil {
		return err
	}
	defer node.Close()
	changed, err := node.Retune(ctx, tunings, ktsndTunnels{c.ktsnd})
	for i := range tunings {
		if !slices.Contains(changed, tunings[i].VNI) {
			continue
		}
		c.log.Info("recreated the tunnel of a network", "vni", tunings[i].VNI, "encrypted", tunings[i].Encrypted)
		if tunings[i].MTU > 0 {
			err = errors.Join(err, attachment.LowerMTU(c.StateDir, tunings[i].VNI, tunings[i].MTU))
		}
	}
	return err
}

// podMTU returns the largest possible MTU of pods' interfaces on a network in bytes, 0 if it is unknown.
func podMTU(node *v1alpha1.TSNNode, joined *network.Joined, paths pathMTUs) int {
	_, reported := tsnnetwork.OnNode(node, joined.Part.Name)
	if reported == nil || reported.Uplink == "" {
		return 0
	}
	largest := paths.networkMTU(reported.Uplink, joined)
	if wanted := int(joined.Object.Spec.MTU); wanted > 0 && largest > 0 {
		return min(wanted, largest)
	}
	return largest
}
