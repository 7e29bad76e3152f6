// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Teardown removes everything that Setup created and nothing else. Removing something that is already gone is not an error. If
// ovs-vswitchd does not run, it follows the database when it starts. DPDK itself runs until Open vSwitch is restarted. Teardown
// can be repeated after a failure.
func (s *Switch) Teardown(ctx context.Context) error {
	have, err := s.read(ctx)
	if err != nil {
		return err
	}
	removals := have.removals()
	err = s.checkAlive(ctx)
	switch {
	case errors.Is(err, errNotRunning): // flows ended with it
		err = errors.Join(s.writeAhead(ctx, removals), have.removeBridgeLinks())
	case err == nil:
		err = errors.Join(s.removeFlows(ctx, have), s.write(ctx, removals))
	}
	err = errors.Join(err, removeVeths(), giveBack(have), answerAgain(have))
	if err != nil {
		return err
	}
	// Remove the marks last: giveBack and answerAgain read them.
	return s.writeAhead(ctx, have.forgottenMarks())
}

// removeFlows removes our flows from a bridge that is not ours and therefore stays.
func (s *Switch) removeFlows(ctx context.Context, have *database) error {
	bridge, there := have.bridges[BridgeInternal]
	if _, err := os.Stat(s.managementSocket()); err != nil || !there || bridge.ours() { // they end with ovs-vswitchd
		return nil
	}
	_, err := s.ofctl(ctx, "del-flows", "", fmt.Sprintf("cookie=%#x/-1", flowCookie))
	return err
}

func (d *database) removals() []string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(d.ports)) {
		bridge := d.bridgeOf[name]
		if d.ports[name].ours() && name != bridge {
			changes = append(changes, "--", "del-port", bridge, name)
		}
	}
	for _, name := range []string{BridgeInternal, BridgePhysical} {
		if bridge, there := d.bridges[name]; there && bridge.ours() && !d.foreignPorts(name) {
			changes = append(changes, "--", "del-br", name)
		}
	}
	for key := range strings.FieldsSeq(d.root.pairs("external_ids")[madeSettings]) {
		changes = append(changes, "--", "remove", "Open_vSwitch", ".", "other_config", key)
	}
	return append(changes, d.without(madeSettings, probe)...)
}

// forgottenMarks returns the removal of the marks that giveBack and answerAgain read.
func (d *database) forgottenMarks() []string { return d.without(addressFrom, arpIgnored) }

// without returns the removal of those marks that exist.
func (d *database) without(marks ...string) []string {
	var changes []string
	for _, mark := range marks {
		if d.root.pairs("external_ids")[mark] != "" {
			changes = append(changes, "--", "remove", "Open_vSwitch", ".", "external_ids", mark)
		}
	}
	return changes
}

// removeBridgeLinks removes the interfaces of our bridges, which a killed ovs-vswitchd leaves behind.
func (d *database) removeBridgeLinks() error {
	var all error
	for _, name := range []string{BridgeInternal, BridgePhysical} {
		bridge, there := d.bridges[name]
		if !there || !bridge.ours() || d.foreignPorts(name) {
			continue
		}
		link, err := netdev.Find(name)
		if err == nil && link != nil {
			err = netlink.LinkDel(link)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("remove %s: %w", name, err))
		}
	}
	return all
}

// foreignPorts reports whether the bridge has ports of other programs.
func (d *database) foreignPorts(bridge string) bool {
	for name, on := range d.bridgeOf {
		if on == bridge && name != bridge && !d.ports[name].ours() {
			return true
		}
	}
	return false
}

func removeVeths() error {
	links, err := netdev.Dump(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	var all error
	for _, link := range links {
		if link.Attrs().Group != overlay.SwitchGroup {
			continue
		}
		if err := netlink.LinkDel(link); err != nil {
			all = errors.Join(all, fmt.Errorf("remove %s: %w", link.Attrs().Name, err))
		}
	}
	return all
}

// giveBack moves the tunnel's address back to the interface that had it.
func giveBack(have *database) error {
	name, text, ok := strings.Cut(have.root.pairs("external_ids")[addressFrom], " ")
	if !ok {
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("give %s its address back: %w", name, err)
	}
	link, err := netdev.Find(name)
	if err != nil || link == nil || carries(link, prefix.Addr()) {
		return err
	}
	if bridge, err := netdev.Find(BridgePhysical); err == nil && bridge != nil && carries(bridge, prefix.Addr()) {
		_ = netlink.AddrDel(bridge, entryOf(prefix))
	}
	if err := netlink.AddrAdd(link, entryOf(prefix)); err != nil {
		return fmt.Errorf("give %s its address %s back: %w", name, prefix, err)
	}
	_ = announce(name, prefix.Addr()) // without it, peers resolve the address again later
	return nil
}
