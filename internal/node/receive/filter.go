// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The position of our filter at the uplink: after all others, so that frames that they drop stay dropped. The kernel assigns
// 49152 and less to filters without a priority.
const (
	filterPriority = 64000
	filterHandle   = 1
)

// Attached is the result of Attach.
type Attached struct {
	// Replaced: another program of ours was attached before.
	Replaced bool
	// Emptied: its maps were another release's and were replaced too. The caller must add peers and pods again, and sockets
	// have lost their rings.
	Emptied bool
}

// Attach attaches the program to the ingress of an uplink. The maps are in the node's folder in dir, which several nodes can
// share; Ensure, Open and Detach take the same dir. An existing program is replaced atomically; maps that both releases have
// are kept.
func Attach(dir, uplink string) (Attached, error) {
	return attach(dir, uplink, false)
}

// Ensure calls Attach unless the uplink has the program of this release.
func Ensure(dir, uplink string) (Attached, error) {
	return attach(dir, uplink, true)
}

func attach(dir, uplink string, unlessThere bool) (done Attached, err error) {
	text, err := compiled()
	if err != nil {
		return done, err
	}
	link, err := uplinkOf(uplink)
	if err != nil {
		return done, err
	}
	if dir, err = NodeDir(dir); err != nil {
		return done, err
	}
	unlock, err := makeAndLock(dir)
	if err != nil {
		return done, fmt.Errorf("take datagrams at %s into receive rings: %w", uplink, err)
	}
	defer unlock()
	former, err := find(link)
	if err != nil {
		return done, err
	}
	done.Replaced = former != nil
	if unlessThere && done.Replaced && former.Name == filterName(text) && complete(dir) {
		return done, nil
	}
	err = attachLocked(text, dir, link, former)
	if errors.Is(err, ErrOtherRelease) {
		done.Emptied = true
		err = replaceMaps(text, dir, link)
	}
	if err != nil {
		return done, fmt.Errorf("take datagrams at %s into receive rings: %w", uplink, err)
	}
	return done, nil
}

// replaceMaps creates new maps for this uplink and all uplinks that have the program. If that fails, it detaches the program
// from all uplinks: with unreachable maps the program would keep trusting removed peers.
func replaceMaps(text []byte, dir string, link netlink.Link) error {
	uplinks, err := Uplinks()
	if err != nil {
		return err
	}
	err = makeFolder(dir)
	if err = errors.Join(err, unpin(dir)); err == nil {
		err = attachLocked(text, dir, link, nil)
	}
	for _, uplink := range uplinks {
		if uplink.Name == link.Attrs().Name {
			continue
		}
		other, errOther := netlink.LinkByName(uplink.Name)
		if err == nil && errOther == nil {
			errOther = attachLocked(text, dir, other, nil)
		}
		err = errors.Join(err, errOther)
	}
	if err == nil {
		return nil
	}
	for _, uplink := range uplinks {
		err = errors.Join(err, detach(dir, uplink.Name))
	}
	return err
}

// attachLocked attaches the program; the folder is locked. When it fails, it removes the pins that it created unless a program uses them.
func attachLocked(text []byte, dir string, link netlink.Link, former *netlink.BpfFilter) (err error) {
	fresh := !complete(dir)
	defer func() {
		if err != nil && fresh && former == nil {
			err = errors.Join(err, removeFolder(dir))
		}
	}()
	loaded, err := load(text, dir)
	if err != nil {
		return err
	}
	// The filter holds the program, and the folder the maps.
	defer loaded.Close()
	if err := pin(loaded.Programs[kernelProgram], filepath.Join(dir, kernelProgram)); err != nil {
		return err
	}
	if err := addQdisc(dir, link); err != nil {
		return err
	}
	if err := netlink.FilterReplace(filterOf(link, filterName(text), loaded.Programs[receiveProgram])); err != nil {
		return errors.Join(fmt.Errorf("add the filter: %w", explain(err, "cls_bpf")), removeQdisc(dir, link))
	}
	return nil
}

// complete reports whether the program and all maps are pinned.
func complete(dir string) bool {
	for _, name := range append([]string{kernelProgram}, mapNames...) {
		if !exists(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

// uplinkOf returns the interface, which must carry Ethernet frames.
func uplinkOf(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, fmt.Errorf("uplink %s: there is no such interface; name the one towards the other nodes", name)
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", name, err)
	}
	if link.Attrs().EncapType != "ether" {
		return nil, fmt.Errorf("uplink %s: it carries no Ethernet frames (%s); receive rings need an uplink that does", name, link.Attrs().EncapType)
	}
	return link, nil
}

func filterOf(link netlink.Link, name string, program *ebpf.Program) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: filterHandle, Priority: filterPriority,
			Protocol: unix.ETH_P_ALL,
		},
		Fd: program.FD(), Name: name, DirectAction: true,
	}
}

func classAct(link netlink.Link) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// explain names the part of the kernel that is missing.
func explain(err error, part string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w: the kernel has no %s", err, part)
	}
	return err
}

// find returns our filter, nil if there is none.
func find(link netlink.Link) (*netlink.BpfFilter, error) {
	all, err := filtersOf(link, netlink.HANDLE_MIN_INGRESS)
	if err != nil {
		return nil, err
	}
	for _, filter := range all {
		program, ok := filter.(*netlink.BpfFilter)
		if ok && (program.Name == receiveProgram || strings.HasPrefix(program.Name, receiveProgram+":")) {
			return program, nil
		}
	}
	return nil, nil
}

func filtersOf(link netlink.Link, parent uint32) ([]netlink.Filter, error) {
	all, err := netlink.FilterList(link, parent)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil, nil // no clsact, or no interface any more
	}
	if err != nil {
		return nil, fmt.Errorf("list the filters of %s: %w", link.Attrs().Name, err)
	}
	return all, nil
}

// IsAttached reports whether an interface has the program of any release.
func IsAttached(uplink string) (bool, error) {
	link, err := netlink.LinkByName(uplink)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", uplink, err)
	}
	ours, err := find(link)
	return ours != nil, err
}

// Uplink is an interface that has the program.
type Uplink struct {
	Name string `json:"name"`
	// Current: the program is this release's.
	Current bool `json:"current"`
	// Others is the number of other filters and tcx programs at the uplink. They run first; a frame that one of them consumes
	// does not reach receive rings.
	Others int `json:"otherFilters"`
}

// Uplinks lists the interfaces that have the program.
func Uplinks() ([]Uplink, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	text, errBuilt := compiled()
	all := []Uplink{}
	for _, link := range links {
		ours, err := find(link)
		if err != nil {
			return nil, err
		}
		if ours == nil {
			continue
		}
		filters, err := filtersOf(link, netlink.HANDLE_MIN_INGRESS)
		if err != nil {
			return nil, err
		}
		tcx, err := tcxOf(link)
		if err != nil {
			return nil, err
		}
		all = append(all, Uplink{link.Attrs().Name, errBuilt == nil && ours.Name == filterName(text), max(0, len(filters)-1) + tcx})
	}
	return all, nil
}

// tcxOf counts the tcx programs, which run before all filters (Linux 6.6 and later).
func tcxOf(link netlink.Link) (int, error) {
	result, err := bpflink.QueryPrograms(bpflink.QueryOptions{Target: link.Attrs().Index, Attach: ebpf.AttachTCXIngress})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("count the programs at %s: %w", link.Attrs().Name, err)
	}
	return len(result.Programs), nil
}

// Detach removes the program from all uplinks of this network namespace, and everything that this node has pinned. Afterwards
// datagrams take the kernel's path; records in rings stay. It returns the uplinks that had the program.
func Detach(dir string) ([]Uplink, error) {
	dir, err := NodeDir(dir)
	if err != nil {
		return nil, err
	}
	uplinks, err := Uplinks()
	if err != nil {
		return nil, err
	}
	var all error
	for _, uplink := range uplinks {
		all = errors.Join(all, detach(dir, uplink.Name))
	}
	if all != nil {
		return uplinks, all
	}
	unlock, err := lock(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return uplinks, nil
	}
	if err != nil {
		return uplinks, err
	}
	// The lock holds a file open, which would keep the filesystem from being unmounted.
	if err := removeFolder(dir); err != nil {
		unlock()
		return uplinks, err
	}
	unlock()
	return uplinks, unmount(dir)
}

func detach(dir, uplink string) error {
	link, err := netlink.LinkByName(uplink)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", uplink, err)
	}
	ours, err := find(link)
	if err != nil || ours == nil {
		return err
	}
	if err := netlink.FilterDel(ours); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the filter of %s: %w", uplink, err)
	}
	return removeQdisc(dir, link)
}

// addQdisc adds clsact if it is missing, and then notes in the node's folder that it is ours.
func addQdisc(dir string, link netlink.Link) error {
	err := netlink.QdiscAdd(classAct(link))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add the queueing discipline clsact: %w", explain(err, "sch_ingress"))
	}
	// A BPF filesystem takes folders, but no files.
	if err := os.Mkdir(qdiscNote(dir, link), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.Join(fmt.Errorf("note that clsact is ours: %w", err), netlink.QdiscDel(classAct(link)))
	}
	return nil
}

func qdiscNote(dir string, link netlink.Link) string {
	return filepath.Join(dir, qdiscNotes+strconv.Itoa(link.Attrs().Index))
}

// removeQdisc removes a clsact that addQdisc added, if it has no filter left. Another program's clsact stays even when it is
// empty: its owner may be about to add a filter.
func removeQdisc(dir string, link netlink.Link) error {
	note := qdiscNote(dir, link)
	if !exists(note) {
		return nil
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		left, err := filtersOf(link, parent)
		if err != nil || len(left) > 0 {
			return err
		}
	}
	err := netlink.QdiscDel(classAct(link))
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("remove the queueing discipline clsact of %s: %w", link.Attrs().Name, err)
	}
	return os.Remove(note)
}
