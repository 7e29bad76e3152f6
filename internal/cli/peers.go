// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// knownPeer is another node as it is recorded, and as kernel and ktsnd know it. The three differ if one of them was changed by hand.
type knownPeer struct {
	control.Peer
	Remembered bool `json:"remembered"`
	// Kernel is "yes", "no", or "no tunnel" as long as no pod is attached.
	Kernel string `json:"kernel"`
	// Ktsnd is "yes", "no", "other subnets", "other port", or "none" on a node without.
	Ktsnd string `json:"ktsnd"`
	// Groups are the multicast groups whose messages ktsnd sends there; nil if ktsnd reports none.
	Groups *control.NodeGroups `json:"groups,omitempty"`
}

type peerKey struct {
	vni     uint32
	address netip.Addr
}

// knownPeers joins the recorded peers with those of kernel and ktsnd.
func knownPeers(ctx context.Context, node *overlay.Node, client *control.Client) ([]knownPeer, error) {
	remembered, err := node.Peers()
	if err != nil {
		return nil, err
	}
	flooded, err := node.FloodTargets()
	if err != nil {
		return nil, err
	}
	var currentPeers []control.Peer
	var groups []control.NodeGroups
	if client != nil {
		if currentPeers, err = client.Peers(ctx); err != nil {
			return nil, err
		}
		if groups, err = client.Groups(ctx); err != nil {
			return nil, err
		}
	}
	peers := joinPeers(remembered, flooded, currentPeers, client != nil)
	addGroups(peers, groups)
	return peers, nil
}

func addGroups(peers []knownPeer, groups []control.NodeGroups) {
	byPeer := map[peerKey]*control.NodeGroups{}
	for i, entry := range groups {
		byPeer[peerKey{entry.VNI, entry.Address}] = &groups[i]
	}
	for i, peer := range peers {
		peers[i].Groups = byPeer[peerKey{peer.VNI, peer.Address}]
	}
}

// groupsSummary summarises the groups whose messages go to a peer.
func groupsSummary(groups *control.NodeGroups) string {
	const shown = 3
	switch {
	case groups == nil:
		return ""
	case !groups.Known:
		return "all: not known"
	case groups.Everything:
		return "all"
	case groups.Count == 0:
		return "none"
	}
	var names []string
	for _, group := range groups.Groups[:min(shown, len(groups.Groups))] {
		names = append(names, group.String())
	}
	if more := groups.Count - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, " ")
}

// healthSummary says when the last announcement of a peer arrived.
func healthSummary(health *control.PeerHealth) string {
	ago := func(ms int64) string {
		if ms < 0 {
			return "never"
		}
		return fmt.Sprintf("%v ago", (time.Duration(ms) * time.Millisecond).Round(time.Second))
	}
	const settledMs = 1000 // between the two arrivals of the same announcement
	switch {
	case health == nil:
		return "not measured"
	case health.UplinkAgoMs >= 0 && (health.TunnelAgoMs < 0 || health.TunnelAgoMs > health.UplinkAgoMs+settledMs):
		return fmt.Sprintf("received %s; arrived at the uplink %s, and dropped here", ago(health.TunnelAgoMs), ago(health.UplinkAgoMs))
	}
	return "received " + ago(health.TunnelAgoMs)
}

// lossSummary says how many of a peer's last announcements were lost.
func lossSummary(health *control.PeerHealth) string {
	if health == nil || health.Announced == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", health.Lost, health.Announced)
}

// mtuSummary is the largest IP packet of a pod that the route to a peer lets pass.
func mtuSummary(peer *control.Peer) string {
	if peer.MTU == 0 {
		return "-"
	}
	return strconv.Itoa(peer.MTU)
}

func joinPeers(remembered []control.Peer, flooded map[uint32]map[netip.Addr]bool, peers []control.Peer, withKtsnd bool) []knownPeer {
	all := map[peerKey]*knownPeer{}
	at := func(vni uint32, address netip.Addr) *knownPeer {
		key := peerKey{vni, address}
		if all[key] == nil {
			all[key] = &knownPeer{Peer: control.Peer{VNI: vni, Address: address, Subnets: []netip.Prefix{}}, Kernel: "no", Ktsnd: "no"}
		}
		return all[key]
	}
	for _, peer := range remembered {
		known := at(peer.VNI, peer.Address)
		known.Subnets, known.Port, known.Remembered = peer.Subnets, peer.Port, true
	}
	for _, peer := range peers {
		known := at(peer.VNI, peer.Address)
		known.Ktsnd, known.MTU, known.Health = "yes", peer.MTU, peer.Health
		switch {
		case !known.Remembered:
			known.Subnets, known.Port = peer.Subnets, peer.Port
		case !samePrefixes(known.Subnets, peer.Subnets):
			known.Ktsnd = "other subnets"
		case known.Port != peer.Port:
			known.Ktsnd = "other port"
		}
	}
	for vni, addresses := range flooded {
		for address := range addresses {
			at(vni, address).Kernel = "yes"
		}
	}
	var list []knownPeer
	for _, known := range all {
		if flooded[known.VNI] == nil {
			known.Kernel = "no tunnel"
		}
		if !withKtsnd {
			known.Ktsnd = "none"
		}
		list = append(list, *known)
	}
	slices.SortFunc(list, func(a, b knownPeer) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.Address.Compare(b.Address))
	})
	return list
}

func samePrefixes(a, b []netip.Prefix) bool {
	sorted := func(prefixes []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(prefixes), func(x, y netip.Prefix) int {
			return cmp.Or(x.Addr().Compare(y.Addr()), cmp.Compare(x.Bits(), y.Bits()))
		})
	}
	return slices.Equal(sorted(a), sorted(b))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
