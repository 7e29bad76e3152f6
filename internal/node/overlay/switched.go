// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// SwitchGroup is the group of links that lead from a network's bridge into Open vSwitch: "ovs" in ASCII. Package ovs
// makes them; they take the place of the tunnel, have its name, and are never made or removed here.
const SwitchGroup = 0x6f7673

// MaxSwitchedVNI is the largest number of a network that goes through Open vSwitch, where it is a VLAN.
const MaxSwitchedVNI = 4094

// uplinkSwitched is what ktsnd calls an uplink through Open vSwitch.
const uplinkSwitched = "ovs"

// CheckSwitched says why a network cannot be one of a node whose ktsnd has this uplink; nil when it can.
func CheckSwitched(uplink string, vni uint32) error {
	if uplink != uplinkSwitched || vni <= MaxSwitchedVNI {
		return nil
	}
	return fmt.Errorf("network %d cannot go through Open vSwitch, as all timed messages of this node do, which carries networks 1 to %d; "+
		"give it another number, or take the node out of it", vni, MaxSwitchedVNI)
}

// CheckLinks says why links cannot be plugged on a node whose ktsnd has this uplink; nil when they can.
func CheckLinks(uplink string) error {
	if uplink != uplinkSwitched {
		return nil
	}
	return fmt.Errorf("ktsnd of this node sends through Open vSwitch, which carries networks 1 to %d, and links have larger numbers; "+
		"start it with --uplink direct, or have the pod run on another node", MaxSwitchedVNI)
}

func leadsIntoSwitch(link netlink.Link) bool { return link.Attrs().Group == SwitchGroup }

// egress is what leads from the network's bridge to the other nodes; nil for nothing.
func (d devices) egress() netlink.Link {
	if d.switched != nil {
		return d.switched
	}
	return link(d.tunnel)
}

// ensureSwitched makes what is missing of a network whose other nodes are behind Open vSwitch. The lock is held.
func (n *Node) ensureSwitched(ctx context.Context, network *Network, have devices, timed Timed) (devices, error) {
	if err := checkSwitched(ctx, network, have, timed); err != nil {
		return have, err
	}
	created := devices{}
	if have.bridge == nil {
		bridge, err := n.makeBridge(network, &uplinkDevice{mtu: have.switched.Attrs().MTU + EncapsulationBytes})
		if err != nil {
			return have, err
		}
		have.bridge, created.bridge = bridge, bridge
	}
	if err := n.completeSwitched(network, &have); err != nil {
		return have, errors.Join(err, n.unmake(created), n.guard())
	}
	return have, nil
}

// checkSwitched tells whether timed and other traffic take the same path, and fit.
func checkSwitched(ctx context.Context, network *Network, have devices, timed Timed) error {
	if most := have.switched.Attrs().MTU; network.MTU > most {
		return failed(TooLarge, "an MTU of %d does not fit: %s carries %d bytes", network.MTU, network.Tunnel, most)
	}
	if timed == nil {
		return nil
	}
	status, err := timed.Status(ctx)
	if err != nil {
		return err
	}
	if status.Uplink != uplinkSwitched {
		return failed(NoUplink, "network %d goes through Open vSwitch on this node, and ktsnd does not; start ktsnd with --uplink ovs, or run `ktsn ovs teardown`",
			network.VNI)
	}
	return nil
}

func (n *Node) completeSwitched(network *Network, have *devices) error {
	if ours(have.bridge) {
		if err := withoutIPv6(network.Bridge); err != nil {
			return err
		}
	}
	if err := withoutIPv6(network.Tunnel); err != nil {
		return err
	}
	if have.switched.Attrs().MasterIndex != have.bridge.Index {
		if err := n.kernel.LinkSetMaster(have.switched, have.bridge); err != nil {
			return fmt.Errorf("add %s to bridge %s: %w", network.Tunnel, network.Bridge, err)
		}
	}
	if err := n.closeOff(network, *have); err != nil {
		return err
	}
	for _, link := range []netlink.Link{have.bridge, have.switched} {
		if isUp(link) {
			continue
		}
		if err := n.kernel.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// checkDevicesSwitched returns what differs of them.
func checkDevicesSwitched(network *Network, have devices) error {
	var all error
	for _, link := range []netlink.Link{have.bridge, have.switched} {
		if !isUp(link) {
			all = errors.Join(all, fmt.Errorf("%s is down", link.Attrs().Name))
		}
	}
	if have.switched.Attrs().MasterIndex != have.bridge.Index {
		all = errors.Join(all, fmt.Errorf("%s is not a port of %s", network.Tunnel, network.Bridge))
	}
	return all
}
