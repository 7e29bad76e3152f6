// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// announcements assigns sequence numbers to the signed statements about the cluster's nodes, so that an older statement cannot be
// replayed. A number is the time of the change in microseconds since 1970, or the last number plus one if the clock is behind that.
type announcements struct {
	now func() time.Time

	mu sync.Mutex
	// last has the newest statement about each node, by network, and floors the highest number of a deleted node.
	last   map[string]map[string]v1alpha1.PeerNode
	floors map[string]int64
}

func newAnnouncements(now func() time.Time) *announcements {
	return &announcements{now: now, last: map[string]map[string]v1alpha1.PeerNode{}, floors: map[string]int64{}}
}

// sign numbers and signs the statement about a node of a network. An unchanged statement keeps its number.
func (a *announcements) sign(signer *clusterkey.Private, network string, node *v1alpha1.PeerNode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.last[network][node.Name]
	node.Sequence = last.Sequence
	if !known || !sameStatement(&last, node) {
		before := last.Sequence
		if !known { // a deleted node may have had this name
			before = a.floors[network]
		}
		node.Sequence = max(a.now().UnixMicro(), before+1)
	}
	a.store(network, node)
	signer.Sign(network, node)
}

// learn adds statements that this cluster signed before, for an operator that has just become the leader. Statements with another
// signature are ignored.
func (a *announcements) learn(signer *clusterkey.Private, network string, nodes ...v1alpha1.PeerNode) {
	if signer == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range nodes {
		if nodes[i].Sequence > a.last[network][nodes[i].Name].Sequence && signer.Public().Verify(network, &nodes[i]) == nil {
			a.store(network, &nodes[i])
		}
	}
}

// store stores a statement. The caller holds the lock.
func (a *announcements) store(network string, node *v1alpha1.PeerNode) {
	if a.last[network] == nil {
		a.last[network] = map[string]v1alpha1.PeerNode{}
	}
	a.last[network][node.Name] = *node.DeepCopy()
}

// forget forgets a deleted network.
func (a *announcements) forget(network string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, network)
	delete(a.floors, network)
}

// forgetNodes forgets deleted nodes. A later node of the same name gets a higher number.
func (a *announcements) forgetNodes(network string, has func(node string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.last[network] {
		if !has(name) {
			a.floors[network] = max(a.floors[network], a.last[network][name].Sequence)
			delete(a.last[network], name)
		}
	}
}

// sameStatement compares the signed fields without the number.
func sameStatement(a, b *v1alpha1.PeerNode) bool {
	first, second := *a, *b
	for _, peer := range []*v1alpha1.PeerNode{&first, &second} {
		peer.Sequence, peer.Signature, peer.MTU = 0, "", 0
	}
	return equality.Semantic.DeepEqual(first, second)
}
