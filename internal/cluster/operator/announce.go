// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// announcements number what the cluster signs of its nodes, so that nobody can bring back an older statement. A number is the time in
// microseconds since 1970 at which the statement changed, or one more than the last number where the clock is behind that.
type announcements struct {
	now func() time.Time

	mu sync.Mutex
	// last is the newest statement on each node of the cluster, by network, and floors the highest number of a node that is gone.
	last   map[string]map[string]v1alpha1.PeerNode
	floors map[string]int64
}

func newAnnouncements(now func() time.Time) *announcements {
	return &announcements{now: now, last: map[string]map[string]v1alpha1.PeerNode{}, floors: map[string]int64{}}
}

// sign numbers and signs what is said of a node of a network. A statement that has not changed keeps its number.
func (a *announcements) sign(signer *clusterkey.Private, network string, node *v1alpha1.PeerNode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.last[network][node.Name]
	node.Sequence = last.Sequence
	if !known || !sameStatement(&last, node) {
		before := last.Sequence
		if !known { // there may have been a node of the name
			before = a.floors[network]
		}
		node.Sequence = max(a.now().UnixMicro(), before+1)
	}
	a.keep(network, node)
	signer.Sign(network, node)
}

// learn takes what this cluster has signed before, as an operator does that has just become the leader. What others have written is left out.
func (a *announcements) learn(signer *clusterkey.Private, network string, nodes ...v1alpha1.PeerNode) {
	if signer == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range nodes {
		if nodes[i].Sequence > a.last[network][nodes[i].Name].Sequence && signer.Public().Verify(network, &nodes[i]) == nil {
			a.keep(network, &nodes[i])
		}
	}
}

// keep remembers a statement. The lock is held.
func (a *announcements) keep(network string, node *v1alpha1.PeerNode) {
	if a.last[network] == nil {
		a.last[network] = map[string]v1alpha1.PeerNode{}
	}
	a.last[network][node.Name] = *node.DeepCopy()
}

// forget forgets a network that is gone.
func (a *announcements) forget(network string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, network)
	delete(a.floors, network)
}

// forgetNodes forgets the nodes that the cluster no longer has. A later node of the same name gets a higher number than they had.
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

// sameStatement compares what is signed but for the number.
func sameStatement(a, b *v1alpha1.PeerNode) bool {
	first, second := *a, *b
	for _, peer := range []*v1alpha1.PeerNode{&first, &second} {
		peer.Sequence, peer.Signature, peer.MTU = 0, "", 0
	}
	return equality.Semantic.DeepEqual(first, second)
}
