// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
)

// named chooses one object.
func named(name string) client.ListOption { return client.MatchingFields{metav1.ObjectNameField: name} }

// ownNode watches the node's TSNNode.
func (i *Informer) ownNode() *watched {
	return &watched{
		kind: &v1alpha1.TSNNode{}, list: func() client.ObjectList { return &v1alpha1.TSNNodeList{} }, selector: named(i.Node),
		all: func(all []client.Object) {
			if len(all) == 0 {
				i.setNode(nil)
				return
			}
			i.setNode(all[0].(*v1alpha1.TSNNode))
		},
		changed: func(object client.Object) { i.setNode(object.(*v1alpha1.TSNNode)) },
		gone:    func(client.Object) { i.setNode(nil) },
	}
}

// setNode takes what the API server says of the node. Of a TSNNode that is gone the networks are watched on: who removed it did not
// mean them.
func (i *Informer) setNode(node *v1alpha1.TSNNode) {
	i.mu.Lock()
	defer i.mu.Unlock()
	wasKnown := i.listed && !i.gone
	i.listed, i.gone = true, node == nil
	if node == nil {
		if wasKnown || i.node == nil {
			i.changed()
		}
		return
	}
	node.ManagedFields = nil
	same := wasKnown && i.node.UID == node.UID && sameTask(&i.node.Spec, &node.Spec)
	if i.node = node; !same {
		i.follow()
		i.changed()
	}
}

// sameTask tells whether two specs ask for the same, whatever the number of pods.
func sameTask(a, b *v1alpha1.TSNNodeSpec) bool {
	return a.Gates == b.Gates && slices.Equal(a.ClusterKeys, b.ClusterKeys) && slices.EqualFunc(a.Networks, b.Networks, func(a, b v1alpha1.NodeNetwork) bool {
		return a.Name == b.Name && a.IPv4 == b.IPv4 && a.IPv6 == b.IPv6
	})
}

// networkOf watches a TSNNetwork.
func (i *Informer) networkOf(name string, one *followed) *watched {
	return &watched{
		kind: &v1alpha1.TSNNetwork{}, list: func() client.ObjectList { return &v1alpha1.TSNNetworkList{} }, selector: named(name),
		all: func(all []client.Object) {
			// A network that is not there is not known: what was heard of it before, or is in force, stays until the operator takes it out
			// of the TSNNode.
			if len(all) > 0 {
				i.setNetwork(one, all[0].(*v1alpha1.TSNNetwork))
			}
		},
		changed: func(object client.Object) { i.setNetwork(one, object.(*v1alpha1.TSNNetwork)) },
		gone:    func(client.Object) {},
	}
}

func (i *Informer) setNetwork(one *followed, object *v1alpha1.TSNNetwork) {
	object = slim(object)
	i.Minimum.Raise(&object.Spec.Encryption, object.Name)
	i.mu.Lock()
	defer i.mu.Unlock()
	before := one.object
	one.object = object
	if before == nil || !equality.Semantic.DeepEqual(before, object) {
		i.changed()
	}
}

// slim keeps of a network what agents read. The rest changes whenever any node says anything.
func slim(object *v1alpha1.TSNNetwork) *v1alpha1.TSNNetwork {
	status := v1alpha1.TSNNetworkStatus{Schedule: object.Status.Schedule, ClusterKeys: object.Status.ClusterKeys}
	if condition := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionHubSeen); condition != nil {
		status.Conditions = []metav1.Condition{{Type: condition.Type, Status: condition.Status}}
	}
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{
			Name: object.Name, UID: object.UID, Generation: object.Generation, CreationTimestamp: object.CreationTimestamp,
		},
		Spec: object.Spec, Status: status,
	}
}

// peersOf watches the TSNPeers of a network.
func (i *Informer) peersOf(name string, one *followed) *watched {
	return &watched{
		kind: &v1alpha1.TSNPeers{}, list: func() client.ObjectList { return &v1alpha1.TSNPeersList{} },
		selector: client.MatchingLabels{v1alpha1.NetworkLabel: name},
		all: func(all []client.Object) {
			shards := map[string][]network.Member{}
			for _, object := range all {
				shards[object.GetName()] = i.members(name, object)
			}
			i.setShards(one, func() { one.shards = shards })
		},
		changed: func(object client.Object) {
			members := i.members(name, object)
			i.setShards(one, func() {
				if one.shards != nil { // else the event is of a watch that has ended
					one.shards[object.GetName()] = members
				}
			})
		},
		gone: func(object client.Object) { i.setShards(one, func() { delete(one.shards, object.GetName()) }) },
	}
}

// setShards changes what is known of a network's nodes, unless nobody watches them any more.
func (i *Informer) setShards(one *followed, change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if one.stopPeers != nil {
		change()
		i.changed()
	}
}

// members reads a TSNPeers. One that has the label of a network and is another's has nobody.
func (i *Informer) members(name string, object client.Object) []network.Member {
	shard := object.(*v1alpha1.TSNPeers)
	if shard.Spec.Network != name {
		i.Log.Warn("a TSNPeers has the label of another network than its own", "name", shard.Name, "label", name, "network", shard.Spec.Network)
		return nil
	}
	members, faults := network.MembersOf(shard)
	for _, fault := range faults {
		i.Log.Warn("a node is left out", "error", fault)
	}
	return members
}
