// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

func TestARebuiltRecordOfALinkKnowsThatItIsEncrypted(t *testing.T) {
	node, dir := attachedNode(t)
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "up0"
	uplink := &netlink.Veth{LinkAttrs: attributes, PeerName: "up1"}
	must(t, netlink.LinkAdd(uplink))
	must(t, netlink.AddrAdd(uplink, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}))
	must(t, netlink.LinkSetUp(uplink))
	id, err := topology.NewID()
	must(t, err)
	pod, err := topology.NewNamespace(id.String() + "-rebuilt")
	must(t, err)
	t.Cleanup(func() { must(t, pod.Destroy()) })
	netns, err := os.Open(pod.Path())
	must(t, err)
	defer netns.Close()
	for i, alias := range []string{"tsn-cni:1 encrypted", ""} {
		network := linkNetwork(0x800000 + uint32(i))
		network.Port, network.Uplink, network.MTU = 4700+uint16(i), "up0", 1400
		attachment := overlay.Attachment{Network: LinkNetwork, ContainerID: id.String(), Interface: []string{"a0", "a1"}[i], Identity: "pod"}
		_, err = node.Plug(t.Context(), &network, &overlay.Port{Attachment: attachment, HardwareAddress: net.HardwareAddr{2, 0, 0, 0, 0, byte(i)}, Netns: int(netns.Fd())}, nil)
		must(t, err)
		if alias != "" {
			must(t, netlink.LinkSetAlias(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: network.Tunnel}}, alias))
		}
		count, err := rebuild(t.Context(), node, records{dir}, (&listening{}).serve(t), "")
		must(t, err)
		if made := (records{dir}).read(&attachment); count != 1 || made == nil || made.Encrypted != (alias != "") || made.VNI != network.VNI {
			t.Errorf("of a tunnel with the alias %q %d records are rebuilt: %+v", alias, count, made)
		}
	}
}
