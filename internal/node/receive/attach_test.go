// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestDetachLeavesNothing(t *testing.T) {
	dir, node := folder(t), nodeWithUplink(t)
	nodeDir := ofNode(t, node, dir)
	do(t, node, func() error {
		if _, err := Open(dir); !errors.Is(err, ErrAbsent) {
			t.Errorf("before, opening said %v", err)
		}
		if _, err := Attach(dir, uplinkName); err != nil {
			return err
		}
		if got, want := entriesOf(t, nodeDir), append(slices.Clone(mapNames), kernelProgram, "the note of clsact"); len(got) != len(want) {
			t.Errorf("the pins are %v, want %v", got, want)
		}
		uplinks, err := Detach(dir)
		if err != nil {
			return err
		}
		if len(uplinks) != 1 || uplinks[0] != (Uplink{uplinkName, true, false, 0}) {
			t.Errorf("it was taken from %+v", uplinks)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("stat of the folder returns %v", err)
		}
		if names := qdiscs(t); slices.Contains(names, "clsact") {
			t.Errorf("the uplink still has %v", names)
		}
		again, err := Detach(dir)
		if len(again) != 0 {
			t.Errorf("the second time it was taken from %+v", again)
		}
		return err
	})
}

// TestMount runs in a thread with its own mount and network namespaces, which ends with the test.
func TestMount(t *testing.T) {
	nodeWithUplink(t) // skips the test where it cannot be created
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends
		failed <- mountedAndUnmounted(t)
	}()
	testlab.Must(t, <-failed)
}

func mountedAndUnmounted(t *testing.T) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for isBPF(bpffs) {
		if err := unix.Unmount(bpffs, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = uplinkName
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "wire"}); err != nil {
		return err
	}
	if _, err := Attach(DefaultDir, uplinkName); err == nil || !strings.Contains(err.Error(), "is in no BPF filesystem; mount one by") {
		t.Errorf("without one it said %v", err)
	}
	first, errFirst := Mount()
	second, errSecond := Mount()
	if !first || second || !isBPF(bpffs) {
		t.Errorf("it said %v and %v", first, second)
	}
	if _, err := Attach(DefaultDir, uplinkName); err != nil {
		t.Error(err)
	}
	_, errDetach := Detach(DefaultDir)
	if isBPF(bpffs) {
		t.Error("it is still mounted")
	}
	return errors.Join(errFirst, errSecond, errDetach)
}

func TestForeignFilterStaysFirst(t *testing.T) {
	dir, node := folder(t), nodeWithUplink(t)
	do(t, node, func() error {
		link, err := netlink.LinkByName(uplinkName)
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.QdiscAdd(netdev.Clsact(link)), netlink.FilterAdd(foreign(t, link))); err != nil {
			return err
		}
		if _, err := Attach(dir, uplinkName); err != nil {
			return err
		}
		all, err := netdev.Filters(netdev.Here, link, netdev.Ingress)
		if err != nil {
			return err
		}
		if names := filterNames(all); !slices.Equal(names, []string{theirs, receiveProgram}) {
			t.Errorf("the filters are %v", names)
		}
		uplinks, err := Detach(dir)
		if err != nil {
			return err
		}
		if len(uplinks) != 1 || uplinks[0].Others != 1 {
			t.Errorf("it was taken from %+v", uplinks)
		}
		all, err = netdev.Filters(netdev.Here, link, netdev.Ingress)
		if names := filterNames(all); !slices.Equal(names, []string{theirs}) {
			t.Errorf("afterwards the filters are %v", names)
		}
		return err
	})
}

func TestForeignClsactStays(t *testing.T) {
	dir, node := folder(t), nodeWithUplink(t)
	do(t, node, func() error {
		link, err := netlink.LinkByName(uplinkName)
		if err != nil {
			return err
		}
		// Another program is between its two steps of adding a filter.
		if err := netlink.QdiscAdd(netdev.Clsact(link)); err != nil {
			return err
		}
		if _, err := Attach(dir, uplinkName); err != nil {
			return err
		}
		if _, err := Detach(dir); err != nil {
			return err
		}
		if names := qdiscs(t); !slices.Contains(names, "clsact") {
			t.Errorf("the clsact of another program is gone; there are %v", names)
		}
		return nil
	})
}

// TestGoesBeforeTCX has Cilium's kind of program at the uplink: it runs before all filters and ends the matter.
func TestGoesBeforeTCX(t *testing.T) {
	for _, c := range []struct {
		name  string
		later bool
	}{{name: "theirs is attached first"}, {"theirs is attached later", true}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			link := w.link(t)
			if !c.later {
				do(t, w.node, func() error { _, err := Detach(w.dir); return err })
			}
			w.attachTheirs(t, bpflink.Tail())
			if !c.later {
				w.maps.Close()
				w.program.Close()
				do(t, w.node, w.attach)
			}
			w.openRing(t, 1<<16)
			do(t, w.node, func() error {
				if c.later {
					if reached, err := IsAttached(uplinkName); err != nil || reached {
						t.Errorf("behind theirs, it is reached: %t, %v", reached, err)
					}
					if names, err := ProgramsBefore(link); err != nil || !slices.Equal(names, []string{theirs}) {
						t.Errorf("the programs before it are %q, %v", names, err)
					}
					if moved, err := KeepReached(w.dir); err != nil || !slices.Equal(moved, []string{uplinkName}) {
						t.Errorf("it moved at %q, %v", moved, err)
					}
					w.program.Close()
					program, err := uplinkProgram()
					if err != nil {
						return err
					}
					w.program = program
				}
				if moved, err := KeepReached(w.dir); err != nil || len(moved) != 0 {
					t.Errorf("it moved again at %q, %v", moved, err)
				}
				if names := w.tcxNames(t, link); len(names) != 2 || !strings.HasPrefix(names[0], tcxProgram) || names[1] != theirs {
					t.Errorf("the programs are %q", names)
				}
				if names := qdiscs(t); slices.Contains(names, "clsact") {
					t.Error("clsact of the former filter is there")
				}
				all, err := Uplinks()
				if len(all) != 1 || all[0] != (Uplink{uplinkName, true, true, 0}) {
					t.Errorf("Uplinks returns %+v", all)
				}
				return err
			})
			datagram := w.valid()
			if verdict := w.run(t, datagram.bytes()); verdict != dropped {
				t.Errorf("the verdict about a taken datagram is %d", verdict)
			}
			if counts := w.counts(t); counts.Received != 1 {
				t.Errorf("the counters are %+v", counts)
			}
			do(t, w.node, func() error {
				// Attaching again replaces it in its place.
				if done, err := Attach(w.dir, uplinkName); err != nil || !done.Replaced || done.Emptied {
					t.Errorf("attaching again returns %+v, %v", done, err)
				}
				if names := w.tcxNames(t, link); len(names) != 2 || !strings.HasPrefix(names[0], tcxProgram) {
					t.Errorf("afterwards the programs are %q", names)
				}
				return nil
			})
			w.attachTheirs(t, bpflink.Head())
			do(t, w.node, func() error {
				if names, err := ProgramsBefore(link); err != nil || !slices.Equal(names, []string{theirs}) {
					t.Errorf("the programs before the tcx program are %q, %v", names, err)
				}
				if moved, err := KeepReached(w.dir); err != nil || len(moved) != 0 {
					t.Errorf("it moved before a program that insists on its place at %q, %v", moved, err)
				}
				if _, err := Attach(w.dir, uplinkName); err != nil {
					return err
				}
				if names := w.tcxNames(t, link); len(names) != 3 || !strings.HasPrefix(names[0], tcxProgram) {
					t.Errorf("after attaching again the programs are %q", names)
				}
				if err := asRemoval(func() error { _, err := Detach(w.dir); return err }); err != nil {
					return err
				}
				if _, err := os.Stat(w.dir); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("stat of the folder returns %v", err)
				}
				if names := w.tcxNames(t, link); !slices.Equal(names, []string{theirs, theirs}) {
					t.Errorf("after detaching, the programs are %q", names)
				}
				return nil
			})
		})
	}
}

func TestUplinksCountTCX(t *testing.T) {
	w := newWorld(t)
	w.attachTheirs(t, bpflink.Tail())
	do(t, w.node, func() error {
		if _, err := Ensure(w.dir, uplinkName); err != nil {
			return err
		}
		return nil
	})
	w.attachTheirs(t, bpflink.Head())
	do(t, w.node, func() error {
		all, err := Uplinks()
		if len(all) != 1 || !all[0].TCX || all[0].Others != 1 {
			t.Errorf("Uplinks returns %+v", all)
		}
		return err
	})
}

// asRemoval runs a function with the capabilities of the chart's removal only (NET_ADMIN, DAC_OVERRIDE), in a locked thread.
func asRemoval(work func() error) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	if err := unix.Capget(&header, &all[0]); err != nil {
		return err
	}
	few := all
	few[0].Effective = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_DAC_OVERRIDE
	few[1].Effective = 0
	if err := unix.Capset(&header, &few[0]); err != nil {
		return err
	}
	err := work()
	return errors.Join(err, unix.Capset(&header, &all[0]))
}

func (w *world) link(t *testing.T) (link netlink.Link) {
	t.Helper()
	do(t, w.node, func() (err error) { link, err = netlink.LinkByName(uplinkName); return err })
	return link
}

// attachTheirs attaches a tcx program that ends the matter.
func (w *world) attachTheirs(t *testing.T, anchor bpflink.Anchor) {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: theirs, Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	testlab.Must(t, err)
	t.Cleanup(func() { program.Close() })
	do(t, w.node, func() error {
		attached, err := bpflink.AttachTCX(bpflink.TCXOptions{Interface: w.uplink, Program: program, Attach: ebpf.AttachTCXIngress, Anchor: anchor})
		if errors.Is(err, ebpf.ErrNotSupported) {
			t.Skip("the kernel is older than Linux 6.6 and has no tcx")
		}
		if err == nil {
			t.Cleanup(func() { attached.Close() })
		}
		return err
	})
}

func (w *world) tcxNames(t *testing.T, link netlink.Link) (names []string) {
	t.Helper()
	programs, err := netdev.TCXPrograms(link, netdev.Ingress)
	testlab.Must(t, err)
	for _, id := range programs {
		names = append(names, programName(id))
	}
	return names
}

// foreign returns a filter that passes every frame on, with the first priority that the kernel assigns.
func foreign(t *testing.T, link netlink.Link) netlink.Filter {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, left), asm.Return()},
	})
	testlab.Must(t, err)
	t.Cleanup(func() { program.Close() })
	filter := netdev.Filter{Side: netdev.Ingress, Priority: 49152, Name: theirs}.Place(link)
	filter.Fd = program.FD()
	return filter
}

const theirs = "theirs"

func filterNames(filters []netlink.Filter) (names []string) {
	for _, filter := range filters {
		name, _, _ := strings.Cut(filter.(*netlink.BpfFilter).Name, ":")
		names = append(names, name)
	}
	return names
}

func TestAttachReplaces(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<16)
	do(t, w.node, func() error {
		done, err := Attach(w.dir, uplinkName)
		if err != nil {
			return err
		}
		if !done.Replaced {
			t.Error("Replaced is false")
		}
		link, err := netlink.LinkByName(uplinkName)
		if err != nil {
			return err
		}
		if all, err := netdev.Filters(netdev.Here, link, netdev.Ingress); err != nil || len(all) != 1 {
			t.Errorf("there are %d filters, %v", len(all), err)
		}
		w.program.Close()
		w.program, err = uplinkProgram()
		return err
	})
	datagram := w.valid()
	if verdict := w.run(t, datagram.bytes()); verdict != taken {
		t.Errorf("afterwards the verdict was %d", verdict)
	}
}

func TestEnsure(t *testing.T) {
	dir, node := folder(t), nodeWithUplink(t)
	nodeDir := ofNode(t, node, dir)
	do(t, node, func() error {
		id := func() ebpf.ProgramID {
			program, err := uplinkProgram()
			testlab.Must(t, err)
			defer program.Close()
			info, err := program.Info()
			testlab.Must(t, err)
			programID, _ := info.ID()
			return programID
		}
		if _, err := Ensure(dir, uplinkName); err != nil {
			return err
		}
		first := id()
		if _, err := Ensure(dir, uplinkName); err != nil {
			return err
		}
		if second := id(); second != first {
			t.Errorf("program %d was replaced by %d", first, second)
		}
		if err := os.Remove(filepath.Join(nodeDir, ringsMap)); err != nil {
			return err
		}
		if _, err := Ensure(dir, uplinkName); err != nil {
			return err
		}
		if third := id(); third == first {
			t.Error("the program was not replaced although a map is missing")
		}
		_, err := Detach(dir)
		return err
	})
}

func TestEnsureReplacesMaps(t *testing.T) {
	dir, node := folder(t), nodeWithUplink(t)
	nodeDir := ofNode(t, node, dir)
	testlab.Must(t, os.MkdirAll(nodeDir, 0o700))
	other := newMap(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 1, MaxEntries: 1})
	testlab.Must(t, other.Pin(filepath.Join(nodeDir, peersMap)))
	do(t, node, func() error {
		if _, err := Open(dir); !errors.Is(err, ErrOtherRelease) {
			t.Errorf("before, opening said %v", err)
		}
		done, err := Ensure(dir, uplinkName)
		if err != nil {
			return err
		}
		if !done.Emptied {
			t.Error("Emptied is false")
		}
		maps, err := Open(dir)
		if err != nil {
			return err
		}
		maps.Close()
		_, err = Detach(dir)
		return err
	})
}

func TestNodesShareFolder(t *testing.T) {
	w, other := newWorld(t), nodeWithUplink(t)
	knows := func(when string) {
		t.Helper()
		do(t, w.node, func() error {
			maps, err := Open(w.dir)
			if err != nil {
				return err
			}
			defer maps.Close()
			if has, err := maps.Has(&w.endpoint); err != nil || !has {
				t.Errorf("%s the node's pod is missing: %v", when, err)
			}
			return nil
		})
	}
	do(t, other, func() error {
		if _, err := Attach(w.dir, uplinkName); err != nil {
			return err
		}
		maps, err := Open(w.dir)
		if err != nil {
			return err
		}
		defer maps.Close()
		if all, err := maps.Endpoints(); err != nil || len(all) != 0 {
			t.Errorf("the other node has foreign pods: %+v, %v", all, err)
		}
		_, err = maps.Sweep()
		return err
	})
	knows("after the other node's Sweep")
	do(t, other, func() error { _, err := Detach(w.dir); return err })
	knows("after the other node's Detach")
	if left := entriesOf(t, w.dir); len(left) != 1 {
		t.Errorf("there are the folders %v, want one", left)
	}
}

func TestAttachErrors(t *testing.T) {
	dir, node := folder(t), nodeWithUplink(t)
	for _, c := range []struct{ name, dir, uplink, want string }{
		{"missing interface", dir, "eth7", "there is no such interface"},
		{"loopback", dir, "lo", "no Ethernet frames"},
		{"other file system", t.TempDir(), uplinkName, "in no BPF filesystem"},
		{"relative folder", "receive", uplinkName, "absolute"},
	} {
		t.Run(c.name, func(t *testing.T) {
			do(t, node, func() error {
				if _, err := Attach(c.dir, c.uplink); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("it said %v", err)
				}
				if names := qdiscs(t); slices.Contains(names, "clsact") {
					t.Errorf("the uplink has %v", names)
				}
				return nil
			})
		})
	}
}

func qdiscs(t *testing.T) []string {
	t.Helper()
	link, err := netlink.LinkByName(uplinkName)
	testlab.Must(t, err)
	all, err := netlink.QdiscList(link)
	testlab.Must(t, err)
	var names []string
	for _, qdisc := range all {
		names = append(names, qdisc.Type())
	}
	return names
}

func TestSweep(t *testing.T) {
	w := newWorld(t)
	stays := w.endpoint
	stays.Port, stays.MAC = 0, net.HardwareAddr{2, 0, 0, 0, 0, 1}
	testlab.Must(t, w.maps.PutEndpoint(&stays))
	sweep := func() (count int) {
		do(t, w.node, func() (err error) { count, err = w.maps.Sweep(); return err })
		return count
	}
	if count := sweep(); count != 0 {
		t.Errorf("%d entries went although all interfaces are there", count)
	}
	do(t, w.node, func() error {
		port, err := netlink.LinkByName("port")
		if err != nil {
			return err
		}
		return netlink.LinkDel(port)
	})
	if count := sweep(); count != 1 {
		t.Errorf("%d entries went, want 1", count)
	}
	left, err := w.maps.Endpoints()
	if err != nil || len(left) != 1 || left[0].MAC.String() != stays.MAC.String() || left[0].IPv4 != testPod4 || left[0].IPv6 != testPod6 ||
		left[0].Tunnel != stays.Tunnel || left[0].Netns != stays.Netns {
		t.Errorf("what stays is %+v, %v", left, err)
	}
}
