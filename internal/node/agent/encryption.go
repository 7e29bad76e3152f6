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

// settleKeys is longer than another agent of the cluster needs to accept a key that it got from the API server.
const settleKeys = 2 * time.Second

// errSwitched means that neither ktsnd nor the kernel's tunnels carry the node's frames.
var errSwitched = errors.New("the node's messages go through Open vSwitch, which makes the tunnels and does not encrypt them")

// newEncryption adds the controller that encrypts the tunnels of networks and links.
func newEncryption(c *core, state func() network.Cluster, judge *encryption.Judge, nodeLinks *objects.Links, paths pathMTUs) (
	*encryption.Reconciler, error) {
	r := encryption.New(encryption.Config{
		Judge: judge, State: state, Own: c.tunnelAddress,
		Try: func() error {
			if c.OVS != nil {
				return errSwitched
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
		MTU:     func(joined *network.Joined) int { return networkMTU(state().Node, joined, paths) },
		Changed: func() { c.queue.wake(concernPeers, concernSchedule) },
		Links:   func() ([]*v1alpha1.TSNLink, bool) { return listLinks(nodeLinks) },
		Plugged: func() (bool, error) {
			plugged, err := attachment.PluggedLinks(c.StateDir, "")
			return slices.ContainsFunc(plugged, func(p attachment.Plugged) bool { return p.Encrypted }), err
		},
		LinksChanged: func() { enqueueLinks(c.queue, nodeLinks, func(l *v1alpha1.TSNLink) bool { return l.Spec.Encrypted() }) },
		Linger:       lingerPeers, Settle: settleKeys, Now: time.Now, Log: c.log.With("part", "encryption"),
	})
	return r, ctrl.NewControllerManagedBy(c.manager).Named("encryption").
		WatchesRawSource(c.queue.source(concernEncryption)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// keysDir is the folder of the node's keys.
func (o *Options) keysDir() string { return filepath.Join(o.StateDir, "keys") }

// tunnelAddress returns the address at which the node's tunnels end.
func (c *core) tunnelAddress(ctx context.Context) (netip.Addr, error) {
	var node corev1.Node
	if err := c.manager.GetClient().Get(ctx, types.NamespacedName{Name: c.Node}, &node); err != nil {
		return netip.Addr{}, fmt.Errorf("get node %s: %w", c.Node, err)
	}
	return tsnnetwork.TunnelAddress(&node)
}

// retune recreates tunnels that are to be encrypted and are not, or the reverse, and lowers the MTU of running pods' interfaces to fit.
func (c *core) retune(ctx context.Context, wanted []encryption.Tunnel) error {
	tunings := make([]overlay.Tuning, 0, len(wanted))
	for _, want := range wanted {
		tuning := overlay.Tuning{VNI: want.VNI, Port: network.DefaultPort, Encrypted: want.Encrypted, MTU: want.MTU}
		if want.Encrypted {
			tuning.Port = c.EncryptedPort
		}
		tunings = append(tunings, tuning)
	}
	node, err := overlay.Open(c.StateDir, daemon.Patience)
	if err != nil {
		return err
	}
	defer node.Close()
	changed, err := node.Retune(ctx, tunings, timed{c.ktsnd})
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

// networkMTU returns the largest MTU that pods' interfaces of a network can have, 0 if it is not known.
func networkMTU(node *v1alpha1.TSNNode, joined *network.Joined, paths pathMTUs) int {
	_, reported := tsnnetwork.OnNode(node, joined.Part.Name)
	if reported == nil || reported.Uplink == "" {
		return 0
	}
	most := paths.network(reported.Uplink, joined)
	if wanted := int(joined.Object.Spec.MTU); wanted > 0 && most > 0 {
		return min(wanted, most)
	}
	return most
}
