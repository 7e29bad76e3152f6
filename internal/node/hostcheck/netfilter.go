// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// Finding is a setting of the node that breaks or impairs traffic.
type Finding struct {
	Reason string `json:"reason"`
	// Breaks: traffic does not work for certain.
	Breaks bool   `json:"breaks"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Network is a network of the node that has a tunnel.
type Network struct {
	Bridge, Tunnel, Uplink string
	// Local is the address of the tunnel, Port its UDP port.
	Local netip.Addr
	Port  uint16
	Peers []Peer
	// Pod is the address of a pod of this node; invalid if unknown.
	Pod netip.Addr
}

// Peer is another node of a network.
type Peer struct {
	Address netip.Addr
	// Pod is an address of its pods; invalid if unknown.
	Pod netip.Addr
}

// maxPeers is how many peers of a network are checked: rules that tell nodes apart usually miss all nodes of a kind.
const maxPeers = 32

// Where packets of a tunnel and bridged packets pass. Postrouting has no rules that drop.
var (
	tunnelHooks  = []int{unix.NF_INET_PRE_ROUTING, unix.NF_INET_LOCAL_IN}
	bridgedHooks = []int{unix.NF_INET_PRE_ROUTING, unix.NF_INET_FORWARD}
)

// Filters returns the findings about the node's packet filter.
func (n *Node) Filters() (all []Finding, err error) {
	rules, err := readRuleset(unix.NF_INET_PRE_ROUTING, unix.NF_INET_LOCAL_IN, unix.NF_INET_FORWARD)
	if err != nil {
		return nil, err
	}
	var errLegacy error
	names := n.text("proc/thread-self/net/ip_tables_names")
	for _, name := range strings.Fields(names) {
		errLegacy = errors.Join(errLegacy, rules.readLegacy(name))
	}
	for i := range n.Networks {
		network := &n.Networks[i]
		all = appendNew(all, rules.tunnel(network))
		if n.flag("proc/sys/net/bridge/bridge-nf-call-iptables") {
			all = appendNew(all, rules.bridged(network))
		}
	}
	if errLegacy != nil && len(n.Networks) > 0 {
		all = append(all, Finding{
			Reason: ReasonFilterUnread, Text: "the node has rules of iptables-legacy, which are not evaluated: " + errLegacy.Error(),
			Remedy: "see `iptables-legacy-save` for rules that drop UDP packets of tunnels or forwarded packets",
		})
	}
	return all, nil
}

// appendNew appends a finding unless there is one of the same reason: one cause concerns all networks.
func appendNew(all []Finding, finding *Finding) []Finding {
	if finding == nil {
		return all
	}
	for i := range all {
		if all[i].Reason == finding.Reason {
			return all
		}
	}
	return append(all, *finding)
}

// tunnel evaluates what peers send to the tunnel.
func (s *ruleset) tunnel(network *Network) (possible *Finding) {
	if !network.Local.Is4() || network.Port == 0 {
		return nil
	}
	for i := range network.Peers[:min(len(network.Peers), maxPeers)] {
		peer := network.Peers[i].Address
		if !peer.Is4() {
			continue
		}
		p := udpHeaders(network.Port)
		setAddress(&p, atSource, peer)
		setAddress(&p, atDestination, network.Local)
		p.in, p.state = network.Uplink, stateNew
		dropped, at := s.verdict(p, tunnelHooks...)
		what := fmt.Sprintf("packets of tunnel %s (UDP port %d, for example from %s)", network.Tunnel, network.Port, peer)
		switch {
		case dropped == always:
			return &Finding{ReasonTunnelDropped, true, what + " are dropped by " + at.String(), tunnelRemedy(at, network)}
		case dropped == maybe && possible == nil:
			possible = &Finding{ReasonTunnelMayBeDropped, false, what + " may be dropped by " + at.String(), tunnelRemedy(at, network)}
		}
	}
	return possible
}

func tunnelRemedy(at *site, network *Network) string {
	switch {
	case at.writtenBy("cali"):
		return "Calico accepts this UDP port only from the addresses of its own nodes: use each node's InternalIP as the address of its tunnels, or move Calico to another port (vxlanPort in its FelixConfiguration)"
	case at.chain.table.name == "firewalld":
		return fmt.Sprintf("`firewall-cmd --permanent --add-port=%d/udp && firewall-cmd --reload`", network.Port)
	case at.writtenBy("ufw"):
		return fmt.Sprintf("`ufw allow %d/udp`", network.Port)
	}
	return fmt.Sprintf("accept UDP port %d from the other nodes before this rule", network.Port)
}

// bridged evaluates frames that a bridge forwards to a pod of this node, as br_netfilter shows them.
func (s *ruleset) bridged(network *Network) *Finding {
	if network.Bridge == "" {
		return nil
	}
	// A datagram to any port: rules about single ports are the user's.
	const anyPort = 34567
	p := udpHeaders(anyPort)
	p.isBridged, p.in, p.out, p.state = true, network.Bridge, network.Bridge, stateUntracked
	setAddress(&p, atDestination, network.Pod)
	for i := range network.Peers {
		if network.Peers[i].Pod.Is4() {
			setAddress(&p, atSource, network.Peers[i].Pod)
			break
		}
	}
	what := "frames that bridge " + network.Bridge + " forwards"
	switch dropped, at := s.verdict(p, bridgedHooks...); dropped {
	case always:
		return &Finding{ReasonBridgedDropped, true, what + " are dropped by " + at.String(), bridgedRemedy(at, network)}
	case maybe:
		return &Finding{ReasonBridgedMayBeDropped, false, what + " may be dropped by " + at.String(), bridgedRemedy(at, network)}
	}
	return nil
}

// setAddress sets an address of a packet, unless it is unknown.
func setAddress(p *packet, offset int, address netip.Addr) {
	if !address.Is4() {
		return
	}
	for i, b := range address.As4() {
		p.network[offset+i] = b
	}
}

func bridgedRemedy(at *site, network *Network) string {
	switch {
	case at.chain.table.name == "firewalld":
		return fmt.Sprintf("`firewall-cmd --permanent --zone=trusted --add-interface=%s && firewall-cmd --reload`", network.Bridge)
	case at.chain.table == table{unix.NFPROTO_IPV4, "filter"}, at.chain.table == table{unix.NFPROTO_IPV4, "filter" + suffixOfLegacy}:
		command := "iptables"
		if at.chain.table.name != "filter" {
			command = "iptables-legacy"
		}
		return "`" + command + " -I FORWARD -m physdev --physdev-is-bridged -i tsnbr+ -j ACCEPT` at each start of the node, or `sysctl net.bridge.bridge-nf-call-iptables=0` where no other program needs it"
	}
	return fmt.Sprintf("accept packets with iifname %q in %s", cmp.Or(network.Bridge, "tsnbr*"), at.chain.name)
}
