// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Objects is a Source of the cluster's TSNNetworks. The operator has divided their addresses among the nodes.
type Objects struct {
	Reader client.Reader
	// Node is the name of this node, whose uplink counts.
	Node string
}

// Networks lists those that have a part for any node.
func (o Objects) Networks(ctx context.Context) ([]Network, error) {
	var all v1alpha1.TSNNetworkList
	if err := o.Reader.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list the networks: %w", err)
	}
	var node corev1.Node
	if err := o.Reader.Get(ctx, types.NamespacedName{Name: o.Node}, &node); err != nil {
		return nil, fmt.Errorf("look at node %s: %w", o.Node, err)
	}
	var networks []Network
	for i := range all.Items {
		made, err := fromObject(&all.Items[i])
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", all.Items[i].Name, err)
		}
		uplink, err := UplinkOf(&all.Items[i], &node)
		if err != nil { // which the node says in the network's status; other networks have nothing to do with it
			delete(made.Assigned, o.Node) // the others are its peers nevertheless
		}
		made.Uplink = uplink.Interface
		networks = append(networks, made)
	}
	return networks, nil
}

func fromObject(object *v1alpha1.TSNNetwork) (Network, error) {
	made := Network{
		Name: object.Name, VNI: uint32(object.Spec.VNI), MTU: int(object.Spec.MTU), Port: defaultPort,
		Assigned: map[string][]netip.Prefix{},
	}
	spec := &object.Spec
	whole, err := netip.ParsePrefix(spec.IPv4.CIDR)
	if err != nil {
		return made, fmt.Errorf("spec.ipv4.cidr: %w", err)
	}
	made.Ranges = []Range{{whole, int(spec.IPv4.NodePrefixLength)}}
	if spec.IPv6 != nil {
		if whole, err = netip.ParsePrefix(spec.IPv6.CIDR); err != nil {
			return made, fmt.Errorf("spec.ipv6.cidr: %w", err)
		}
		made.Ranges = append(made.Ranges, Range{whole, int(spec.IPv6.NodePrefixLength)})
	}
	for _, status := range object.Status.Nodes {
		parts, err := partsOfStatus(&status, len(made.Ranges))
		if err != nil {
			return made, fmt.Errorf("status.nodes of %s: %w", status.Name, err)
		}
		if parts != nil {
			made.Assigned[status.Name] = parts
		}
	}
	return made, nil
}

// partsOfStatus is nil as long as the node has no part of each range.
func partsOfStatus(status *v1alpha1.NodeStatus, count int) ([]netip.Prefix, error) {
	var parts []netip.Prefix
	for _, text := range []string{status.IPv4, status.IPv6}[:count] {
		if text == "" {
			return nil, nil
		}
		part, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// ErrNoUplink says that a network insists on uplinks, and names none for the node.
var ErrNoUplink = errors.New("none of spec.uplinks is for this node; give one whose nodeSelector fits the node's labels")

// UplinkOf is the uplink that a network insists on for a node; its interface is "" if it does not.
func UplinkOf(object *v1alpha1.TSNNetwork, node *corev1.Node) (v1alpha1.Uplink, error) {
	for _, uplink := range object.Spec.Uplinks {
		selector := labels.Everything()
		if uplink.NodeSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(uplink.NodeSelector); err != nil {
				return v1alpha1.Uplink{}, fmt.Errorf("spec.uplinks: %w", err)
			}
		}
		if selector.Matches(labels.Set(node.Labels)) {
			return uplink, nil
		}
	}
	if len(object.Spec.Uplinks) > 0 {
		return v1alpha1.Uplink{}, ErrNoUplink
	}
	return v1alpha1.Uplink{}, nil
}
