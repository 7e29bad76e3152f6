// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// place is where our program, of any release, is at an uplink. A process that was killed while it moved the program leaves it at both
// places, which is harmless: the first takes the datagrams.
type place struct {
	// filter of clsact; nil: none.
	filter *netlink.BpfFilter
	// tcx is the program that is attached by tcx; 0: none. It is attached without a link, so that it stays as long as the uplink, like
	// a filter.
	tcx     ebpf.ProgramID
	tcxName string
	// before are the tcx programs of others that get frames first.
	before []ebpf.ProgramID
}

func (p *place) exists() bool { return p.filter != nil || p.tcx != 0 }

// isReached reports whether the program gets frames although others have tcx programs.
func (p *place) isReached() bool { return p.tcx != 0 || len(p.before) == 0 }

// isCurrent reports whether the program is this release's.
func (p *place) isCurrent(text []byte) bool {
	if p.tcx != 0 {
		return p.tcxName == tcxName(text) && p.filter == nil
	}
	return p.filter != nil && p.filter.Name == filterName(text)
}

// tcxPin is where the program of an uplink is pinned that is attached by tcx. Detach may run without the privilege to open a program by
// its number.
func tcxPin(dir string, link netlink.Link) string {
	return filepath.Join(dir, tcxPins+strconv.Itoa(link.Attrs().Index))
}

// find finds our program at an uplink. With the node's folder it needs no privilege to look at programs of others.
func find(dir string, link netlink.Link) (at place, err error) {
	at.filter, err = netdev.FindFilter(netdev.Here, link, netdev.Ingress, func(name string) bool {
		return name == receiveProgram || strings.HasPrefix(name, receiveProgram+":")
	})
	if err != nil {
		return at, err
	}
	programs, err := netdev.TCXPrograms(link, netdev.Ingress)
	if len(programs) == 0 {
		return at, err
	}
	pinned, pinnedName := describe(ebpf.LoadPinnedProgram(tcxPin(dir, link), nil))
	for _, id := range programs {
		name := programName(id)
		if pinnedName != "" && id == pinned {
			name = pinnedName
		}
		if strings.HasPrefix(name, tcxProgram) {
			at.tcx, at.tcxName = id, name
			break
		}
		at.before = append(at.before, id)
	}
	return at, err
}

// ProgramsBefore names the tcx programs of others that get frames of an interface before our program; none if the interface does not have
// our program.
func ProgramsBefore(link netlink.Link) (names []string, err error) {
	ours, err := find("", link)
	if err != nil || !ours.exists() {
		return nil, err
	}
	for _, id := range ours.before {
		names = append(names, programName(id))
	}
	return names, nil
}

func programName(id ebpf.ProgramID) string {
	if _, name := describe(ebpf.NewProgramFromID(id)); name != "" {
		return name
	}
	return fmt.Sprintf("program %d", id)
}

// describe closes a program. The name is empty for a program that could not be opened.
func describe(program *ebpf.Program, err error) (id ebpf.ProgramID, name string) {
	if err != nil {
		return 0, ""
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return 0, ""
	}
	id, _ = info.ID()
	return id, info.Name
}

// replaceFirst attaches the program as the first tcx program, and removes the former filter or tcx program. A tcx program keeps its place
// only while it is replaced, so a former one that is not the first goes before: others get its frames first anyway.
func (p *place) replaceFirst(dir string, link netlink.Link, program *ebpf.Program) error {
	anchor := bpflink.Head()
	switch {
	case len(p.before) > 0:
		if err := p.removeTCX(dir, link); err != nil {
			return err
		}
	case p.tcx != 0:
		former, err := ebpf.NewProgramFromID(p.tcx)
		if err != nil {
			return fmt.Errorf("open the former program of %s: %w", link.Attrs().Name, err)
		}
		defer former.Close()
		anchor = bpflink.ReplaceProgram(former)
	}
	err := bpflink.RawAttachProgram(bpflink.RawAttachProgramOptions{
		Target: link.Attrs().Index, Program: program, Attach: ebpf.AttachTCXIngress, Anchor: anchor,
	})
	if err != nil {
		return fmt.Errorf("attach the program to %s before the tcx programs of others: %w", link.Attrs().Name, err)
	}
	return errors.Join(pin(program, tcxPin(dir, link)), p.removeFilter(dir, link))
}

// KeepReached moves this release's program to the front at uplinks where others have added tcx programs since. It returns their names.
func KeepReached(dir string) (moved []string, all error) {
	text, err := compiled()
	if err != nil {
		return nil, nil //nolint:nilerr // then there is no program of this release
	}
	uplinks, err := usedUplinks(dir)
	if err != nil {
		return nil, err
	}
	for _, index := range uplinks {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			continue // it is gone
		}
		ours, err := find("", link)
		if err == nil && ours.isCurrent(text) && !ours.isReached() {
			if _, err = Ensure(dir, link.Attrs().Name); err == nil {
				moved = append(moved, link.Attrs().Name)
			}
		}
		all = errors.Join(all, err)
	}
	return moved, all
}

// usedUplinks returns the interface indexes of the uplinks of pods that the program knows.
func usedUplinks(dir string) (uplinks []int, err error) {
	maps, err := Open(dir)
	if errors.Is(err, ErrAbsent) || errors.Is(err, ErrOtherRelease) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	endpoints, err := maps.Endpoints()
	for i := range endpoints {
		if !slices.Contains(uplinks, endpoints[i].Uplink) {
			uplinks = append(uplinks, endpoints[i].Uplink)
		}
	}
	return uplinks, err
}

func (p *place) removeTCX(dir string, link netlink.Link) error {
	if p.tcx == 0 {
		return nil
	}
	program, err := ebpf.NewProgramFromID(p.tcx)
	if errors.Is(err, unix.EPERM) {
		program, err = ebpf.LoadPinnedProgram(tcxPin(dir, link), nil)
	}
	if err == nil {
		defer program.Close()
		err = bpflink.RawDetachProgram(bpflink.RawDetachProgramOptions{
			Target: link.Attrs().Index, Program: program, Attach: ebpf.AttachTCXIngress,
		})
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the tcx program of %s: %w", link.Attrs().Name, err)
	}
	if err := os.Remove(tcxPin(dir, link)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unpin the program: %w", err)
	}
	return nil
}

func (p *place) removeFilter(dir string, link netlink.Link) error {
	if p.filter == nil {
		return nil
	}
	if err := netlink.FilterDel(p.filter); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the filter of %s: %w", link.Attrs().Name, err)
	}
	return removeQdisc(dir, link)
}
