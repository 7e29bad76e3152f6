// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	attachments "github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	// firstLinkVNI is the VNI of link 0, and linkSecond the second byte of the addresses of links.
	firstLinkVNI = 0x800000
	linkSecond   = 46
	// MaxLinks is the number of links that have addresses.
	MaxLinks = 1 << 15
)

// linkAddress returns the address of an end of a link: a /31 each.
func linkAddress(number, side int) netip.Addr {
	first := number * 2
	return netip.AddrFrom4([4]byte{10, linkSecond, byte(first >> 8), byte(first + side - sideA)})
}

// linkInterface returns the name of a link's interface in the pod of a side.
func linkInterface(number, side int) string {
	return map[int]string{sideA: "up", sideB: "down"}[side] + strconv.Itoa(number)
}

// makeLink plugs the link of network link.
func (n *Networks) makeLink(ctx context.Context) error {
	if n.wanted.Pods > 1 {
		return errors.New("a link has two ends; there cannot be more than one pod on node b")
	}
	if err := n.manage(ctx); err != nil {
		return err
	}
	for _, side := range []int{sideA, sideB} {
		if err := n.openSocket(ctx, side); err != nil {
			return err
		}
	}
	return n.PlugLink(ctx, 0)
}

// openSocket lets the applications of a side's pod reach ktsnd; if the pod is on network tsn, the plugin has done so.
func (n *Networks) openSocket(ctx context.Context, number int) error {
	if slices.Contains(n.wanted.Networks, TSN) {
		return nil
	}
	side, pod := n.managed.sides[number], podID(number, 0)
	if err := os.MkdirAll(filepath.Dir(side.socket(pod)), 0o755); err != nil {
		return err
	}
	return side.ktsnd.client.SocketAdd(ctx, pod, side.socket(pod))
}

// PlugLink plugs both ends of a link between the first pods, like the agents of both nodes. Network link is number 0.
func (n *Networks) PlugLink(ctx context.Context, number int) error {
	for _, side := range []int{sideA, sideB} {
		if err := n.plugEnd(ctx, number, side); err != nil {
			return fmt.Errorf("plug link %d on node %d: %w", number, side, err)
		}
	}
	return nil
}

func (n *Networks) plugEnd(ctx context.Context, number, side int) error {
	plan := n.linkPlan(number, side)
	at := n.managed.sides[side]
	at.plugged = append(at.plugged, attachments.Plugged{Sandbox: plan.Sandbox, Interface: plan.Interface, VNI: plan.VNI, MTU: plan.MTU})
	return n.node(side).Do(func() error { return attachments.PlugLink(ctx, at.linkOptions(), plan) })
}

// UnplugLinks removes links 1 to number from both pods, like ktsn-agent all of a side together.
func (n *Networks) UnplugLinks(ctx context.Context, number int) error {
	var err error
	for _, side := range []int{sideA, sideB} {
		at := n.managed.sides[side]
		var leaving []*attachments.Plugged
		stays := func(p *attachments.Plugged) bool { return p.VNI <= firstLinkVNI || p.VNI > uint32(firstLinkVNI+number) }
		for i := range at.plugged {
			if !stays(&at.plugged[i]) {
				leaving = append(leaving, &at.plugged[i])
			}
		}
		err = errors.Join(err, n.node(side).Do(func() error { return errors.Join(attachments.UnplugLinks(ctx, at.linkOptions(), leaving)...) }))
		at.plugged = slices.DeleteFunc(at.plugged, func(p attachments.Plugged) bool { return !stays(&p) })
	}
	return err
}

// LinkAddress returns the address of the far end of a link.
func LinkAddress(number int) netip.Addr { return linkAddress(number, sideB) }

// Departures returns the departures of the ktsnd on node a after a sequence number. It fails if ktsnd has overwritten
// some.
func (n *Networks) Departures(ctx context.Context, after uint64) ([]control.Departure, error) {
	all, overwritten, err := n.managed.sides[sideA].ktsnd.client.Departures(ctx, after)
	if err == nil && overwritten > 0 && after > 0 {
		err = fmt.Errorf("ktsnd has already forgotten %d departures", overwritten)
	}
	return all, err
}

// linkPlan returns the plan of a link's end on a side.
func (n *Networks) linkPlan(number, side int) *attachments.LinkPlan {
	other := sideA + sideB - side
	vni := uint32(firstLinkVNI + number)
	client, endpoint := attachments.LinkMACs(vni)
	macs := map[int]string{sideA: client.String(), sideB: endpoint.String()}
	return &attachments.LinkPlan{
		Sandbox:   attachments.Sandbox{ContainerID: podID(side, 0), Identity: podID(side, 0), Netns: n.pods(side)[0].Path()},
		Interface: linkInterface(number, side), VNI: vni, MTU: n.wanted.LinkMTU - EncapsulationBytes,
		Link: attachments.Link{
			Addresses: []netip.Prefix{netip.PrefixFrom(linkAddress(number, side), 31)},
			MAC:       macs[side],
			Peer:      attachments.LinkPeer{Addresses: []netip.Addr{linkAddress(number, other)}, MAC: macs[other], Node: n.nodeAddress(other)},
		},
	}
}

func (s *managedSide) linkOptions() *attachments.LinkOptions {
	return &attachments.LinkOptions{StateDir: s.state(), ControlSocket: s.ktsnd.socket, Uplink: topology.PhysicalInterface, Patience: lockTime}
}

// unplug removes all links from a side's pod.
func (s *managedSide) unplug(ctx context.Context, node *topology.Namespace) error {
	return node.Do(func() error {
		var links []*attachments.Plugged
		for i := range s.plugged {
			links = append(links, &s.plugged[i])
		}
		s.plugged = nil
		return errors.Join(attachments.UnplugLinks(ctx, s.linkOptions(), links)...)
	})
}
