// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
)

// wants is the desired state of all networks together.
type wants struct {
	// peers are the nodes to which frames are encrypted, statements those about this node for each of them.
	peers      map[netip.Addr]*Trusted
	statements map[netip.Addr]*Trusted
	// local are the addresses of the cluster's nodes, and disputed those that several other clusters claim, with a node of each.
	local    map[netip.Addr]bool
	disputed map[netip.Addr][2]*Trusted
	// rejected are keys of nodes that are not trusted with an address.
	rejected map[netip.Addr][]security.Public
	// kept are addresses whose installed keys stay.
	kept map[netip.Addr]bool
	// active are the networks that are encrypted, by VNI; known those for which that is known.
	active, known map[uint32]bool
	// complete means that all networks are known.
	complete bool
	// published means that the node's keys can be announced to nodes of other clusters now.
	published bool
	// ownStatements are the statements about this node, by network, and awaited those without which its keys do not change.
	ownStatements, awaited []*Trusted
}

// wants collects the desired state of the networks.
func (r *Reconciler) wants(state *network.Cluster) *wants {
	w := &wants{
		peers: map[netip.Addr]*Trusted{}, statements: map[netip.Addr]*Trusted{}, kept: map[netip.Addr]bool{}, active: map[uint32]bool{},
		known: map[uint32]bool{}, complete: true, published: true, local: map[netip.Addr]bool{}, disputed: map[netip.Addr][2]*Trusted{},
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
		w.published = w.published && isPublished(joined.Object)
	}
	return w
}

// isPublished reports whether nodes of other clusters get the keys of this one: the keys of a node that is not published do not change.
func isPublished(object *v1alpha1.TSNNetwork) bool {
	return object.Spec.IPv4.Part == "" || meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionHubSeen)
}

// knows reports whether all statements about this node have a key.
func (w *wants) knows(key security.Public) bool {
	return w.all(func(keys []security.Public) bool { return slices.Contains(keys, key) })
}

// knowsFirst reports whether all statements about this node have a key as the one to send to.
func (w *wants) knowsFirst(key security.Public) bool {
	return w.all(func(keys []security.Public) bool { return slices.Index(keys, key) == 0 })
}

// all reports whether holds is true for the keys in all statements about this node.
func (w *wants) all(holds func([]security.Public) bool) bool {
	for _, statement := range w.awaited {
		if statement == nil || !holds(statement.Keys) {
			return false
		}
	}
	return w.published && w.complete && len(w.awaited) > 0
}

// add adds a network, or the node at the other ends of links. A cluster can sign any address for its nodes: it is not trusted with an address
// of this cluster's nodes, and if two clusters sign the same address, neither is.
func (w *wants) add(v *Verdict) {
	for address := range v.Kept {
		w.kept[address] = true
	}
	for address := range v.Local {
		w.local[address] = true
		delete(w.disputed, address)
		if have := w.peers[address]; have != nil && have.Cluster != "" {
			w.reject(address, have)
		}
	}
	w.ownStatements = append(w.ownStatements, v.Own)
	for address, peer := range v.Peers {
		have := w.peers[address]
		switch {
		case peer.Cluster != "" && (w.local[address] || w.disputed[address][0] != nil):
			w.rejected[address] = append(w.rejected[address], peer.Keys...)
			continue
		case have != nil && have.Cluster != peer.Cluster:
			w.disputed[address] = [2]*Trusted{have, peer}
			w.reject(address, have)
			w.rejected[address] = append(w.rejected[address], peer.Keys...)
			continue
		case have == nil || later(peer, have):
			w.peers[address] = peer
		}
		if have := w.statements[address]; v.Own != nil && (have == nil || later(v.Own, have)) {
			w.statements[address] = v.Own
		}
	}
}

// reject stops trusting the node at an address.
func (w *wants) reject(address netip.Addr, have *Trusted) {
	w.rejected[address] = append(w.rejected[address], have.Keys...)
	delete(w.peers, address)
	delete(w.statements, address)
}

// rejects reports whether a sender must not use an association for the node at an address any more: its key is another cluster's.
func (w *wants) rejects(address netip.Addr, given *handed) bool {
	peer := w.peers[address]
	return given != nil && slices.Contains(w.rejected[address], given.to.Key) && (peer == nil || !slices.Contains(peer.Keys, given.to.Key))
}

// later reports whether a is a later report of a node than b: those of two networks are not written at once.
func later(a, b *Trusted) bool {
	return a.Sender.Kernel > b.Sender.Kernel || a.Sender.Ktsnd > b.Sender.Ktsnd || len(a.Keys) > len(b.Keys)
}

// contested returns why the node of a cluster at an address is not trusted, "" if it may be.
func (w *wants) contested(cluster string, address netip.Addr) string {
	between, disputed := w.disputed[address]
	switch {
	case cluster == "":
		return ""
	case w.local[address]:
		return fmt.Sprintf("cluster %s says that it has a node at %s, where this cluster has one", cluster, address)
	case disputed:
		return fmt.Sprintf("clusters %s and %s both say that they have a node at %s (%s and %s); neither is trusted", between[0].Cluster, between[1].Cluster,
			address, between[0].Name, between[1].Name)
	}
	return ""
}

// disputes returns an error that names the addresses that several clusters claim.
func (w *wants) disputes() error {
	var all []string
	for address, between := range w.disputed {
		all = append(all, w.contested(between[0].Cluster, address))
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return errors.New(strings.Join(all, "; "))
}
