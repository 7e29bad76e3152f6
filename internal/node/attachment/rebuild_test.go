// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// rebuildLab is a node with an uplink and a pod.
type rebuildLab struct {
	node  *overlay.Node
	dir   string
	id    topology.ID
	netns *os.File
}

func newRebuildLab(t *testing.T) *rebuildLab {
	t.Helper()
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
	t.Cleanup(func() { netns.Close() })
	return &rebuildLab{node, dir, id, netns}
}

// plug attaches an interface of the pod to a network.
func (l *rebuildLab) plug(t *testing.T, network *overlay.Network, interfaceName, note string) *overlay.Attachment {
	t.Helper()
	network.Uplink, network.MTU = "up0", 1400
	attachment := overlay.Attachment{Network: LinkNetwork, ContainerID: l.id.String(), Interface: interfaceName, Identity: "pod"}
	_, err := l.node.Plug(t.Context(), network, &overlay.Port{
		Attachment: attachment, HardwareAddress: net.HardwareAddr{2, 0, 0, 0, 0, interfaceName[1]}, Netns: int(l.netns.Fd()), Note: note}, nil)
	must(t, err)
	return &attachment
}

func TestARebuiltRecordOfALinkKnowsThatItIsEncrypted(t *testing.T) {
	lab := newRebuildLab(t)
	for i, alias := range []string{"tsn-cni:1 encrypted", ""} {
		network := linkNetwork(0x800000 + uint32(i))
		network.Port = 4700 + uint16(i)
		attachment := lab.plug(t, &network, []string{"a0", "a1"}[i], "")
		if alias != "" {
			must(t, netlink.LinkSetAlias(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: network.Tunnel}}, alias))
		}
		count, err := rebuild(t.Context(), lab.node, recordStore{lab.dir}, (&listening{}).serve(t), "")
		must(t, err)
		if made := (recordStore{lab.dir}).read(attachment); count != 1 || made == nil || made.Encrypted != (alias != "") || made.VNI != network.VNI {
			t.Errorf("of a tunnel with the alias %q %d records are rebuilt: %+v", alias, count, made)
		}
	}
}

func TestARecordWithoutTheDeviceOfItsMachineIsNotRebuilt(t *testing.T) {
	lab := newRebuildLab(t)
	for i, kind := range []string{device.VhostUser, device.Tap} {
		network := linkNetwork(0x800000 + uint32(i))
		network.Port = 4700 + uint16(i)
		interfaceName := []string{"a0", "a1"}[i]
		note := kind + ",1,record,0,,timed,/" + strings.Repeat("d", 255) // longer than an alias
		attachment := lab.plug(t, &network, interfaceName, note)
		if kind == device.Tap {
			name, err := device.TapName(interfaceName)
			must(t, err)
			must(t, ns.WithNetNSPath(lab.netns.Name(), func(ns.NetNS) error { return (&vm.Tap{Name: name, MTU: 1400, Queues: 1}).Make() }))
		}
		count, err := rebuild(t.Context(), lab.node, recordStore{lab.dir}, (&listening{}).serve(t), "")
		made := (recordStore{lab.dir}).read(attachment)
		if kind == device.Tap { // the pod has it
			if count != 1 || made == nil || !made.Device.Is(device.Tap) {
				t.Errorf("%d are rebuilt: %+v, %v", count, made, err)
			}
			continue
		}
		if count != 0 || err == nil || !strings.Contains(err.Error(), "delete the pod") || made != nil {
			t.Errorf("%d are rebuilt: %+v, %v", count, made, err)
		}
	}
}
