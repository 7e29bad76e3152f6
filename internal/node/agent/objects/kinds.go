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

// named selects an object by name.
func named(name string) client.ListOption { return client.MatchingFields{metav1.ObjectNameField: name} }

// ownNode returns the watch of the node's TSNNode.
func (i *Informer) ownNode() *objectWatch {
	return &objectWatch{
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

// setNode sets the TSNNode, nil if it does not exist. The networks of a deleted TSNNode stay watched: its deletion is
// not meant for them.
func (i *Informer) setNode(node *v1alpha1.TSNNode) {
	i.mu.Lock()
	defer i.mu.Unlock()
	wasKnown := i.listed && !i.gone
	i.listed, i.gone = true, node == nil
	if node == nil {
		if wasKnown || i.node == nil {
			i.notifyChange()
		}
		return
	}
	node.ManagedFields = nil
	same := wasKnown && i.node.UID == node.UID && sameSpec(&i.node.Spec, &node.Spec)
	if i.node = node; !same {
		i.updateWatches()
		i.notifyChange()
	}
}

// sameSpec reports whether two specs are equal apart from the number of pods.
func sameSpec(a, b *v1alpha1.TSNNodeSpec) bool {
	return a.Gates == b.Gates && slices.Equal(a.ClusterKeys, b.ClusterKeys) && slices.EqualFunc(a.Networks, b.Networks, func(a, b v1alpha1.NodeNetwork) bool {
		return a.Name == b.Name && a.IPv4 == b.IPv4 && a.IPv6 == b.IPv6
	})
}

// networkOf returns the watch of a TSNNetwork.
func (i *Informer) networkOf(name string, nw *networkWatch) *objectWatch {
	return &objectWatch{
		kind: &v1alpha1.TSNNetwork{}, list: func() client.ObjectList { return &v1alpha1.TSNNetworkList{} }, selector: named(name),
		all: func(all []client.Object) {
			// A deleted network stays as it was until the operator removes it from the TSNNode.
			if len(all) > 0 {
				i.setNetwork(nw, all[0].(*v1alpha1.TSNNetwork))
			}
		},
		changed: func(object client.Object) { i.setNetwork(nw, object.(*v1alpha1.TSNNetwork)) },
		gone:    func(client.Object) {},
	}
}

func (i *Informer) setNetwork(nw *networkWatch, object *v1alpha1.TSNNetwork) {
	object = stripNetwork(object)
	i.Minimum.Raise(&object.Spec.Encryption, object.Name)
	i.mu.Lock()
	defer i.mu.Unlock()
	before := nw.object
	nw.object = object
	if before == nil || !equality.Semantic.DeepEqual(before, object) {
		i.notifyChange()
	}
}

// stripNetwork returns the parts of a network that agents read. The rest changes with each report of a node.
func stripNetwork(object *v1alpha1.TSNNetwork) *v1alpha1.TSNNetwork {
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

// peersOf returns the watch of a network's TSNPeers.
func (i *Informer) peersOf(name string, nw *networkWatch) *objectWatch {
	return &objectWatch{
		kind: &v1alpha1.TSNPeers{}, list: func() client.ObjectList { return &v1alpha1.TSNPeersList{} },
		selector: client.MatchingLabels{v1alpha1.NetworkLabel: name},
		all: func(all []client.Object) {
			shards := map[string][]network.Member{}
			for _, object := range all {
				shards[object.GetName()] = i.members(name, object)
			}
			i.setShards(nw, func() { nw.shards = shards })
		},
		changed: func(object client.Object) {
			members := i.members(name, object)
			i.setShards(nw, func() {
				if nw.shards != nil { // otherwise the watch has ended
					nw.shards[object.GetName()] = members
				}
			})
		},
		gone: func(object client.Object) { i.setShards(nw, func() { delete(nw.shards, object.GetName()) }) },
	}
}

// setShards changes the known members of a network, unless its watch has ended.
func (i *Informer) setShards(nw *networkWatch, change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if nw.stopPeers != nil {
		change()
		i.notifyChange()
	}
}

// members parses a TSNPeers. It returns no members if the label names another network than the spec.
func (i *Informer) members(name string, object client.Object) []network.Member {
	shard := object.(*v1alpha1.TSNPeers)
	if shard.Spec.Network != name {
		i.Log.Warn("a TSNPeers has the label of another network than its own", "name", shard.Name, "label", name, "network", shard.Spec.Network)
		return nil
	}
	members, faults := network.MembersOf(shard)
	for _, fault := range faults {
		i.Log.Warn("skipping a node", "error", fault)
	}
	return members
}
