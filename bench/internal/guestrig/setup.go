// SPDX-License-Identifier: Apache-2.0

package guestrig

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

//go:embed interface.sh
var interfaceScript string

// etfDelta is how long before its time the machine's etf hands a frame to its interface. etf drops the frame if an
// emulated processor is late by more.
const etfDelta = time.Millisecond

// ReleasedPriority is the SO_PRIORITY whose frames the machine's etf holds.
const ReleasedPriority = 1

// hostTimeTimeout is how long ktsn-guest may take to know the host's time.
const (
	hostTimeTimeout = 30 * time.Second
	hostTimePoll    = 100 * time.Millisecond
)

// setUp sets the addresses of the machines' interfaces, and makes ktsn-guest mark frames.
func (r *Rig) setUp(ctx context.Context, a *Node) error {
	if _, err := r.start(a.Namespace, "ktsn vm clock", "vm", "clock", "--socket", r.A.clockSocket()); err != nil {
		return err
	}
	for _, pair := range []struct{ machine, other *Machine }{{r.A, r.B}, {r.B, r.A}} {
		machine := pair.machine
		for number, iface := range machine.interfaces {
			arguments := []string{"sh", "-c", interfaceScript, "interface.sh", iface.name, iface.mac, strconv.Itoa(iface.mtu), table(number),
				machine.Addresses[iface.name].String(), overlaySubnet,
				strconv.FormatInt(etfDelta.Nanoseconds(), 10)}
			for _, far := range pair.other.interfaces {
				arguments = append(arguments, pair.other.Addresses[far.name].String(), far.mac)
			}
			if output, err := machine.Run(ctx, arguments...); err != nil {
				return fmt.Errorf("set interface %s up: %w (%s)", iface.name, err, output)
			}
		}
	}
	if err := addForwarding(a.Namespace, r.B, topology.NodeAddressB); err != nil {
		return err
	}
	follow := []string{r.parts.program("ktsn-guest"), "run"}
	for _, name := range r.marked() {
		follow = append(follow, "--interface", name)
	}
	if _, err := r.A.Start(follow...); err != nil {
		return err
	}
	return r.awaitHostTime(ctx)
}

// overlaySubnet contains the addresses of all pods and machines.
var overlaySubnet = netip.PrefixFrom(topology.PodAddressA, topology.PodPrefixBits).Masked().String()

// table returns the routing table for packets from the address of an interface.
func table(number int) string { return strconv.Itoa(number + 100) }

// Tag routes packets from the address of an interface of machine a through the interface's existing VLAN device, and makes
// machine b accept such frames at Tap.
func (r *Rig) Tag(ctx context.Context, name string, vlan int) error {
	id := strconv.Itoa(vlan)
	tagged := name + "." + id
	number := slices.IndexFunc(r.A.interfaces, func(iface *attached) bool { return iface.name == name })
	sends := [][]string{{"ip", "route", "replace", overlaySubnet, "dev", tagged, "src", r.A.Addresses[name].String(), "table", table(number)}}
	for _, far := range r.B.interfaces {
		sends = append(sends, []string{"ip", "neighbour", "replace", r.B.Addresses[far.name].String(), "lladdr", far.mac, "dev", tagged, "nud", "permanent"})
	}
	receives := [][]string{{"ip", "link", "add", "link", Tap, "name", Tap + "." + id, "type", "vlan", "id", id}, {"ip", "link", "set", Tap + "." + id, "up"}}
	for machine, commands := range map[*Machine][][]string{r.A: sends, r.B: receives} {
		for _, command := range commands {
			if output, err := machine.Run(ctx, command...); err != nil {
				return fmt.Errorf("send by VLAN %d: %w (%s)", vlan, err, output)
			}
		}
	}
	return nil
}

// addForwarding adds forwarding entries for the interfaces of the other node's machine, which sends nothing from which
// the bridge could learn them.
func addForwarding(on *topology.Namespace, machine *Machine, node netip.Addr) error {
	return on.Do(func() error {
		tunnel, err := netlink.LinkByName(topology.TunnelName)
		if err != nil {
			return fmt.Errorf("find %s: %w", topology.TunnelName, err)
		}
		for _, iface := range machine.interfaces {
			mac, err := net.ParseMAC(iface.mac)
			if err != nil {
				return err
			}
			entry := netlink.Neigh{LinkIndex: tunnel.Attrs().Index, Family: unix.AF_BRIDGE, HardwareAddr: mac}
			entry.State, entry.Flags, entry.IP = netlink.NUD_PERMANENT, netlink.NTF_SELF, net.IP(node.AsSlice())
			errSelf := netlink.NeighSet(&entry)
			entry.State, entry.Flags, entry.IP = netlink.NUD_NOARP, netlink.NTF_MASTER, nil
			if err := errors.Join(errSelf, netlink.NeighSet(&entry)); err != nil {
				return fmt.Errorf("add a forwarding entry for %s: %w", iface.mac, err)
			}
		}
		return nil
	})
}

// Status is the state of ktsn-guest for an interface of machine a.
type Status struct {
	// Known: ktsn-guest knows the host's time.
	Known bool `json:"known"`
	// WidestBoundNs is the largest error bound of the host's time with which a frame left since the last reading.
	WidestBoundNs int64             `json:"widest_bound_ns"`
	AheadNs       int64             `json:"host_tai_ahead_of_guest_ns"`
	Refused       map[string]uint64 `json:"refused"`
}

// ReadStatus reads the state and begins a new widest bound.
func (r *Rig) ReadStatus(ctx context.Context, name string) (Status, error) {
	output, err := r.A.Run(ctx, r.parts.program("ktsn-guest"), "status", "--clear", "--interface", name, "-o", "json")
	if err != nil {
		return Status{}, err
	}
	var all []Status
	if err := json.Unmarshal([]byte(output), &all); err != nil || len(all) != 1 {
		return Status{}, fmt.Errorf("ktsn-guest printed %q: %w", output, err)
	}
	return all[0], nil
}

// SetClock sets the clock of machine a to the host's time as ktsn-guest knows it, like a program that follows the host.
func (r *Rig) SetClock(ctx context.Context) error {
	status, err := r.ReadStatus(ctx, Tap)
	if err != nil {
		return err
	}
	if err := r.A.Step(ctx, time.Duration(status.AheadNs)); err != nil {
		return err
	}
	return r.awaitHostTime(ctx)
}

// awaitHostTime waits until ktsn-guest knows the host's time.
func (r *Rig) awaitHostTime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hostTimeTimeout)
	defer cancel()
	return retry.Until(ctx, hostTimePoll, func() error {
		status, err := r.ReadStatus(ctx, Tap)
		if err == nil && !status.Known {
			err = errors.New("ktsn-guest does not know the host's time")
		}
		return err
	})
}
