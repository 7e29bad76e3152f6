// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
)

// add adds a network, or the node at the other ends of links. A cluster signs any address for its nodes: of those of this cluster's it is not
// believed, and of those of a third one's neither is.
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
	w.told = append(w.told, v.Own)
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
		if have := w.own[address]; v.Own != nil && (have == nil || later(v.Own, have)) {
			w.own[address] = v.Own
		}
	}
}

// reject forgets what was believed of the node at an address.
func (w *wants) reject(address netip.Addr, have *Trusted) {
	w.rejected[address] = append(w.rejected[address], have.Keys...)
	delete(w.peers, address)
	delete(w.own, address)
}

// rejects tells whether a sender must not go on by what it was given for the node at an address: those keys are another cluster's.
func (w *wants) rejects(address netip.Addr, given *handed) bool {
	peer := w.peers[address]
	return given != nil && slices.Contains(w.rejected[address], given.to.Key) && (peer == nil || !slices.Contains(peer.Keys, given.to.Key))
}

// expel takes from the kernel what it sends by to nodes that are not believed any more, at once: it does not linger.
func (r *Reconciler) expel(kernel Kernel, own netip.Addr, w *wants) error {
	var all error
	for address := range w.rejected {
		if w.peers[address] == nil {
			delete(w.kept, address)
		}
		if given := r.sent[address]; w.rejects(address, given) {
			if err := kernel.RemoveState(xfrm.Name{From: own, To: address, SPI: given.spi}); err != nil {
				all = errors.Join(all, err)
				continue
			}
			delete(r.sent, address)
		}
	}
	return all
}

// later tells which of two reports of a node is the later one: those of two networks are not written at once.
func later(a, b *Trusted) bool {
	return a.Sender.Kernel > b.Sender.Kernel || a.Sender.Ktsnd > b.Sender.Ktsnd || len(a.Keys) > len(b.Keys)
}

// contested says why the node of a cluster at an address is not believed, "" if it may be.
func (w *wants) contested(cluster string, address netip.Addr) string {
	between, is := w.disputed[address]
	switch {
	case cluster == "":
		return ""
	case w.local[address]:
		return fmt.Sprintf("cluster %s says that it has a node at %s, where this cluster has one", cluster, address)
	case is:
		return fmt.Sprintf("clusters %s and %s both say that they have a node at %s (%s and %s); neither is believed", between[0].Cluster, between[1].Cluster,
			address, between[0].Name, between[1].Name)
	}
	return ""
}

// disputes says of which addresses clusters disagree.
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
