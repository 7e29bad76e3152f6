// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	podhook "github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// heldAddresses are the static addresses of a network's pods, by node.
type heldAddresses map[string][]v1alpha1.PodAddress

// assignAddresses decides which pods have the static addresses of a network. The TSNPeers have the result, which survives the operator; r.held
// has what a cache may not show yet.
func (r *Peers) assignAddresses(ctx context.Context, network *v1alpha1.TSNNetwork, existing map[int]*v1alpha1.TSNPeers) (heldAddresses, error) {
	static := tsnnetwork.Static(network)
	if len(static) == 0 {
		return nil, nil
	}
	namespaces, err := selectedNamespaces(ctx, r.Client, network)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	held := r.held[network.Name]
	if held == nil {
		held = heldAddresses{}
		for _, peers := range existing {
			for i := range peers.Spec.Nodes {
				held[peers.Spec.Nodes[i].Name] = peers.Spec.Nodes[i].Addresses
			}
		}
	}
	subnets := r.shared.subnets.forNetwork(network.Name)
	usable := func(address netip.Addr) bool {
		return tsnnetwork.Contains(static, address) && !slices.ContainsFunc(slices.Collect(maps.Values(subnets)), func(s subnet) bool { return s.has(address) })
	}
	assigned := assign(network.Name, held, pods.Items, namespaces, usable)
	if r.held == nil {
		r.held = map[string]heldAddresses{}
	}
	r.held[network.Name] = assigned
	return assigned, nil
}

// assign returns the addresses of the pods on each node. A pod keeps its address until it ends or has another node, whatever its annotation
// requests meanwhile; a pod that is created again under its name is another one. A free address goes to the oldest pod that requests it and has a
// node. A pod has at most one of each family.
func assign(network string, held heldAddresses, pods []corev1.Pod, namespaces namespaceSet, usable func(netip.Addr) bool) heldAddresses {
	nodes, candidates := map[string]string{}, []*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		names, _ := tsnnetwork.NetworksOf(networksAsked(pod))
		if pod.Spec.NodeName == "" || podstatus.Ended(pod) || !slices.Contains(names, network) {
			continue
		}
		nodes[string(pod.UID)] = pod.Spec.NodeName
		if namespaces.has(pod.Namespace) && podhook.RequestsAddresses(pod) {
			candidates = append(candidates, pod)
		}
	}
	slices.SortFunc(candidates, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(nameOfPod(a), nameOfPod(b)))
	})
	assigned, taken := heldAddresses{}, map[string]bool{}
	type family struct {
		uid  string
		ipv6 bool
	}
	has := map[family]bool{} // the annotation of Multus can change after the webhook has seen it
	give := func(node string, address v1alpha1.PodAddress) {
		key := family{address.UID, strings.Contains(address.Address, ":")}
		if !taken[address.Address] && !has[key] && len(assigned[node]) < v1alpha1.MaxNodeAddresses {
			assigned[node] = append(assigned[node], address)
			taken[address.Address], has[key] = true, true
		}
	}
	for _, node := range slices.Sorted(maps.Keys(held)) {
		for _, address := range held[node] {
			if nodes[address.UID] == node {
				give(node, address)
			}
		}
	}
	for _, pod := range candidates {
		for _, address := range podhook.RequestedAddresses(pod, network) {
			if usable(address) {
				give(pod.Spec.NodeName, v1alpha1.PodAddress{Address: address.String(), Pod: nameOfPod(pod), UID: string(pod.UID)})
			}
		}
	}
	for _, addresses := range assigned {
		slices.SortFunc(addresses, func(a, b v1alpha1.PodAddress) int { return strings.Compare(a.Address, b.Address) })
	}
	return assigned
}

// nameOfPod returns a pod's namespace and name, as PodAddress has them.
func nameOfPod(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// networksRequested lists the networks of a pod.
func networksRequested(_ context.Context, pod client.Object) []string {
	names, _ := tsnnetwork.NetworksOf(networksAsked(pod.(*corev1.Pod)))
	return names
}
