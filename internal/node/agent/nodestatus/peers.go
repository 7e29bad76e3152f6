// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	// silentAfterMs is the silence after which a peer counts as silent. It sends an announcement every 10 to 20 s, and one may be lost.
	silentAfterMs = 42_000
	// firstWithinMs is how long a peer may take for its first announcement: its node may still be pulling the image of ktsnd.
	firstWithinMs = 300_000
	// peersReadEvery is the least time between two reads of the peers, and peersMessageEvery between two writes that name other silent peers.
	peersReadEvery    = repeatEvery / 2
	peersMessageEvery = 20 * time.Second
	// peersListed is the number of peers that a message names.
	peersListed = 3
)

// peerKey identifies a peer.
type peerKey struct {
	vni     uint32
	address netip.Addr
}

// readPeers reads the peers in ktsnd, unless that was done just before.
func (r *Reconciler) readPeers(ctx context.Context, ktsnd Ktsnd) (peers map[peerKey]*control.Peer, err error) {
	if now := r.Now(); r.peers == nil || now.Sub(r.peersReadAt) >= peersReadEvery {
		list, err := ktsnd.Peers(ctx)
		if err != nil {
			return nil, err
		}
		r.peers, r.peersReadAt = make(map[peerKey]*control.Peer, len(list)), now
		for i := range list {
			r.peers[peerKey{list[i].VNI, list[i].Address}] = &list[i]
		}
	}
	return r.peers, nil
}

// silence is the silence of a peer.
type silence struct {
	node    string
	address netip.Addr
	since   time.Time
	// dropped means that its announcements arrive at the uplink, and not in the tunnel.
	dropped bool
	// encrypted means that its announcements are encrypted.
	encrypted bool
}

// setPeers sets the condition whether the node receives from the other nodes of its cluster on a network. The last one stays while ktsnd
// does not answer, and until the agent has listed the nodes.
func (r *Reconciler) setPeers(status *v1alpha1.NodeNetworkStatus, joined *network.Joined, encrypted bool, now *ktsndState) {
	if now.peers == nil || joined.Shards == nil {
		return
	}
	about, before := joined.Object, meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPeersReachable)
	vni, podMTU := uint32(about.Spec.VNI), int(status.MTU)
	if wanted := int(about.Spec.MTU); wanted > 0 && podMTU > 0 {
		podMTU = min(wanted, podMTU)
	}
	var summary metrics.PeerSummary
	var silences []silence
	for _, shard := range joined.Shards {
		for i := range shard {
			member := &shard[i]
			if member.Cluster != "" || member.Node == r.Node {
				continue
			}
			at := peerKey{vni, member.Address}
			peer := now.peers[at]
			if peer == nil { // ktsnd does not know it yet
				peer = &control.Peer{}
			}
			since, known := silentSince(peer.Health, r.silent[at], r.Now())
			switch {
			case !known:
				summary.Unknown++
			case since.IsZero():
				summary.Reachable++
			default:
				silences = append(silences, silence{member.Node, member.Address, since, arrives(peer.Health), peer.Health.Encrypted})
			}
			addPath(&summary, peer, podMTU)
		}
	}
	r.setSilent(vni, silences)
	summary.Silent = len(silences)
	r.peerSummaries[about.Name] = summary
	condition := metav1.Condition{Type: v1alpha1.ConditionPeersReachable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
	switch {
	case len(silences) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonPeerSilent
		condition.Message = r.silenceMessage(silences, joined, now.status)
	case summary.Reachable == 0 && summary.Unknown == 0:
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionPeersReachable)
		return
	case summary.Reachable == 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPeersUnknown
		condition.Message = "no other node has announced itself yet"
		if encrypted {
			condition.Message += "; in an encrypted network nodes with ktsnd 0.1.0 do not, and IP protocol 50 must pass"
		}
	}
	if before != nil && before.Status == condition.Status && before.Reason == condition.Reason && r.Now().Sub(r.writtenAt) < peersMessageEvery {
		condition.Message = before.Message
	}
	r.set(status, about, condition)
}

// addPath adds the way to and from a peer to a summary; pods' interfaces have podMTU bytes, 0 if that is not known.
func addPath(summary *metrics.PeerSummary, peer *control.Peer, podMTU int) {
	if peer.Health.Lossy() {
		summary.Lossy++
	}
	if health := peer.Health; health != nil && health.Announced > 0 {
		summary.LossRatio = max(summary.LossRatio, float64(health.Lost)/float64(health.Announced))
	}
	if peer.MTU == 0 {
		return
	}
	if peer.MTU < podMTU {
		summary.Narrow++
	}
	if summary.MTU == 0 || peer.MTU < summary.MTU {
		summary.MTU = peer.MTU
	}
}

// silentSince returns since when a peer has been silent, zero if it is not; before is the last result. known is false if that is not known:
// a peer of an encrypted network that was never heard of may have an older ktsnd, which does not announce itself there.
func silentSince(health *control.PeerHealth, before, now time.Time) (since time.Time, known bool) {
	silentMs := int64(0)
	switch {
	case health == nil:
		return time.Time{}, false
	case health.TunnelAgoMs >= 0 && health.TunnelAgoMs <= silentAfterMs:
		return time.Time{}, true
	case health.TunnelAgoMs >= 0:
		silentMs = health.TunnelAgoMs
	case health.Encrypted && before.IsZero():
		return time.Time{}, false
	case health.ListeningMs > firstWithinMs, arrives(health) && health.ListeningMs > silentAfterMs:
		silentMs = health.ListeningMs
	case before.IsZero(): // and if it was silent before a restart of ktsnd it still is
		return time.Time{}, false
	}
	if before.IsZero() {
		before = now.Add(-time.Duration(silentMs) * time.Millisecond)
	}
	return before, true
}

// arrives reports whether announcements of a peer arrive at the uplink.
func arrives(health *control.PeerHealth) bool {
	return health != nil && health.UplinkAgoMs >= 0 && health.UplinkAgoMs <= silentAfterMs
}

// setSilent replaces the silent peers of a network.
func (r *Reconciler) setSilent(vni uint32, silences []silence) {
	for at := range r.silent {
		if at.vni == vni {
			delete(r.silent, at)
		}
	}
	for i := range silences {
		r.silent[peerKey{vni, silences[i].address}] = silences[i].since
	}
}

// silenceMessage names silent peers, the direction, and what to look at.
func (r *Reconciler) silenceMessage(silences []silence, joined *network.Joined, ktsnd *control.Status) string {
	slices.SortFunc(silences, func(a, b silence) int { return strings.Compare(a.node, b.node) })
	net, _ := joined.Network() // it has the port in any case
	var texts []string
	for _, dropped := range []bool{true, false} {
		var names []string
		more := 0
		for i := range silences {
			switch s := &silences[i]; {
			case s.dropped != dropped:
			case len(names) == peersListed:
				more++
			default:
				names = append(names, fmt.Sprintf("%s (%s) since %s", s.node, s.address, s.since.UTC().Format("2006-01-02 15:04 UTC")))
			}
		}
		if more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		cause := fmt.Sprintf("nothing arrives at %s: ktsnd does not run there, or a firewall, a filter of the network plugin or a security group drops it", ktsnd.Interface)
		if ktsnd.Uplink == "ovs" {
			cause += ", or flows are missing in this node's Open vSwitch: see `ktsn ovs status`"
		}
		if dropped {
			cause = fmt.Sprintf("it arrives at %s, and this node drops it: see `nft list ruleset` and `iptables-save`", ktsnd.Interface)
		}
		port := fmt.Sprintf("on UDP %d", net.Port)
		if silences[0].encrypted { // the others are, too
			port = "by ESP"
			cause = "ktsnd does not run there, IP protocol 50 does not pass, or the nodes' keys differ: see EncryptionOperational of both nodes"
		}
		if len(names) > 0 {
			texts = append(texts, fmt.Sprintf("%s does not hear %s %s; %s", r.Node, strings.Join(names, ", "), port, cause))
		}
	}
	return strings.Join(texts, ". ")
}
