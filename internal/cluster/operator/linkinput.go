// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// collectInput reads everything that links depend on from the cache. Its objects are shared with the cache: read only.
func (r *Links) collectInput(ctx context.Context) (*links.Input, error) {
	in := &links.Input{Namespaces: map[string]map[string]string{}, Failed: r.failed, Now: r.now()}
	var services v1alpha1.TSNServiceList
	var all v1alpha1.TSNLinkList
	var networks v1alpha1.TSNNetworkList
	var pods corev1.PodList
	var namespaces corev1.NamespaceList
	for _, list := range []client.ObjectList{&services, &all, &networks, &pods, &namespaces} {
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list the input of links: %w", err)
		}
	}
	in.Networks = networks.Items
	r.raised = map[links.Key]string{}
	for _, service := range services.Items { // copies: Raise changes their spec
		key := client.ObjectKeyFromObject(&service)
		if message := r.shared.minimum.Raise(&service.Spec.Encryption, key.String()); message != "" {
			r.raised[key] = message
		}
		in.Services = append(in.Services, service)
	}
	var err error
	if in.Links, in.Released, err = r.ledger.List(ctx, all.Items); err != nil {
		return nil, err
	}
	in.Pods = linkPods(pods.Items, in.Links)
	for i := range namespaces.Items {
		in.Namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	set, err := listNodes(ctx, r.Client, nil, r.shared.tunnels)
	if err != nil {
		return nil, err
	}
	in.Nodes = r.nodeStates(set)
	var refused map[string]string
	if in.Reserved, refused, err = r.ranges.reserved(ctx, r.shared.live, set, in.Services, r.now()); err != nil {
		return nil, err
	}
	r.reportAddressClaims(set, refused)
	r.signNodes(ctx, in, set.states)
	return in, nil
}

// reportAddressClaims creates an Event for each node that reports addresses of a service, if its message is new.
func (r *Links) reportAddressClaims(set *nodeSet, refused map[string]string) {
	for name, text := range refused {
		if r.reportedClaims[name] != text {
			r.Events.Event(set.all[name], corev1.EventTypeWarning, v1alpha1.ReasonOverlaps, text)
		}
	}
	r.reportedClaims = refused
}

// linkPods returns the pods with labels of links, and those at the ends of links.
func linkPods(pods []corev1.Pod, all []v1alpha1.TSNLink) []links.Pod {
	linked := make(map[string]bool, 2*len(all))
	for i := range all {
		linked[all[i].Spec.Client.UID], linked[all[i].Spec.Endpoint.UID] = true, true
	}
	var selected []links.Pod
	for i := range pods {
		pod := &pods[i]
		if isMirror(pod) || !links.HasLinkLabel(pod.Labels) && !linked[string(pod.UID)] {
			continue
		}
		selected = append(selected, links.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Labels: pod.Labels,
			Ready: podstatus.Ready(pod), Deleting: pod.DeletionTimestamp != nil, Ended: podstatus.Ended(pod),
		})
	}
	return selected
}

// nodeStates returns the cluster's nodes, with the reasons why links cannot end on them.
func (r *Links) nodeStates(set *nodeSet) map[string]links.Node {
	states := make(map[string]links.Node, len(set.all))
	for name, node := range set.all {
		state := links.Node{Address: set.addresses[name], Ready: nodeReady(node), MTU: smallestMTU(set.states[name])}
		switch {
		case set.faults[name] != nil:
			state.Unfit = set.faults[name].Error()
		case r.Switched != nil && r.Switched.Matches(labels.Set(node.Labels)):
			state.Unfit = fmt.Sprintf("its uplink is an Open vSwitch bridge, where a link's VNI (%d and more) cannot be a VLAN ID (4094 at most); place the pod on another node",
				v1alpha1.FirstLinkVNI)
		}
		if !state.Address.IsValid() {
			state.Address = netip.IPv4Unspecified()
		}
		states[name] = state
	}
	return states
}

// nodeReady reports whether a node's kubelet is ready.
func nodeReady(node *corev1.Node) bool { return kubeletReadyFor(node, time.Now()) >= 0 }

// smallestMTU returns the smallest MTU that a node's agent reports for interfaces of pods, 0 if it reports none.
func smallestMTU(state *v1alpha1.TSNNode) int32 {
	var smallest int32
	if state == nil {
		return 0
	}
	for i := range state.Status.Networks {
		if mtu := state.Status.Networks[i].MTU; mtu > 0 && (smallest == 0 || mtu < smallest) {
			smallest = mtu
		}
	}
	return smallest
}
