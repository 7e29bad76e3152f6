// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const firstCard, secondCard = "0000:01:00.0", "0000:02:00.0"

// IOMMU groups of both cards.
var apart, together = [2]string{"1", "2"}, [2]string{"1", "1"}

// busOfCards shows both cards, each with an interface that this machine has, in these IOMMU groups. It is of plain files, and what
// a program called modprobe does is the kernel's part.
func busOfCards(t *testing.T, groups [2]string, modprobe string) *passthrough.Bus {
	t.Helper()
	dir := t.TempDir()
	bus := &passthrough.Bus{Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), StateDir: filepath.Join(dir, "state"),
		Uses: func(string) ([]string, error) { return nil, nil }}
	for address, group := range map[string]string{firstCard: groups[0], secondCard: groups[1]} {
		folder := filepath.Join(bus.Sys, "bus/pci/devices", address)
		groupFolder := filepath.Join(bus.Sys, "kernel/iommu_groups", group)
		all := errors.Join(os.MkdirAll(filepath.Join(folder, "net/lo"), 0o755), os.MkdirAll(filepath.Join(groupFolder, "devices", address), 0o755),
			os.Symlink(groupFolder, filepath.Join(folder, "iommu_group")), os.Symlink("/drivers/igb", filepath.Join(folder, "driver")))
		for name, content := range map[string]string{"vendor": "0x8086", "device": "0x10c9", "class": "0x020000", "driver_override": ""} {
			all = errors.Join(all, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
		}
		if all != nil {
			t.Fatal(all)
		}
	}
	programs := filepath.Join(dir, "bin")
	script := "#!/bin/sh\ncd " + filepath.Join(bus.Sys, "bus/pci/devices") + " || exit\n" + modprobe + "\n"
	testlab.Must(t, errors.Join(os.MkdirAll(programs, 0o755), os.WriteFile(filepath.Join(programs, "modprobe"), []byte(script), 0o755)))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	before := nodeBus
	nodeBus = func() *passthrough.Bus { return bus }
	t.Cleanup(func() { nodeBus = before })
	return bus
}

// giveTo gives a card to another driver.
func giveTo(t *testing.T, bus *passthrough.Bus, address, driver string) {
	t.Helper()
	link := filepath.Join(bus.Sys, "bus/pci/devices", address, "driver")
	testlab.Must(t, errors.Join(os.Remove(link), os.Symlink("/drivers/"+driver, link)))
}

// addingCards is an ADD to a network with both cards that has remembered the attachment.
func addingCards(t *testing.T) *adding {
	t.Helper()
	s := &Spec{
		Record: Record{Device: device.Device{Kind: device.VFIO}, Attachment: overlay.Attachment{Network: "tsn", ContainerID: "c", Interface: "tsn0", Identity: "uid"}},
		Cards:  []string{firstCard, secondCard},
	}
	return &adding{Spec: s, store: recordStore{t.TempDir()}}
}

func TestTakeCardStopsAtStuckCard(t *testing.T) {
	// It is bound, and then something fails; and somebody has the group open.
	bus := busOfCards(t, apart, "ln -sfn /drivers/vfio-pci "+firstCard+"/driver; exit 1")
	if err := os.MkdirAll(filepath.Join(bus.Dev, "vfio/1"), 0o755); err != nil { // no file that could be opened
		t.Fatal(err)
	}
	a, freed := addingCards(t), false
	a.undo = []func() error{a.unlessCard(func() error { return a.store.remove(&a.Attachment) }), a.unlessCard(func() error { freed = true; return nil })}
	_, err := a.takeCard(t.Context())
	if err == nil || !strings.Contains(err.Error(), firstCard+": load vfio-pci") || strings.Contains(err.Error(), secondCard) {
		t.Errorf("it says %v", err)
	}
	for _, undo := range slices.Backward(a.undo) {
		_ = undo() // which fails, as before
	}
	record := a.store.read(&a.Attachment)
	if record == nil || record.Device.Card != firstCard || bus.Claimed(firstCard) != record.owner() || bus.Claimed(secondCard) != "" || freed {
		t.Errorf("DEL finds %+v; cards belong to %v; the address was freed: %v", record, bus.Claims(), freed)
	}
}

func TestTakeCardUndo(t *testing.T) {
	bus := busOfCards(t, apart, "exit 1")
	a, freed := addingCards(t), false
	a.undo = []func() error{a.unlessCard(func() error { return a.store.remove(&a.Attachment) }), a.unlessCard(func() error { freed = true; return nil })}
	_, err := a.takeCard(t.Context())
	if err == nil || !strings.Contains(err.Error(), secondCard+": load vfio-pci") {
		t.Errorf("it says %v", err)
	}
	for _, undo := range slices.Backward(a.undo) {
		if err := undo(); err != nil {
			t.Error(err)
		}
	}
	if record := a.store.read(&a.Attachment); record != nil || len(bus.Claims()) > 0 || !freed {
		t.Errorf("left are %+v and %v; the address was freed: %v", record, bus.Claims(), freed)
	}
}

func TestTakeCardGroupTaken(t *testing.T) {
	bus := busOfCards(t, together, "exit 1")
	if _, err := bus.Claim(firstCard, "tsn:other:tsn0:uid"); err != nil {
		t.Fatal(err)
	}
	giveTo(t, bus, firstCard, passthrough.VFIO)
	a := addingCards(t)
	_, err := a.takeCard(t.Context())
	if want := secondCard + ": of IOMMU group 1 others were given away: " + firstCard + " (of tsn:other:tsn0:uid)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it says %v, want %q", err, want)
	}
	if a.store.read(&a.Attachment) != nil || bus.Claimed(secondCard) != "" {
		t.Error("something was changed before it was refused")
	}
}

func TestClaimCardRace(t *testing.T) {
	bus := busOfCards(t, together, "exit 1")
	giveTo(t, bus, secondCard, "pci-stub")
	a := addingCards(t)
	card, err := canTake(bus, firstCard)
	testlab.Must(t, err)
	if _, err := bus.Claim(secondCard, "tsn:other:tsn0:uid"); err != nil {
		t.Fatal(err)
	}
	if err := a.claimCard(bus, card); err == nil || bus.Claimed(firstCard) != "" {
		t.Errorf("it says %v, and the card is of %q", err, bus.Claimed(firstCard))
	}
}

func TestClaimCardError(t *testing.T) {
	bus := busOfCards(t, apart, "exit 1")
	if err := os.WriteFile(bus.StateDir, nil, 0o644); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	_, err := addingCards(t).takeCard(t.Context())
	if err == nil || strings.Contains(err.Error(), "belongs to") || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("it says %v", err)
	}
}

// bindAsWritten has the bus of plain files move cards between drivers as a kernel does: a card goes to the driver of its driver_override,
// or back to igb. It moves the card when it is unbound, because the next write then waits until that is done.
func bindAsWritten(t *testing.T, bus *passthrough.Bus) {
	t.Helper()
	drivers, probe, unbind := filepath.Join(bus.Sys, "bus/pci/drivers"), filepath.Join(bus.Sys, "bus/pci/drivers_probe"), filepath.Join(bus.Sys, "unbind")
	testlab.Must(t, errors.Join(unix.Mkfifo(probe, 0o600), unix.Mkfifo(unbind, 0o600)))
	for _, driver := range []string{"igb", passthrough.VFIO} {
		folder := filepath.Join(drivers, driver)
		testlab.Must(t, errors.Join(os.MkdirAll(folder, 0o755), os.Symlink(unbind, filepath.Join(folder, "unbind"))))
	}
	move := func(address, driver string) error {
		link := filepath.Join(bus.Sys, "bus/pci/devices", address, "driver")
		return errors.Join(os.Remove(link), os.Symlink(filepath.Join(drivers, driver), link))
	}
	testlab.Must(t, move(firstCard, "igb"))
	ended := make(chan error, 1)
	go func() {
		for {
			address, err := os.ReadFile(unbind)
			if err != nil || len(address) == 0 {
				ended <- err
				return
			}
			override, err := os.ReadFile(filepath.Join(bus.Sys, "bus/pci/devices", string(address), "driver_override"))
			driver := passthrough.VFIO
			if !strings.HasPrefix(string(override), driver) {
				driver = "igb"
			}
			err = errors.Join(err, move(string(address), driver))
			if _, errProbe := os.ReadFile(probe); err != nil || errProbe != nil {
				ended <- errors.Join(err, errProbe)
				return
			}
		}
	}()
	t.Cleanup(func() { // it may wait at either file, or have ended
		for {
			for _, path := range []string{probe, unbind} {
				file, err := os.OpenFile(path, os.O_RDWR, 0) // for writing alone it would wait for a reader
				testlab.Must(t, errors.Join(err, file.Close()))
			}
			select {
			case err := <-ended:
				testlab.Must(t, err)
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}

func TestAttachCardUndo(t *testing.T) {
	pod := topology.NewTestNamespace(t, "card")
	netns, err := ns.GetNS(pod.Path())
	testlab.Must(t, err)
	defer netns.Close()
	for name, test := range map[string]struct {
		late, noFolder bool
		want           string
	}{
		"Kata's file cannot be written": {noFolder: true, want: "not a directory"},
		"the runtime gave up":           {late: true, want: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			bus := busOfCards(t, apart, "exit 1")
			bindAsWritten(t, bus)
			a, freed := addingCards(t), false
			a.netns, a.Device.DAN = netns, filepath.Join(t.TempDir(), "dans")
			if test.noFolder {
				testlab.Must(t, os.WriteFile(a.Device.DAN, nil, 0o644))
			}
			a.undo = []func() error{a.unlessCard(func() error { return a.store.remove(&a.Attachment) }), a.unlessCard(func() error { freed = true; return nil })}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.late {
				cancel()
			}
			if _, err := a.attachCard(ctx, &current.Result{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("it says %v", err)
			}
			if driver := driverOf(t, bus, firstCard); driver != passthrough.VFIO {
				t.Fatalf("it failed early: the driver is %q", driver)
			}
			for _, undo := range slices.Backward(a.undo) {
				testlab.Must(t, undo())
			}
			override, err := os.ReadFile(filepath.Join(bus.Sys, "bus/pci/devices", firstCard, "driver_override"))
			testlab.Must(t, err)
			if driver := driverOf(t, bus, firstCard); driver != "igb" || !strings.HasPrefix(string(override), "\n") {
				t.Errorf("the card has the driver %q, and its override is %q", driver, override)
			}
			left, err := os.ReadDir(bus.StateDir)
			testlab.Must(t, err)
			files, _ := filepath.Glob(filepath.Join(a.Device.DAN, "*"))
			if record := a.store.read(&a.Attachment); record != nil || len(left)+len(files) > 0 || !freed {
				t.Errorf("left are the record %+v, notes %v and %v; the address was freed: %v", record, left, files, freed)
			}
		})
	}
}

func driverOf(t *testing.T, bus *passthrough.Bus, address string) string {
	t.Helper()
	card, err := bus.Read(address)
	testlab.Must(t, err)
	return card.Driver
}
