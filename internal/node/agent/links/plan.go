// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// side is one end of a link from the perspective of its node.
type side struct {
	link          *v1alpha1.TSNLink
	end, otherEnd *v1alpha1.LinkEnd
	isClient      bool
	sandbox       attachment.Sandbox
	// hasSandbox: the pod has a sandbox. local: the other end is on this node, too.
	hasSandbox, local bool
	// refusedRoutes is a message about the routes that the pod does not accept, "" if it accepts all.
	refusedRoutes string
}

// condition returns the type of the condition for this end.
func (s *side) condition() string {
	if s.isClient {
		return v1alpha1.ConditionClientPlugged
	}
	return v1alpha1.ConditionEndpointPlugged
}

// plan returns the desired state of this end.
func (s *side) plan(node *Capacity) (*attachment.LinkPlan, error) {
	spec := &s.link.Spec
	mtu, err := s.mtu(node)
	if err != nil {
		return nil, err
	}
	clientMAC, endpointMAC := attachment.LinkMACs(uint32(spec.VNI))
	linkPlan := &attachment.LinkPlan{Sandbox: s.sandbox, Interface: s.end.Interface, VNI: uint32(spec.VNI), MTU: mtu}
	linkPlan.Link = attachment.Link{MAC: clientMAC.String(), Forward: s.end.Forward, Peer: attachment.LinkPeer{MAC: endpointMAC.String()}}
	if !s.isClient {
		linkPlan.Link.MAC, linkPlan.Link.Peer.MAC = linkPlan.Link.Peer.MAC, linkPlan.Link.MAC
	}
	if linkPlan.Link.Addresses, err = prefixes("addresses", s.end.Addresses); err != nil {
		return nil, err
	}
	peer, err := prefixes("addresses of the other end", s.otherEnd.Addresses)
	if err != nil {
		return nil, err
	}
	for _, prefix := range peer {
		linkPlan.Link.Peer.Addresses = append(linkPlan.Link.Peer.Addresses, prefix.Addr())
	}
	if linkPlan.Link.Routes, err = prefixes("routes", s.end.Routes); err != nil {
		return nil, err
	}
	linkPlan.Link.Peer.Node, err = s.peerNode(node.Local)
	return linkPlan, err
}

// consent removes the routes of a service of another namespace that the client has not accepted: the service's owner may change them at any time,
// and could draw the client's other traffic to the endpoint. The annotation has the ranges in which the client accepts routes. Routes to the other
// pods of a chain, whose addresses are the service's, are always accepted.
func (s *side) consent(plan *attachment.LinkPlan, annotation string) error {
	accepted, err := tsnnetwork.LinkRoutesOf(annotation)
	if err != nil {
		return err
	}
	for i := range s.end.Hosts {
		for _, text := range s.end.Hosts[i].Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				accepted = append(accepted, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	var refused []string
	plan.Link.Routes = slices.DeleteFunc(plan.Link.Routes, func(to netip.Prefix) bool {
		if slices.ContainsFunc(accepted, func(in netip.Prefix) bool { return in.Bits() <= to.Bits() && in.Contains(to.Addr()) }) {
			return false
		}
		refused = append(refused, to.String())
		return true
	})
	if len(refused) > 0 {
		s.refusedRoutes = fmt.Sprintf("the pod does not take routes of the service in namespace %s to %s; name these ranges, or larger ones, in its annotation %s",
			s.link.Namespace, abbreviate(refused), v1alpha1.LinkRoutesAnnotation)
	}
	return nil
}

// abbreviate joins the first few texts.
func abbreviate(all []string) string {
	const limit = 5
	if len(all) <= limit {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:limit], ", "), len(all)-limit)
}

// peerNode returns the tunnel address of the other end's node, invalid if that is this node.
func (s *side) peerNode(ownAddress netip.Addr) (netip.Addr, error) {
	if s.local {
		return netip.Addr{}, nil
	}
	address, err := netip.ParseAddr(s.otherEnd.NodeAddress)
	if err == nil {
		err = attachment.CheckNodeAddress(address)
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("tunnel address of the other end's node: %w", err)
	}
	if address == ownAddress {
		return netip.Addr{}, fmt.Errorf("the address of node %s%s is this node's own, %s, and pod %s/%s is not here; correct the address, or wait until "+
			"the pod is", s.otherEnd.Node, ofCluster(s.otherEnd.Cluster), address, s.otherEnd.Namespace, s.otherEnd.Pod)
	}
	return address, nil
}

func ofCluster(name string) string {
	if name == "" {
		return ""
	}
	return " of cluster " + name
}

func prefixes(what string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not an address with a prefix length", what, text)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// mtu returns the MTU of the interface in bytes: the requested one; otherwise the measured one; before the first
// measurement the limit of the node and the path.
func (s *side) mtu(node *Capacity) (int, error) {
	largest := node.Uplink
	if node.Path > 0 && !s.local {
		largest = min(largest, node.Path)
	}
	if largest == 0 {
		return 0, errors.New("the MTU of the node's uplink is not known; check that ktsnd runs")
	}
	if s.link.Spec.Encrypted() && !s.local {
		largest -= xfrm.OverheadBytes
	}
	wanted := int(s.link.Spec.MTU)
	switch {
	case wanted > largest && s.local:
		return 0, fmt.Errorf("spec.mtu is %d, and links of this node carry %d; give at most that", wanted, largest)
	case wanted > largest:
		return 0, fmt.Errorf("spec.mtu is %d, and the way from this node to %s carries %d; give at most that", wanted, s.otherEnd.NodeAddress, largest)
	case wanted != 0:
		return wanted, nil
	}
	if seen := int(s.link.Status.MeasuredMTU); seen > 0 {
		largest = min(largest, seen)
	}
	if largest < overlay.MinMTU {
		return 0, fmt.Errorf("the way from this node to %s carries %d bytes, and links need %d; raise the MTU of the nodes' uplinks and of what is between them",
			s.otherEnd.NodeAddress, largest, overlay.MinMTU)
	}
	return largest, nil
}
