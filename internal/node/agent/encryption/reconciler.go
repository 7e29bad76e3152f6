// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Kernel is the IPsec side of the node's kernel, which package xfrm implements.
type Kernel interface {
	Protect() error
	States() ([]xfrm.Found, error)
	AddState(state *xfrm.State) error
	RemoveState(name xfrm.Name) error
	Peers() ([]netip.Addr, error)
	AddPeer(local, peer netip.Addr) error
	RemovePeer(peer netip.Addr) error
	Clear() error
	Close()
}

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	NetworkEncryptions(ctx context.Context) ([]control.NetworkEncryption, error)
	SetNetworkEncryption(ctx context.Context, vni uint32, encryption control.Encryption) error
	SetSecurityAssociations(ctx context.Context, peer netip.Addr, associations []control.SecurityAssociation) error
	UsedGeneration(ctx context.Context) (uint32, error)
}

// Tunnel is the desired state of a network's tunnel device.
type Tunnel struct {
	VNI uint32
	// Port is its UDP port while it is not encrypted.
	Port      uint16
	Encrypted bool
	// MTU is the largest for pods' interfaces, in bytes, 0 to leave it as it is.
	MTU int
}

// Config is what a Reconciler needs.
type Config struct {
	Judge *Judge
	// State returns the node's objects.
	State func() network.Cluster
	// Own returns the address at which the node's tunnels end.
	Own func(ctx context.Context) (netip.Addr, error)
	// Try returns why the node cannot encrypt, nil if it can.
	Try func() error
	// OpenKernel opens the kernel's side.
	OpenKernel func() (Kernel, error)
	// OpenKeys opens the node's keys, which RemoveKeys removes.
	OpenKeys   func() (ring *security.Keyring, why string, err error)
	RemoveKeys func() error
	// SeenDir is the folder in which the newest statements about other nodes are kept, next to the node's keys; "": they are not.
	SeenDir string
	// Do connects to ktsnd and calls ask.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Retune changes the existing tunnel devices of networks to the desired state.
	Retune func(ctx context.Context, wanted []Tunnel) error
	// MTU returns the largest MTU for pods' interfaces of a network, 0 if that is not known.
	MTU func(joined *network.Joined) int
	// Links returns the node's links, and whether these are all; nil means that there are none. LinksChanged is called when other links are
	// encrypted. Plugged reports whether tunnels of encrypted links are left on the node.
	Links        func() (all []*v1alpha1.TSNLink, known bool)
	Plugged      func() (bool, error)
	LinksChanged func()
	// Changed is called when the announcement changes.
	Changed func()
	// Linger is how long the keys of a node stay installed after it is no peer any more.
	Linger time.Duration
	// Settle is how long other nodes may take to accept a key of this node after the API server has it.
	Settle time.Duration
	Now    func() time.Time
	Log    *slog.Logger
}

// Reconciler has the tunnels of the node's networks and links encrypted.
type Reconciler struct {
	Config
	keys    nodeKeys
	peers   peerState
	install installer
	// triedAt is when Try was called last. clean means that nothing of encryption is left on the node.
	triedAt time.Time
	clean   bool
	// loaded means that the accepted statements about other nodes were read; savedAt is when they were written last.
	loaded  bool
	savedAt time.Time
	// waits means that everything is removed once the tunnels of links are gone.
	waits bool
}

const (
	// retryTry is how often a node that cannot encrypt tries again: somebody may load a module.
	retryTry = time.Minute
	// saveEvery is the least time between two writes of the newest statements about other nodes.
	saveEvery = 10 * time.Second
	// maxPackets is the number of packets after which the kernel gets another key, long before its 32-bit sequence numbers are used up.
	maxPackets = 1 << 31
)

// New makes a reconciler.
func New(config Config) *Reconciler {
	r := &Reconciler{
		Config: config, keys: nodeKeys{settle: config.Settle, now: config.Now},
		peers: peerState{settle: config.Settle, linger: config.Linger, now: config.Now},
	}
	r.install = installer{keys: &r.keys, peers: &r.peers, do: config.Do, log: config.Log, restarted: make(chan struct{}, 1)}
	return r
}

// KtsndRestarted has the next Reconcile give all keys to a new ktsnd. It does not block.
func (r *Reconciler) KtsndRestarted() {
	select {
	case r.install.restarted <- struct{}{}:
	default: // one is enough
	}
}

// Reconcile reconciles everything, whatever the request.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	result, err := repeat.Look(ctx, r.all, r.report)
	if r.keys.ring != nil {
		result.RequeueAfter = min(result.RequeueAfter, max(time.Second, r.keys.ring.Due().Sub(r.Now())))
	}
	if r.keys.settling() || r.peers.settling() {
		result.RequeueAfter = min(result.RequeueAfter, r.Settle)
	}
	if r.waits {
		result.RequeueAfter = min(result.RequeueAfter, time.Second)
	}
	if len(r.peers.goneSince) > 0 {
		result.RequeueAfter = min(result.RequeueAfter, r.Linger)
	}
	if r.loaded && r.Judge.unsavedNow() {
		result.RequeueAfter = min(result.RequeueAfter, saveEvery)
	}
	return result, err
}

// report updates the announcement.
func (r *Reconciler) report(err error) {
	before := r.Judge.Announced()
	now := Announcement{}
	if r.keys.ring != nil {
		now = r.keys.announcement()
	} else if !r.clean {
		now.Unavailable = r.Judge.why()
	}
	r.Judge.announce(&now, err)
	if !sameAnnouncement(&before, &now) {
		r.Changed()
	}
}

func sameAnnouncement(a, b *Announcement) bool {
	same := a.Unavailable == b.Unavailable && len(a.Keys) == len(b.Keys) && (a.Sender == nil) == (b.Sender == nil)
	for i := range a.Keys {
		same = same && i < len(b.Keys) && a.Keys[i].PublicKey == b.Keys[i].PublicKey
	}
	return same && (a.Sender == nil || b.Sender == nil || *a.Sender == *b.Sender)
}

// why returns why the node cannot encrypt, "" if it can.
func (j *Judge) why() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.unavailable == nil {
		return ""
	}
	return j.unavailable.Error()
}

func (r *Reconciler) all(ctx context.Context) error {
	state := r.State()
	if state.Unknown != nil {
		return nil // installed keys stay
	}
	far, known, err := r.farNodes(ctx)
	if err != nil || !known {
		return err
	}
	r.Judge.forget(&state, far)
	encrypted := len(far) > 0
	for i := range state.Networks {
		joined := &state.Networks[i]
		if joined.Object == nil {
			return nil // it may be encrypted
		}
		encrypted = encrypted || joined.Object.Spec.Encrypted()
	}
	if !encrypted {
		r.Judge.setFar(nil)
		// Statements about other nodes are kept: the network may be encrypted again.
		return errors.Join(r.leave(ctx, &state), r.saveSeen())
	}
	r.clean, r.waits = false, false
	if err := r.loadSeen(); err != nil {
		return err
	}
	r.try()
	ownAddress, err := r.Own(ctx)
	if err != nil {
		return err
	}
	wants := r.wants(&state)
	r.addFar(wants, ownAddress, far, state.Node.Spec.ClusterKeys)
	return errors.Join(r.serve(ctx, &state, ownAddress, wants), wants.disputes(), r.saveSeen())
}

// loadSeen reads the accepted statements about other nodes before any new one is judged.
func (r *Reconciler) loadSeen() error {
	if r.loaded || r.SeenDir == "" {
		return nil
	}
	seen, damaged, err := security.LoadSeen(r.SeenDir)
	if err != nil {
		return err
	}
	if damaged != "" {
		r.Log.Warn("older statements about other nodes may be accepted once", "reason", damaged)
	}
	r.Judge.remember(seen)
	r.loaded = true
	return nil
}

// saveSeen writes the accepted statements about other nodes.
func (r *Reconciler) saveSeen() error {
	now := r.Now()
	if !r.loaded || now.Sub(r.savedAt) < saveEvery {
		return nil
	}
	seen := r.Judge.toSave()
	if seen == nil {
		return nil
	}
	if err := security.SaveSeen(r.SeenDir, seen); err != nil {
		r.Judge.saveAgain()
		return err
	}
	r.savedAt = now
	return nil
}

// try checks whether the node can encrypt.
func (r *Reconciler) try() {
	now := r.Now()
	if !r.triedAt.IsZero() && (r.Judge.why() == "" || now.Sub(r.triedAt) < retryTry) {
		return
	}
	r.triedAt = now
	err := r.Try()
	if r.Judge.SetUnavailable(err) {
		r.Log.Info("checked whether the node can encrypt", "error", err)
		r.Changed()
	}
}

// serve installs the desired state. The node can receive by a key before any is used for sending.
func (r *Reconciler) serve(ctx context.Context, state *network.Cluster, ownAddress netip.Addr, w *wants) error {
	if r.Judge.why() != "" {
		w.peers = map[netip.Addr]*Trusted{}
		return errors.Join(r.install.updateKtsnd(ctx, ownAddress, w), r.retune(ctx, state, w))
	}
	if err := r.roll(w); err != nil {
		return err
	}
	kernel, err := r.OpenKernel()
	if err != nil {
		return err
	}
	defer kernel.Close()
	if err := kernel.Protect(); err != nil {
		return err
	}
	r.peers.keepGone(w, r.install.installed())
	r.keys.noteKeys(w)
	r.peers.update(w, &r.keys)
	err = errors.Join(r.install.expel(kernel, ownAddress, w), r.install.program(kernel, ownAddress, w), r.install.updateKtsnd(ctx, ownAddress, w), r.retune(ctx, state, w))
	r.keys.generations = &v1alpha1.SenderGenerations{
		Kernel: r.keys.generationToAnnounce(r.keys.kernel, security.Kernel, r.install.sent, &r.peers, w),
		Ktsnd:  r.keys.generationToAnnounce(r.keys.ktsnd, security.Ktsnd, r.install.inKtsnd, &r.peers, w),
	}
	return err
}

// roll opens the node's keys, and rolls those that are due.
func (r *Reconciler) roll(w *wants) error {
	if r.keys.ring == nil {
		reason, err := r.keys.open(r.OpenKeys)
		if err != nil {
			return err
		}
		if reason != "" {
			r.Log.Info("the node has a new key", "reason", reason, "id", r.keys.ring.Current().Public.ID())
		}
		r.peers.reset()
		r.install.reset()
	}
	changed, err := r.keys.ring.Roll(w.knows, w.knowsFirst, r.install.sendsBy)
	if changed {
		r.install.removed = map[xfrm.Name]bool{}
		r.Log.Info("the node's keys have changed", "announced", len(r.keys.ring.Announced()), "in-use", r.keys.ring.Current().Public.ID())
	}
	return err
}

// leave removes everything from a node without encrypted networks.
func (r *Reconciler) leave(ctx context.Context, state *network.Cluster) error {
	if r.clean {
		return nil
	}
	// Without the policies, a tunnel that still exists would send in clear.
	if r.Plugged != nil {
		plugged, err := r.Plugged()
		if r.waits = plugged; err != nil || plugged {
			return err
		}
	}
	w := r.wants(state)
	if err := errors.Join(r.install.updateKtsnd(ctx, netip.Addr{}, w), r.retune(ctx, state, w)); err != nil {
		return err
	}
	kernel, err := r.OpenKernel()
	if err == nil {
		err = kernel.Clear()
		kernel.Close()
	}
	if err != nil && !errors.Is(err, xfrm.ErrUnavailable) {
		return err
	}
	if err := r.RemoveKeys(); err != nil {
		return err
	}
	r.keys.close()
	r.peers.reset()
	r.install.reset()
	r.triedAt, r.clean = time.Time{}, true
	return nil
}

// retune changes the networks' tunnel devices to the desired state. Devices of networks whose state is not known stay as they are.
func (r *Reconciler) retune(ctx context.Context, state *network.Cluster, w *wants) error {
	var wanted []Tunnel
	for i := range state.Networks {
		joined := &state.Networks[i]
		if vni := uint32(joined.Object.Spec.VNI); w.known[vni] {
			tunnel := Tunnel{VNI: vni, Port: joined.Object.Spec.TunnelPort(), Encrypted: w.active[vni]}
			if joined.Object.Spec.Encrypted() {
				tunnel.MTU = r.MTU(joined)
			}
			wanted = append(wanted, tunnel)
		}
	}
	if err := r.Retune(ctx, wanted); err != nil {
		return fmt.Errorf("update the networks' tunnels: %w", err)
	}
	return nil
}
