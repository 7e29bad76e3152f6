// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Kernel is the node's kernel, as package xfrm has it.
type Kernel interface {
	Protect() error
	States() ([]xfrm.Found, error)
	AddState(state *xfrm.State) error
	RemoveState(name xfrm.Name) error
	Peers() ([]netip.Addr, error)
	AddPeer(own, peer netip.Addr) error
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

// Tunnel is what the device of a network shall be.
type Tunnel struct {
	VNI       uint32
	Encrypted bool
	// MTU is the most that pods' interfaces can have, in bytes, 0 for what they have.
	MTU int
}

// Reconciler has the node's networks encrypted.
type Reconciler struct {
	Judge *Judge
	// State is what the API server has said.
	State func() network.Cluster
	// Own is the address at which the node's tunnels end.
	Own func(ctx context.Context) (netip.Addr, error)
	// Try tells why the node cannot encrypt, nil if it can.
	Try func() error
	// OpenKernel opens the kernel's side.
	OpenKernel func() (Kernel, error)
	// OpenKeys opens the node's keys, which RemoveKeys removes.
	OpenKeys   func() (ring *security.Keyring, why string, err error)
	RemoveKeys func() error
	// SeenDir is the folder in which the newest statements about other nodes are kept, next to the node's keys; "": they are not.
	SeenDir string
	// Do has ask talk to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Retune has the devices of networks that have some be what they shall be.
	Retune func(ctx context.Context, wanted []Tunnel) error
	// MTU is the most that pods' interfaces of a network can have, 0 if that is not known.
	MTU func(joined *network.Joined) int
	// Links are the node's links, and whether these are all; nil: there are none. LinksChanged is called when they are encrypted otherwise.
	// Plugged tells whether tunnels of encrypted links are left on the node.
	Links        func() (all []*v1alpha1.TSNLink, known bool)
	Plugged      func() (bool, error)
	LinksChanged func()
	// Changed is called when the node announces something else.
	Changed func()
	// Linger is how long what other nodes have announced is taken after they are not told of any more.
	Linger time.Duration
	// Settle is how long other nodes may take to accept a key of this node of which they are told for the first time.
	Settle time.Duration
	Now    func() time.Time
	Log    *slog.Logger

	ring          *security.Keyring
	kernel, ktsnd *security.Outgoing
	// sent are the associations by which the kernel sends, by peer, and told those that ktsnd has; former are those that its predecessor had,
	// by which a ktsnd that took over sends until it has others.
	sent, told, former map[netip.Addr]*handed
	// modes are what ktsnd was told of networks, nil as long as nothing was; anew has something when there is a new ktsnd.
	modes map[uint32]control.Encryption
	anew  chan struct{}
	// floors are the latest generations that a peer's key has announced.
	floors map[security.Public]v1alpha1.SenderGenerations
	// removed are states of the node's present keys by which the kernel took packets once.
	removed map[xfrm.Name]bool
	// generations are those that the node announces.
	generations *v1alpha1.SenderGenerations
	// heard is since when others have been told of the node's keys, and first since when of its generations; hearings are what each peer has
	// been told of these.
	heard    map[security.Public]time.Time
	first    map[said]time.Time
	hearings map[netip.Addr]*hearing
	// gone is since when peers have not been wanted any more.
	gone map[netip.Addr]time.Time
	// triedAt is when Try was called last, and clean tells that nothing of encryption is left here.
	triedAt time.Time
	clean   bool
	// remembers tells that the newest statements about other nodes have been read, and savedAt when they were written last.
	remembers bool
	savedAt   time.Time
	// waits tells that all is undone when the tunnels of links are gone.
	waits bool
}

// handed is what a sender sends to a node by.
type handed struct {
	own    security.Public
	to     security.End
	serial uint32
	spi    uint32
}

const (
	// tryAgain is how often a node that cannot encrypt tries again: somebody may load a module.
	tryAgain = time.Minute
	// kernelWidth and ktsndWidth are how many associations a life of each gets.
	kernelWidth, ktsndWidth = 1, security.KtsndLife
	// saveEvery is how often the newest statements about other nodes are written at most.
	saveEvery = 10 * time.Second
	// mostPackets is after how many packets the kernel gets another key, long before its numbers of 32 bits are used up.
	mostPackets = 1 << 31
)

// KtsndAnew says that a ktsnd was told of the node that knows nothing of encryption yet.
func (r *Reconciler) KtsndAnew() {
	select {
	case r.anew <- struct{}{}:
	default: // it is known
	}
}

// New makes a reconciler of what is given.
func New(r Reconciler) *Reconciler {
	r.anew = make(chan struct{}, 1)
	return &r
}

// Reconcile looks at everything, whatever it was called for.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	result, err := repeat.Look(ctx, r.all, r.report)
	if r.ring != nil {
		result.RequeueAfter = min(result.RequeueAfter, max(time.Second, r.ring.Due().Sub(r.Now())))
	}
	if r.settles() || r.waitsForPeer() {
		result.RequeueAfter = min(result.RequeueAfter, r.Settle)
	}
	if r.waits {
		result.RequeueAfter = min(result.RequeueAfter, time.Second)
	}
	if len(r.gone) > 0 {
		result.RequeueAfter = min(result.RequeueAfter, r.Linger)
	}
	if r.remembers && r.Judge.unsavedNow() {
		result.RequeueAfter = min(result.RequeueAfter, saveEvery)
	}
	return result, err
}

// report says what the node announces.
func (r *Reconciler) report(err error) {
	before := r.Judge.Announced()
	now := Announcement{}
	if r.ring != nil {
		for _, key := range r.ring.Announced() {
			now.Keys = append(now.Keys, v1alpha1.NodeKey{
				ID: key.Public.ID(), Algorithm: v1alpha1.KeyAlgorithm, PublicKey: key.Public.String(), NotBefore: metav1.NewTime(key.Made),
			})
		}
		now.Sender = r.generations
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

// why is why the node cannot encrypt, "" if it can.
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
		return nil // what is in force stays
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
	if err := r.remember(); err != nil {
		return err
	}
	r.try()
	own, err := r.Own(ctx)
	if err != nil {
		return err
	}
	wants := r.wants(&state)
	r.addFar(wants, own, far, state.Node.Spec.ClusterKeys)
	return errors.Join(r.serve(ctx, &state, own, wants), wants.disputes(), r.saveSeen())
}

// remember reads, before anything is judged, which statements about other nodes were accepted last.
func (r *Reconciler) remember() error {
	if r.remembers || r.SeenDir == "" {
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
	r.remembers = true
	return nil
}

// saveSeen writes which statements about other nodes were accepted last.
func (r *Reconciler) saveSeen() error {
	now := r.Now()
	if !r.remembers || now.Sub(r.savedAt) < saveEvery {
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

// try looks whether the node can encrypt.
func (r *Reconciler) try() {
	now := r.Now()
	if !r.triedAt.IsZero() && (r.Judge.why() == "" || now.Sub(r.triedAt) < tryAgain) {
		return
	}
	r.triedAt = now
	err := r.Try()
	if r.Judge.SetUnavailable(err) {
		r.Log.Info("whether the node can encrypt", "error", err)
		r.Changed()
	}
}

// wants is what shall be, of all networks together.
type wants struct {
	// peers are the nodes to which frames are encrypted, and own what all are told of this node, by peer.
	peers map[netip.Addr]*Trusted
	own   map[netip.Addr]*Trusted
	// local are the addresses of the cluster's nodes, and disputed those of which several other clusters say that theirs is there, with a
	// node of each.
	local    map[netip.Addr]bool
	disputed map[netip.Addr][2]*Trusted
	// rejected are keys of nodes that are not believed to be at an address.
	rejected map[netip.Addr][]security.Public
	// kept are addresses of which what is in force stays.
	kept map[netip.Addr]bool
	// active are the networks that are encrypted, by VNI; known those of which that is known.
	active, known map[uint32]bool
	// complete tells that all networks are known.
	complete bool
	// hears tells that all that are told of the node's keys can hear of them now.
	hears bool
	// told are what others are told of this node, by network, and awaited those of them without which its keys do not change.
	told, awaited []*Trusted
}

func (r *Reconciler) wants(state *network.Cluster) *wants {
	w := &wants{
		peers: map[netip.Addr]*Trusted{}, own: map[netip.Addr]*Trusted{}, kept: map[netip.Addr]bool{}, active: map[uint32]bool{},
		known: map[uint32]bool{}, complete: true, hears: true, local: map[netip.Addr]bool{}, disputed: map[netip.Addr][2]*Trusted{},
		rejected: map[netip.Addr][]security.Public{},
	}
	for i := range state.Networks {
		joined := &state.Networks[i]
		v := r.Judge.Look(joined)
		vni := uint32(joined.Object.Spec.VNI)
		if v == nil {
			w.known[vni] = true
			continue
		}
		if v.Unknown != "" {
			w.complete = false
			continue
		}
		w.known[vni], w.active[vni] = true, v.Active
		w.add(v)
		w.awaited = append(w.awaited, v.Own)
		w.hears = w.hears && hears(joined.Object)
	}
	return w
}

// hears tells whether nodes of other clusters hear of this one: the keys of a node of which nobody hears do not change.
func hears(object *v1alpha1.TSNNetwork) bool {
	return object.Spec.IPv4.Part == "" || meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionHubSeen)
}

// knows tells whether others are told of a key of this node, wherever they are told of it.
func (w *wants) knows(key security.Public) bool {
	return w.all(func(keys []security.Public) bool { return slices.Contains(keys, key) })
}

// knowsFirst tells whether others are told that a key of this node is the one to send to.
func (w *wants) knowsFirst(key security.Public) bool {
	return w.all(func(keys []security.Public) bool { return slices.Index(keys, key) == 0 })
}

// all tells whether something holds of the keys of this node that others are told of, wherever they are told of them.
func (w *wants) all(holds func([]security.Public) bool) bool {
	for _, own := range w.awaited {
		if own == nil || !holds(own.Keys) {
			return false
		}
	}
	return w.hears && w.complete && len(w.awaited) > 0
}

// serve does what is wanted: what others send is taken before anything is sent to them.
func (r *Reconciler) serve(ctx context.Context, state *network.Cluster, own netip.Addr, w *wants) error {
	if r.Judge.why() != "" {
		w.peers = map[netip.Addr]*Trusted{}
		return errors.Join(r.tellKtsnd(ctx, own, w), r.retune(ctx, state, w))
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
	r.linger(w)
	r.hear(w)
	err = errors.Join(r.expel(kernel, own, w), r.program(kernel, own, w), r.tellKtsnd(ctx, own, w), r.retune(ctx, state, w))
	r.generations = &v1alpha1.SenderGenerations{
		Kernel: r.announced(r.kernel, security.Kernel, r.sent, w),
		Ktsnd:  r.announced(r.ktsnd, security.Ktsnd, r.told, w),
	}
	return err
}

// roll opens the node's keys, and brings them up to date.
func (r *Reconciler) roll(w *wants) error {
	if r.ring == nil {
		ring, why, err := r.OpenKeys()
		if err != nil {
			return err
		}
		if why != "" {
			r.Log.Info("the node has a new key", "reason", why, "id", ring.Current().Public.ID())
		}
		kernel, err := security.NewOutgoing(ring, security.Kernel, kernelWidth)
		if err != nil {
			return err
		}
		ktsnd, err := security.NewOutgoing(ring, security.Ktsnd, ktsndWidth)
		if err != nil {
			return err
		}
		r.ring, r.kernel, r.ktsnd = ring, kernel, ktsnd
		r.sent, r.told, r.former, r.generations = map[netip.Addr]*handed{}, map[netip.Addr]*handed{}, map[netip.Addr]*handed{}, nil
		r.floors, r.gone, r.removed = map[security.Public]v1alpha1.SenderGenerations{}, map[netip.Addr]time.Time{}, map[xfrm.Name]bool{}
		r.heard = map[security.Public]time.Time{}
		r.first, r.hearings = map[said]time.Time{}, map[netip.Addr]*hearing{}
		if why == "" {
			for _, key := range ring.Announced() {
				r.heard[key.Public] = key.Made // others know it from before
			}
		}
	}
	changed, err := r.ring.Roll(w.knows, w.knowsFirst, r.sendsBy)
	if changed {
		r.removed = map[xfrm.Name]bool{}
		r.Log.Info("the node's keys have changed", "announced", len(r.ring.Announced()), "in-use", r.ring.Current().Public.ID())
	}
	return err
}

// linger notes which peers are gone, and keeps them for a while.
func (r *Reconciler) linger(w *wants) {
	now := r.Now()
	for _, all := range []map[netip.Addr]*handed{r.sent, r.told, r.former} {
		for address := range all {
			r.note(address, w, now)
		}
	}
	for address, since := range r.gone {
		if w.peers[address] != nil || now.Sub(since) >= r.Linger {
			delete(r.gone, address)
			continue
		}
		w.kept[address] = true
	}
}

func (r *Reconciler) note(address netip.Addr, w *wants, now time.Time) {
	if w.peers[address] == nil && r.gone[address].IsZero() {
		r.gone[address] = now
	}
}

// leave undoes all, on a node of whose networks none is encrypted.
func (r *Reconciler) leave(ctx context.Context, state *network.Cluster) error {
	if r.clean {
		return nil
	}
	// Without the policies, a tunnel that is not removed yet would send in clear.
	if r.Plugged != nil {
		plugged, err := r.Plugged()
		if r.waits = plugged; err != nil || plugged {
			return err
		}
	}
	w := r.wants(state)
	if err := errors.Join(r.tellKtsnd(ctx, netip.Addr{}, w), r.retune(ctx, state, w)); err != nil {
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
	r.ring, r.kernel, r.ktsnd, r.sent, r.told, r.former, r.gone = nil, nil, nil, nil, nil, nil, nil
	r.hearings = nil
	r.triedAt, r.clean = time.Time{}, true
	return nil
}

// retune has the devices of networks be what they shall be. Of a network of which it is not known, the device stays as it is.
func (r *Reconciler) retune(ctx context.Context, state *network.Cluster, w *wants) error {
	var wanted []Tunnel
	for i := range state.Networks {
		joined := &state.Networks[i]
		if vni := uint32(joined.Object.Spec.VNI); w.known[vni] {
			tunnel := Tunnel{VNI: vni, Encrypted: w.active[vni]}
			if joined.Object.Spec.Encrypted() {
				tunnel.MTU = r.MTU(joined)
			}
			wanted = append(wanted, tunnel)
		}
	}
	if err := r.Retune(ctx, wanted); err != nil {
		return fmt.Errorf("have the networks' tunnels encrypted as they shall be: %w", err)
	}
	return nil
}
