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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// settleKeys is longer than another agent of the cluster needs to accept a key of which the API server has told it.
const settleKeys = 2 * time.Second

// errSwitched is that ktsnd and the kernel's tunnels are not on the way of frames.
var errSwitched = errors.New("the node's messages go through Open vSwitch, which makes the tunnels and does not encrypt them")

// addEncryption has encrypted networks encrypted.
func (a *agent) addEncryption() error {
	if !a.FromCluster {
		return nil
	}
	a.judge = &encryption.Judge{Node: a.Node}
	a.encryption = encryption.New(encryption.Reconciler{
		Judge: a.judge, State: a.objects.State, Own: a.tunnelAddress, Try: a.tryEncryption,
		OpenKernel: func() (encryption.Kernel, error) { return xfrm.Open(a.EncryptedPort) },
		OpenKeys: func() (*security.Keyring, string, error) {
			return security.Open(a.keysDir(), a.runDir(), security.DefaultTimes, time.Now)
		},
		RemoveKeys: func() error { return security.Remove(a.keysDir(), a.runDir()) }, SeenDir: a.keysDir(),
		Do: func(ctx context.Context, ask func(context.Context, encryption.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
		Retune: a.retune, MTU: a.pathMTU, Changed: func() { again(a.again, a.gatesAgain) },
		Links: func() ([]*v1alpha1.TSNLink, bool) {
			if links := a.links.Load(); links != nil {
				return links.all()
			}
			return nil, false
		},
		Plugged: func() (bool, error) {
			all, err := attachment.PluggedLinks(a.StateDir, "")
			return slices.ContainsFunc(all, func(one attachment.Plugged) bool { return one.Encrypted }), err
		},
		LinksChanged: func() { a.links.Load().encryptedAgain() },
		Linger:       lingerPeers, Settle: settleKeys, Now: time.Now, Log: a.log.With("part", "encryption"),
	})
	same := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(a.manager).Named("encryption").
		WatchesRawSource(source.Channel(a.encryptionAgain, same)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(a.encryption)
}

// keysDir is where the node's keys are.
func (o *Options) keysDir() string { return filepath.Join(o.StateDir, "keys") }

// tellEncryption has a ktsnd that was told of the node be told of its keys.
func (a *agent) tellEncryption() {
	if a.encryption != nil {
		a.encryption.KtsndAnew()
		again(a.encryptionAgain)
	}
}

// tryEncryption says why the node cannot encrypt.
func (a *agent) tryEncryption() error {
	if a.OVS != nil {
		return errSwitched
	}
	return xfrm.Try()
}

// tunnelAddress is where the node's tunnels end.
func (a *agent) tunnelAddress(ctx context.Context) (netip.Addr, error) {
	var node corev1.Node
	if err := a.manager.GetClient().Get(ctx, types.NamespacedName{Name: a.Node}, &node); err != nil {
		return netip.Addr{}, fmt.Errorf("look at node %s: %w", a.Node, err)
	}
	return tsnnetwork.TunnelAddress(&node)
}

// retune has tunnels that are there be encrypted or not, and the interfaces of running pods fit through them.
func (a *agent) retune(ctx context.Context, wanted []encryption.Tunnel) error {
	tunings := make([]overlay.Tuning, 0, len(wanted))
	for _, want := range wanted {
		tuning := overlay.Tuning{VNI: want.VNI, Port: network.DefaultPort, Encrypted: want.Encrypted, MTU: want.MTU}
		if want.Encrypted {
			tuning.Port = a.EncryptedPort
		}
		tunings = append(tunings, tuning)
	}
	node, err := overlay.Open(a.StateDir, daemon.Patience)
	if err != nil {
		return err
	}
	defer node.Close()
	changed, err := node.Retune(ctx, tunings, timed{a.link})
	for i := range tunings {
		if !slices.Contains(changed, tunings[i].VNI) {
			continue
		}
		a.log.Info("the tunnel of a network was made anew", "vni", tunings[i].VNI, "encrypted", tunings[i].Encrypted)
		if tunings[i].MTU > 0 {
			err = errors.Join(err, attachment.LowerMTU(a.StateDir, tunings[i].VNI, tunings[i].MTU))
		}
	}
	return err
}

// timed is ktsnd when it is needed: tunnels are made anew without it, too.
type timed struct{ link daemon.Link }

// Status implements overlay.Timed.
func (t timed) Status(ctx context.Context) (said *control.Status, err error) {
	err = t.link.Do(ctx, func(ctx context.Context, client *control.Client) (err error) {
		said, err = client.Status(ctx)
		return err
	})
	return said, err
}

// PeerAdd implements overlay.Timed.
func (t timed) PeerAdd(ctx context.Context, peer control.Peer) error {
	return t.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.PeerAdd(ctx, peer) })
}

// PeerDel implements overlay.Timed.
func (t timed) PeerDel(ctx context.Context, vni uint32, address netip.Addr) error {
	return t.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.PeerDel(ctx, vni, address) })
}

// pathMTU is the most that pods' interfaces of a network can have, 0 if that is not known.
func (a *agent) pathMTU(joined *network.Joined) int {
	_, said := tsnnetwork.OnNode(a.objects.State().Node, joined.Part.Name)
	if said == nil || said.Uplink == "" {
		return 0
	}
	most := a.mtu(said.Uplink, joined)
	if asked := int(joined.Object.Spec.MTU); asked > 0 && most > 0 {
		return min(asked, most)
	}
	return most
}
