// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// released removes a port from its bridge, as NetworkManager and systemd-networkd do with devices that they manage.
func released(link netlink.Link) error { return netlink.LinkSetNoMaster(link) }

// moved puts a port on another bridge.
func moved(link netlink.Link) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br9"}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return err
	}
	return netlink.LinkSetMaster(link, bridge)
}

func renamed(name string) func(netlink.Link) error {
	return func(link netlink.Link) error { return netlink.LinkSetName(link, name) }
}

// TestDevicesAreRepaired changes a device of a network with pods, restores, and sends in both directions and between the pods of the
// node.
func TestDevicesAreRepaired(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		device string // "": the port of the first pod
		change func(netlink.Link) error
		// repaired is what `ktsn node restore` says.
		repaired []string
	}{
		"bridge down":          {bridgeName, netlink.LinkSetDown, []string{"set tsnbr42 up"}},
		"bridge deleted":       {bridgeName, netlink.LinkDel, []string{"recreated bridge tsnbr42", "added tsnvx42 to tsnbr42", " to tsnbr42\nadded tsn"}},
		"bridge renamed":       {bridgeName, renamed("br0"), nil},
		"tunnel down":          {tunnelName, netlink.LinkSetDown, []string{"set tsnvx42 up"}},
		"tunnel deleted":       {tunnelName, netlink.LinkDel, []string{"recreated tunnel tsnvx42"}},
		"tunnel released":      {tunnelName, released, []string{"added tsnvx42 to tsnbr42"}},
		"tunnel renamed":       {tunnelName, renamed("vxlan0"), nil},
		"tunnel's MTU lowered": {tunnelName, func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1280) }, []string{"raised the MTU of tsnvx42 from 1280 to 1450"}},
		"tunnel's filter removed": {tunnelName, func(l netlink.Link) error {
			return netlink.QdiscDel(netdev.Clsact(l))
		}, nil},
		"port down":     {"", netlink.LinkSetDown, []string{"set tsn", " up"}},
		"port released": {"", released, []string{"added tsn", " to tsnbr42"}},
		"port moved":    {"", moved, []string{"added tsn", " to tsnbr42"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReachable(t)
			device := test.device
			if device == "" {
				device = portOf(r.a1)
			}
			on(t, r.a.Namespace, device, test.change)
			out := r.a.ktsn(t, "node", "restore")
			for _, want := range test.repaired {
				if !strings.Contains(out, want) {
					t.Errorf("ktsn node restore reports %q, and not %q", out, want)
				}
			}
			for _, ends := range r.podPairs() {
				ping(t, ends[0], r.address(ends[1], true), largest(true))
			}
			ping(t, r.b1, r.address(r.a1, true), largest(true))
			r.checkTimed(t, r.b1)
			on(t, r.a.Namespace, tunnelName, func(l netlink.Link) error {
				filters, err := netlink.FilterList(l, netlink.HANDLE_MIN_INGRESS)
				if err == nil && len(filters) == 0 {
					t.Error("the tunnel lacks the filter of reserved addresses")
				}
				return err
			})
			if out := r.a.ktsn(t, "node", "restore"); !strings.HasPrefix(out, "registered") {
				t.Errorf("repeating it reports %q", out)
			}
		})
	}
}

// The next ADD repairs the devices of the network; ports of other pods need a restore.
func TestAddRepairsDevices(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(netlink.Link) error{"down": netlink.LinkSetDown, "deleted": netlink.LinkDel, "released": released} {
		t.Run("tunnel "+name, func(t *testing.T) {
			r := newReachable(t)
			on(t, r.a.Namespace, tunnelName, change)
			r.a.newPod(t).add(t, r.a.config(fields{"ipam": r.a.dualStack()}))
			ping(t, r.a1, r.address(r.b1, true), 56)
		})
	}
}

// The last port of the bridge leaves, and the bridge has to stay for the port that has lost it.
func TestDelKeepsBridgeOfLostPort(t *testing.T) {
	t.Parallel()
	t.Run("released", func(t *testing.T) { checkDelKeepsBridge(t, released, func(*lab) {}) })
	t.Run("moved", func(t *testing.T) {
		checkDelKeepsBridge(t, moved, func(l *lab) { on(t, l.a.Namespace, "br9", netlink.LinkDel) })
	})
}

func checkDelKeepsBridge(t *testing.T, change func(netlink.Link) error, after func(*lab)) {
	t.Helper()
	lab := newServedLab(t)
	lost, other := lab.a.newPod(t), lab.a.newPod(t)
	config := lab.a.config(nil)
	before := lab.a.inventory(t, lost, other)
	lost.add(t, config)
	other.add(t, config)
	on(t, lab.a.Namespace, portOf(lost), change)
	err := lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, config))
	checkRefused(t, err, 51, portOf(lost)+": not on bridge tsnbr42, because another program removed the port; run `ktsn node restore`")
	other.del(t, config)
	on(t, lab.a.Namespace, bridgeName, func(netlink.Link) error { return nil })
	on(t, lab.a.Namespace, tunnelName, func(netlink.Link) error { return nil })
	lab.a.ktsn(t, "node", "restore")
	testlab.Must(t, lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, config)))
	lost.del(t, config)
	after(lab)
	checkSame(t, "after DEL", before, lab.a.inventory(t, lost, other))
}

// Repairs that need no ktsnd are made while it does not answer.
func TestDevicesAreRepairedWithoutKtsnd(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	r.a.stopDaemon(t)
	for device, change := range map[string]func(netlink.Link) error{bridgeName: netlink.LinkSetDown, tunnelName: released, portOf(r.a1): moved} {
		on(t, r.a.Namespace, device, change)
	}
	must(t, r.a.Do(func() error {
		dir := filepath.Join(r.a.dir, "state")
		node, err := attachment.OpenNode(dir, patience)
		if err != nil {
			return err
		}
		defer node.Close()
		repaired, faults, err := attachment.Repair(t.Context(), dir, node, nil, nil)
		if len(repaired) != 3 {
			t.Errorf("repaired %q", repaired)
		}
		return errors.Join(err, attachment.Joined(faults))
	}))
	ping(t, r.a1, r.address(r.b1, true), 56)
	ping(t, r.a1, r.address(r.a2, true), 56)
}

// ktsnd cannot use an uplink that was removed and created again: it ends with a message, and the next one sends.
func TestRecreatedUplinkEndsKtsnd(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	daemon := start(t, lab.a.Namespace, "ktsnd", exec.Command(program(t, "ktsnd"), "--interface", uplinkName, "--control", lab.a.control(), "--log-level", "warning"))
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		client, err := control.Dial(t.Context(), lab.a.control())
		if err == nil {
			client.Close()
		}
		return err
	})
	on(t, lab.a.Namespace, uplinkName, netlink.LinkDel)
	lab.link(t)
	select {
	case <-daemon.Done():
	case <-time.After(patience):
		t.Fatalf("ktsnd goes on; its log: %s", daemon.Stderr())
	}
	if log := daemon.Stderr(); daemon.Ended() == nil || !strings.Contains(log, "phys0: was removed and created again; ktsnd ends, and must be started again") {
		t.Errorf("%v; its log: %s", daemon.Ended(), log)
	}
	lab.a.startDaemon(t)
}
