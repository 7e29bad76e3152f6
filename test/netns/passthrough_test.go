// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// The machine, which test/vm emulates, has two cards of this kind on one wire, and an IOMMU.
const (
	cardVendor  = 0x8086
	cardProduct = 0x10c9
	cardDriver  = "igb"
)

// cards returns the card for ktsnd and the other end of its wire.
func cards(t *testing.T) (card, wire *passthrough.Device) {
	t.Helper()
	if output, err := exec.Command("modprobe", cardDriver).CombinedOutput(); err != nil {
		t.Fatalf("modprobe %s: %v: %s", cardDriver, err, output)
	}
	bus := passthrough.NewBus()
	entries, err := os.ReadDir("/sys/bus/pci/devices")
	must(t, err)
	var devices []*passthrough.Device
	for _, entry := range entries {
		device, err := bus.Read(entry.Name())
		must(t, err)
		if device.Vendor == cardVendor && device.Product == cardProduct {
			devices = append(devices, device)
		}
	}
	if len(devices) != 2 || len(devices[0].Interfaces) != 1 || len(devices[1].Interfaces) != 1 {
		t.Fatalf("the machine has the cards %+v", devices)
	}
	return devices[0], devices[1]
}

// runPassthrough runs `ktsn vm passthrough`.
func runPassthrough(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.Command(program(t, "ktsn"), append([]string{"vm", "passthrough"}, arguments...)...)
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(output), err
}

func cardRefused(t *testing.T, part string, arguments ...string) {
	t.Helper()
	if output, err := runPassthrough(t, arguments...); err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("ktsn vm passthrough %q reports %q, %v, want %q", arguments, output, err, part)
	}
}

func cardDone(t *testing.T, part string, arguments ...string) {
	t.Helper()
	if output, err := runPassthrough(t, arguments...); err != nil || !strings.Contains(output, part) {
		t.Fatalf("ktsn vm passthrough %q reports %q, %v, want %q", arguments, output, err, part)
	}
}

func driverOf(address string) string {
	to, err := os.Readlink(filepath.Join("/sys/bus/pci/devices", address, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// TestCardIsBoundToVFIOAndBack runs subtests in order, since each needs the previous one.
func TestCardIsBoundToVFIOAndBack(t *testing.T) {
	card, wire := cards(t)
	t.Run("rejected while the node has an address on it", func(t *testing.T) {
		link, err := netlink.LinkByName(card.Interfaces[0])
		must(t, err)
		address, err := netlink.ParseAddr("192.0.2.77/24")
		must(t, err)
		must(t, netlink.AddrAdd(link, address))
		cardRefused(t, "192.0.2.77/24", "check", card.Address)
		cardRefused(t, "192.0.2.77/24", "bind", card.Address)
		if got := driverOf(card.Address); got != cardDriver {
			t.Errorf("the driver is %q", got)
		}
		must(t, netlink.AddrDel(link, address))
	})
	t.Run("taken", func(t *testing.T) {
		cardDone(t, "driver          "+cardDriver, "check", card.Address)
		cardDone(t, "--device "+card.Address, "bind", strings.TrimPrefix(card.Address, "0000:"))
		cardDone(t, "--device "+card.Address, "bind", card.Address)
		if got := driverOf(card.Address); got != passthrough.VFIO {
			t.Errorf("the driver is %q", got)
		}
	})
	t.Run("sending frames of a pod", func(t *testing.T) { sendByCard(t, card, wire) })
	t.Run("given back", func(t *testing.T) {
		cardDone(t, "belongs to "+cardDriver+" again", "unbind", card.Address)
		cardDone(t, "belongs to "+cardDriver+" again", "unbind", card.Address)
		if got := driverOf(card.Address); got != cardDriver {
			t.Errorf("the driver is %q", got)
		}
		if override, err := os.ReadFile(filepath.Join("/sys/bus/pci/devices", card.Address, "driver_override")); err != nil ||
			!slices.Contains([]string{"", "(null)"}, strings.TrimSpace(string(override))) {
			t.Errorf("the override stays: %q, %v", override, err)
		}
		if left, err := os.ReadDir(passthrough.NewBus().StateDir); err != nil || len(left) > 0 {
			t.Errorf("notes stay: %v, %v", left, err)
		}
		checkCarries(t, passthrough.NewBus(), card.Address, wire)
	})
}

// sendByCard sends messages of a pod of node a with ktsnd over the card. The frames from the wire's other end are
// redirected to node b's interface as if they came over the nodes' link.
func sendByCard(t *testing.T, card, wire *passthrough.Device) {
	lab := newLab(t)
	nodeB, err := os.Open(lab.NodeB.Path())
	must(t, err)
	defer nodeB.Close()
	link, err := netlink.LinkByName(wire.Interfaces[0])
	must(t, err)
	must(t, netlink.LinkSetNsFd(link, int(nodeB.Fd())))
	must(t, lab.NodeB.Do(func() error { return redirect(wire.Interfaces[0], topology.PhysicalInterface) }))
	if _, err := lab.ReserveHugepages(128); err != nil {
		t.Fatal(err)
	}
	daemon, client := lab.startDaemon(t, "--device", card.Address)
	awaitLinkUp(t, lab.NodeB, wire.Interfaces[0])
	const count = 200
	seen := lab.run(t, traffic{count: count, payloadBytes: 64, environment: lab.preloaded(t), talkerOptions: []string{"--cycle", "20ms", "--lead", "10ms"}})
	if len(seen.received) != count {
		t.Errorf("%d of %d messages arrived; ktsnd reports %s", len(seen.received), count, daemon.Stderr())
	}
	for _, message := range seen.received {
		if message.Arrival < message.Txtime {
			t.Errorf("message %d arrived %v early", message.Sequence, time.Duration(message.Txtime-message.Arrival))
		}
	}
	status, err := client.Status(t.Context())
	if err != nil || status.Counters.Sent != count {
		t.Errorf("ktsnd has sent %+v, %v", status, err)
	}
	cardRefused(t, "is in use", "unbind", card.Address)
	if err := daemon.Stop(patience); err != nil {
		t.Error(err)
	}
	must(t, lab.NodeB.Do(func() error { return bringBack(wire.Interfaces[0]) }))
}

// redirect redirects all frames of one interface to another, addressed to this host.
func redirect(from, to string) error {
	link, err := netlink.LinkByName(from)
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetUp(link), netlink.SetPromiscOn(link)); err != nil {
		return err
	}
	for _, arguments := range [][]string{
		{"qdisc", "add", "dev", from, "ingress"},
		{"filter", "add", "dev", from, "ingress", "matchall", "action", "skbedit", "ptype", "host", "pipe", "action", "mirred", "ingress", "redirect", "dev", to},
	} {
		if output, err := exec.Command("tc", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("tc %s: %w: %s", strings.Join(arguments, " "), err, output)
		}
	}
	return nil
}

// awaitLinkUp waits until the link is up.
func awaitLinkUp(t *testing.T, namespace *topology.Namespace, name string) {
	t.Helper()
	testlab.Eventually(t, patience, 100*time.Millisecond, func() error {
		var up bool
		must(t, namespace.Do(func() error {
			link, err := netlink.LinkByName(name)
			up = err == nil && link.Attrs().OperState == netlink.OperUp
			return err
		}))
		if up {
			return nil
		}
		return fmt.Errorf("the link of %s does not come up", name)
	})
}

// bringBack moves the interface to the first process's namespace.
func bringBack(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetNsPid(link, 1)
}

// checkCarries sends a frame over the card after its return to the kernel.
func checkCarries(t *testing.T, bus *passthrough.Bus, address string, wire *passthrough.Device) {
	t.Helper()
	card, err := bus.Read(address)
	if err != nil || len(card.Interfaces) != 1 {
		t.Fatalf("the card has no interface: %+v, %v", card, err)
	}
	var sockets []int
	for _, name := range []string{card.Interfaces[0], wire.Interfaces[0]} {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		must(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must(t, err)
		defer unix.Close(fd)
		must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Protocol: 0xb588})) // 0x88b5 in network order
		sockets = append(sockets, fd)
	}
	frame := slices.Concat(bytes.Repeat([]byte{0xff}, 6), []byte{2, 0, 0, 0, 0, 1}, []byte{0x88, 0xb5}, bytes.Repeat([]byte{7}, 50))
	got := make([]byte, 100)
	testlab.Eventually(t, patience, 100*time.Millisecond, func() error {
		// The link takes a while to come up.
		_, _ = unix.Write(sockets[0], frame)
		if n, err := unix.Read(sockets[1], got); err == nil && bytes.Equal(got[:n], frame) {
			return nil
		}
		return errors.New("no frame passes by the card that was given back")
	})
}

// guestKernel is the variable with the folder of scripts/guest-kernel.sh.
const guestKernel = "KTSN_GUEST_KERNEL"

func TestGuestKernelConfiguration(t *testing.T) {
	var name unix.Utsname
	must(t, unix.Uname(&name))
	config := filepath.Join(os.Getenv(guestKernel), "kernel", "boot", "config-"+unix.ByteSliceToString(name.Release[:]))
	output, err := exec.Command(program(t, "ktsn-guest"), "kernel", "check", "--for", "held,released,clock,card", "--config", config).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "the kernel has all options for held, released, clock, card") {
		t.Errorf("%v: %s", err, output)
	}
}
