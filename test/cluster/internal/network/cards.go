// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// SecondCard is a node's second network card.
const SecondCard = "eth1"

const (
	secondBridge = "br1"
	secondSuffix = "-second"
)

// secondSubnet is the subnet of the second cards. It exists only in the cluster's own network namespaces (RFC 5737).
var secondSubnet = netip.MustParsePrefix("198.51.100.0/24")

// SecondAddress returns the address of a node's second card.
func SecondAddress(node plan.Node) netip.Addr {
	bytes := secondSubnet.Addr().As4()
	bytes[3] = node.Address.As4()[3]
	return netip.AddrFrom4(bytes)
}

// AddSecondCards adds another network card to each node, and connects them by a separate switch: a network next to
// Kubernetes'. As with a card without checksum offload, the frames carry all checksums.
func AddSecondCards(ctx context.Context, p *plan.Plan) error {
	if err := batch(ctx, p.Switch(), "link add "+secondBridge+" type bridge", "link set "+secondBridge+" up"); err != nil {
		return err
	}
	for _, node := range p.Nodes {
		namespace, port := p.Namespace(node.Name), node.Name+secondSuffix
		err := batch(ctx, p.Switch(),
			fmt.Sprintf("link add %s mtu %d type veth peer name %s mtu %d netns %s", port, plan.UplinkMTU, SecondCard, plan.UplinkMTU, namespace),
			fmt.Sprintf("link set %s master %s up", port, secondBridge))
		if err != nil {
			return err
		}
		if err := inNamespace(ctx, namespace, "ethtool", "--offload", SecondCard, "tx", "off"); err != nil {
			return err
		}
		err = batch(ctx, namespace,
			fmt.Sprintf("addr add %s dev %s", netip.PrefixFrom(SecondAddress(node), secondSubnet.Bits()), SecondCard),
			fmt.Sprintf("link set %s up", SecondCard))
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveSecondCards removes the second cards. It is not an error if there are none, or not all.
func RemoveSecondCards(ctx context.Context, p *plan.Plan) error {
	var links []string
	for _, node := range p.Nodes {
		if portExists(ctx, p, node.Name+secondSuffix) {
			links = append(links, "link del "+node.Name+secondSuffix)
		}
	}
	if portExists(ctx, p, secondBridge) {
		links = append(links, "link del "+secondBridge)
	}
	if len(links) == 0 {
		return nil
	}
	if err := batch(ctx, p.Switch(), links...); err != nil {
		return fmt.Errorf("remove second network cards (%s): %w", strings.Join(links, ", "), err)
	}
	return nil
}
