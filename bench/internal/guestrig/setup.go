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

// etfDelta is how long before its time the machine's etf hands a frame to its interface. It has no other way to be in
// time, and drops the frame if an emulated processor is late by more.
const etfDelta = time.Millisecond

// ReleasedPriority is the SO_PRIORITY whose frames the machine's etf holds.
const ReleasedPriority = 1

// beliefPatience is how long ktsn-guest may take to know the host's time.
const (
	beliefPatience = 30 * time.Second
	beliefPoll     = 100 * time.Millisecond
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
				machine.Addresses[iface.name].String(), everywhere,
				strconv.FormatInt(etfDelta.Nanoseconds(), 10)}
			for _, far := range pair.other.interfaces {
				arguments = append(arguments, pair.other.Addresses[far.name].String(), far.mac)
			}
			if output, err := machine.Run(ctx, arguments...); err != nil {
				return fmt.Errorf("set interface %s up: %w (%s)", iface.name, err, output)
			}
		}
	}
	if err := tellForwarding(a.Namespace, r.B, topology.NodeAddressB); err != nil {
		return err
	}
	var err error
	follow := []string{r.parts.program("ktsn-guest"), "run"}
	for _, name := range r.marked() {
		follow = append(follow, "--interface", name)
	}
	if r.belief, err = r.A.Start(follow...); err != nil {
		return err
	}
	return r.awaitBelief(ctx)
}

// everywhere is where all pods and machines are.
var everywhere = netip.PrefixFrom(topology.PodAddressA, topology.PodPrefixBits).Masked().String()

// table is the routing table of what is sent from the address of an interface.
func table(number int) string { return strconv.Itoa(number + 100) }

// Tag has what is sent from the address of an interface of machine a leave by that interface's VLAN device, which there is, and machine b
// take such frames at Tap.
func (r *Rig) Tag(ctx context.Context, name string, vlan int) error {
	id := strconv.Itoa(vlan)
	tagged := name + "." + id
	number := slices.IndexFunc(r.A.interfaces, func(iface *attached) bool { return iface.name == name })
	sends := [][]string{{"ip", "route", "replace", everywhere, "dev", tagged, "src", r.A.Addresses[name].String(), "table", table(number)}}
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

// tellForwarding has a node know behind which other one the interfaces of the other's machine are: its machine hears nothing of them
// by which it could learn that.
func tellForwarding(on *topology.Namespace, machine *Machine, behind netip.Addr) error {
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
			entry.State, entry.Flags, entry.IP = netlink.NUD_PERMANENT, netlink.NTF_SELF, net.IP(behind.AsSlice())
			errSelf := netlink.NeighSet(&entry)
			entry.State, entry.Flags, entry.IP = netlink.NUD_NOARP, netlink.NTF_MASTER, nil
			if err := errors.Join(errSelf, netlink.NeighSet(&entry)); err != nil {
				return fmt.Errorf("tell a node where %s is: %w", iface.mac, err)
			}
		}
		return nil
	})
}

// Belief is what ktsn-guest says of an interface of machine a.
type Belief struct {
	Known bool `json:"known"`
	// BoundNs is how far from the host's time what it knows may be.
	BoundNs int64 `json:"bound_ns"`
	// WidestBoundNs is the widest with which a frame left since the last call of Believes.
	WidestBoundNs int64             `json:"widest_bound_ns"`
	AheadNs       int64             `json:"host_tai_ahead_of_guest_ns"`
	Sent          uint64            `json:"sent"`
	Refused       map[string]uint64 `json:"refused"`
}

// Believes asks it.
func (r *Rig) Believes(ctx context.Context, name string) (Belief, error) {
	output, err := r.A.Run(ctx, r.parts.program("ktsn-guest"), "status", "--clear", "--interface", name, "-o", "json")
	if err != nil {
		return Belief{}, err
	}
	var all []Belief
	if err := json.Unmarshal([]byte(output), &all); err != nil || len(all) != 1 {
		return Belief{}, fmt.Errorf("ktsn-guest says %q: %w", output, err)
	}
	return all[0], nil
}

// SetClock sets the clock of machine a by what ktsn-guest knows of the host's, as a program would that follows the host's.
func (r *Rig) SetClock(ctx context.Context) error {
	belief, err := r.Believes(ctx, Tap)
	if err != nil {
		return err
	}
	if err := r.A.Step(ctx, time.Duration(belief.AheadNs)); err != nil {
		return err
	}
	return r.awaitBelief(ctx)
}

func (r *Rig) awaitBelief(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beliefPatience)
	defer cancel()
	for {
		belief, err := r.Believes(ctx, Tap)
		if err == nil && belief.Known {
			return nil
		}
		if pause := retry.Pause(ctx, beliefPoll); pause != nil {
			return fmt.Errorf("wait until ktsn-guest knows the host's time: %w", errors.Join(pause, err))
		}
	}
}
