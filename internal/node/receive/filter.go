// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// The position of our filter at the uplink: after all others, so that frames that they drop stay dropped. The kernel assigns
// 49152 and less to filters without a priority. Where others have tcx programs, which run before all filters and usually end
// the matter, as Cilium's do, our program is the first tcx program instead (place.go).
const filterPriority = 64000

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
	former, err := find(dir, link)
	if err != nil {
		return done, err
	}
	done.Replaced = former.exists()
	if unlessThere && former.isCurrent(text) && former.isReached() && complete(dir) {
		return done, nil
	}
	err = attachLocked(text, dir, link)
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
	uplinks, err := uplinksOf(dir)
	if err != nil {
		return err
	}
	err = makeFolder(dir)
	if err = errors.Join(err, unpin(dir)); err == nil {
		err = attachLocked(text, dir, link)
	}
	for _, uplink := range uplinks {
		if uplink.Name == link.Attrs().Name {
			continue
		}
		other, errOther := netlink.LinkByName(uplink.Name)
		if err == nil && errOther == nil {
			errOther = attachLocked(text, dir, other)
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
func attachLocked(text []byte, dir string, link netlink.Link) (err error) {
	former, err := find(dir, link)
	if err != nil {
		return err
	}
	fresh := !complete(dir)
	defer func() {
		if err != nil && fresh && !former.exists() {
			err = errors.Join(err, removeFolder(dir))
		}
	}()
	first := former.tcx != 0 || len(former.before) > 0
	loaded, err := load(text, dir, first)
	if err != nil {
		return err
	}
	// The filter holds the program, and the folder the maps.
	defer loaded.Close()
	if err := pin(loaded.Programs[kernelProgram], filepath.Join(dir, kernelProgram)); err != nil {
		return err
	}
	if first {
		return former.replaceFirst(dir, link, loaded.Programs[receiveProgram])
	}
	if err := addQdisc(dir, link); err != nil {
		return err
	}
	filter := netdev.Filter{Side: netdev.Ingress, Priority: filterPriority, Name: filterName(text)}
	if err := filter.Attach(netdev.Here, link, loaded.Programs[receiveProgram]); err != nil {
		return errors.Join(err, removeQdisc(dir, link))
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
	link, err := netdev.Find(name)
	if err != nil {
		return nil, err
	}
	if link == nil {
		return nil, fmt.Errorf("uplink %s: there is no such interface; name the one towards the other nodes", name)
	}
	if link.Attrs().EncapType != "ether" {
		return nil, fmt.Errorf("uplink %s: it carries no Ethernet frames (%s); receive rings need an uplink that does", name, link.Attrs().EncapType)
	}
	return link, nil
}

// IsAttached reports whether an interface has the program of any release, where it gets frames.
func IsAttached(uplink string) (bool, error) {
	link, err := netlink.LinkByName(uplink)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", uplink, err)
	}
	ours, err := find("", link)
	return ours.exists() && ours.isReached(), err
}

// Uplink is an interface that has the program.
type Uplink struct {
	Name string `json:"name"`
	// Current: the program is this release's.
	Current bool `json:"current"`
	// TCX: it is a tcx program, because others have tcx programs. Otherwise it is a filter of clsact.
	TCX bool `json:"tcx"`
	// Others is the number of filters and tcx programs of others that run first. A frame that one of them consumes does not reach
	// receive rings.
	Others int `json:"otherFilters"`
}

// Uplinks lists the interfaces that have the program.
func Uplinks() ([]Uplink, error) { return uplinksOf("") }

func uplinksOf(dir string) ([]Uplink, error) {
	links, err := netdev.Dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	text, errBuilt := compiled()
	all := []Uplink{}
	for _, link := range links {
		ours, err := find(dir, link)
		if err != nil {
			return nil, err
		}
		if !ours.exists() {
			continue
		}
		others := len(ours.before)
		if ours.tcx == 0 {
			filters, err := netdev.Filters(netdev.Here, link, netdev.Ingress)
			if err != nil {
				return nil, err
			}
			others += max(0, len(filters)-1)
		}
		all = append(all, Uplink{link.Attrs().Name, errBuilt == nil && ours.isCurrent(text), ours.tcx != 0, others})
	}
	return all, nil
}

// Detach removes the program from all uplinks of this network namespace, and everything that this node has pinned. Afterwards
// datagrams take the kernel's path; records in rings stay. It returns the uplinks that had the program.
func Detach(dir string) ([]Uplink, error) {
	dir, err := NodeDir(dir)
	if err != nil {
		return nil, err
	}
	uplinks, err := uplinksOf(dir)
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
	link, err := netdev.Find(uplink)
	if err != nil || link == nil {
		return err
	}
	ours, err := find(dir, link)
	if err != nil || !ours.exists() {
		return err
	}
	return errors.Join(ours.removeTCX(dir, link), ours.removeFilter(dir, link))
}

// addQdisc adds clsact if it is missing, and then notes in the node's folder that it is ours.
func addQdisc(dir string, link netlink.Link) error {
	err := netlink.QdiscAdd(netdev.Clsact(link))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add the queueing discipline clsact: %w", netdev.Explain(err, "sch_ingress"))
	}
	// A BPF filesystem takes folders, but no files.
	if err := os.Mkdir(qdiscNote(dir, link), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.Join(fmt.Errorf("note that clsact is ours: %w", err), netlink.QdiscDel(netdev.Clsact(link)))
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
	if removed, err := netdev.RemoveEmptyClsact(link); err != nil || !removed {
		return err
	}
	return os.Remove(note)
}
