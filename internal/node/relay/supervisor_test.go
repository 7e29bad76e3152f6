// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	attachments "github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// The tests use their own network namespace as the node.

const tapGroup = 0x74736e

// captures is the supervisor's list of attachments.
type captures struct {
	mu   sync.Mutex
	list []attachments.RelayedAttachment
	// states has the states of the programs at ports, opened before the supervisor started.
	states map[string]State
}

func (c *captures) List() ([]attachments.RelayedAttachment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list), nil
}

func (c *captures) set(list ...attachments.RelayedAttachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = list
}

func (c *captures) changed() bool { return false }

// relayOf returns the relay's device in the state of the program at a port.
func relayOf(t *testing.T, state State) int {
	t.Helper()
	index, err := state.Relay()
	testlab.Must(t, err)
	return index
}

// pod creates a pod with a captured interface.
func (c *captures) pod(t *testing.T, name string) attachments.RelayedAttachment {
	t.Helper()
	testlab.Program(t, "ktsn-relay") // and with it the programs of the kernel
	namespace := topology.NewTestNamespace(t, name)
	attachment := overlay.Attachment{Network: "tsn", ContainerID: namespace.Name(), Interface: "tsn0", Identity: "uid-" + name}
	plug(t, namespace, &attachment)
	if c.states == nil {
		c.states = map[string]State{}
	}
	c.states[attachment.PortName()] = capturing(t, &attachment)
	return attachments.RelayedAttachment{
		Attachment: attachment, Mode: capture.Timed, Netns: namespace.Path(), Socket: filepath.Join(t.TempDir(), "app.sock"),
	}
}

func plug(t *testing.T, pod *topology.Namespace, attachment *overlay.Attachment) {
	t.Helper()
	netns, err := os.Open(pod.Path())
	testlab.Must(t, err)
	defer netns.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.Group, attributes.MTU = attachment.PortName(), tapGroup, 1400
	testlab.Must(t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attributes, PeerName: attachment.Interface, PeerNamespace: netlink.NsFd(int(netns.Fd())),
	}))
	t.Cleanup(func() { unplug(attachment) })
	port, err := netlink.LinkByName(attachment.PortName())
	if err == nil {
		err = netlink.LinkSetUp(port)
	}
	testlab.Must(t, err)
	testlab.Must(t, pod.Do(func() error {
		link, err := netlink.LinkByName(attachment.Interface)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	}))
}

// capturing attaches the program and opens its new state.
func capturing(t *testing.T, attachment *overlay.Attachment) State {
	t.Helper()
	testlab.Must(t, capture.AttachPort(attachment.PortName(), capture.Timed, capture.ClassByRecord, 0))
	state, err := openState(attachment.PortName())
	testlab.Must(t, err)
	t.Cleanup(func() { state.Close() })
	return state
}

func unplug(attachment *overlay.Attachment) {
	if link, err := netlink.LinkByName(attachment.PortName()); err == nil {
		_ = netlink.LinkDel(link)
	}
}

// relays returns the built relay programs.
func relays(t *testing.T) Programs {
	t.Helper()
	user := User{65533, 65533}
	return Programs{
		Captured: Program{Path: testlab.Program(t, "ktsn-relay"), User: user}, Guests: Program{Path: testlab.Program(t, "ktsn-relay-vhost"), User: user},
	}
}

// supervised runs a supervisor until the test ends or end is called.
func supervised(t *testing.T, lab *captures) (s *Supervisor, end func()) {
	t.Helper()
	return supervisedWith(t, lab, relays(t))
}

func supervisedWith(t *testing.T, lab *captures, programs Programs) (s *Supervisor, end func()) {
	t.Helper()
	node, err := overlay.Open(t.TempDir(), time.Second)
	testlab.Must(t, err)
	s = &Supervisor{
		Programs: programs,
		Node:     node, List: lab.List, Changed: lab.changed, Open: openState, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(func() {
		end()
		node.Close()
	})
	return s, end
}

// eventually waits until holds returns true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testlab.Eventually(t, 30*time.Second, 5*time.Millisecond, func() error {
		if !holds() {
			return errors.New("timeout: " + what)
		}
		return nil
	})
}

func statusOf(s *Supervisor, captured *attachments.RelayedAttachment) Status {
	for _, status := range s.Status() {
		if status.Attachment == captured.Attachment {
			return status
		}
	}
	return Status{}
}

func isThere(name string) bool {
	_, err := netlink.LinkByName(name)
	return err == nil
}

// processOf returns the PID of the attachment's relay, which it waits for.
func processOf(t *testing.T, s *Supervisor, captured *attachments.RelayedAttachment) int {
	t.Helper()
	eventually(t, "a relay of "+captured.Identity, func() bool {
		status := statusOf(s, captured)
		if errors.Is(status.Failure, fs.ErrPermission) {
			t.Fatalf("the relay of %s cannot be started: %v", captured.Identity, status.Failure)
		}
		return status.Running
	})
	return statusOf(s, captured).PID
}

// mapsOf returns the fdinfo of each BPF map that a process has open.
func mapsOf(t *testing.T, pid int) (infos []string) {
	t.Helper()
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(folder)
	testlab.Must(t, err)
	for _, dirEntry := range open {
		// A descriptor that was closed meanwhile is not a map's.
		if to, _ := os.Readlink(filepath.Join(folder, dirEntry.Name())); to != "anon_inode:bpf-map" {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, dirEntry.Name()))
		testlab.Must(t, err)
		infos = append(infos, string(info))
	}
	return infos
}

func TestRelayInheritsHeartbeatMap(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	timed, all := lab.pod(t, "timed"), lab.pod(t, "all")
	all.Mode = capture.All
	lab.set(timed, all)
	s, _ := supervised(t, lab)
	if maps := mapsOf(t, processOf(t, s, &timed)); len(maps) > 0 {
		t.Errorf("with Timed it has the maps %q", maps)
	}
	maps := mapsOf(t, processOf(t, s, &all))
	if len(maps) != 1 || !strings.Contains(maps[0], "value_size:\t16\n") || !strings.Contains(maps[0], "map_flags:\t0x400\n") {
		t.Errorf("with All it has the maps %q", maps)
	}
}

func TestRelayPrivileges(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod := lab.pod(t, "first")
	lab.set(pod)
	s, _ := supervised(t, lab)
	pid := processOf(t, s, &pod)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	testlab.Must(t, err)
	for _, want := range []string{"Uid:\t65533\t65533\t65533\t65533\n", "Gid:\t65533\t65533\t65533\t65533\n", "Groups:\t \n",
		"CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapInh:\t0000000000000000\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("its status lacks %q:\n%s", want, status)
		}
	}
	for descriptor, want := range map[int]string{3: "socket:", 4: filepath.Dir(pod.Socket), 5: "/memfd:ktsn-relay-counters", 6: "/dev/net/tun"} {
		if got, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, descriptor)); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("descriptor %d is %s, %v; want %s", descriptor, got, err, want)
		}
	}
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("it is in process group %d, %v, and not in its own", group, err)
	}
	link, err := netlink.LinkByName(pod.TapName())
	testlab.Must(t, err)
	if attrs := link.Attrs(); attrs.MTU != 1400+24 || attrs.Group != tapGroup || attrs.TxQLen != 1000 || attrs.Flags&1 == 0 || attrs.MasterIndex != 0 {
		t.Errorf("the tap is %+v", attrs)
	}
	if got := relayOf(t, lab.states[pod.PortName()]); got != link.Attrs().Index {
		t.Errorf("frames go to device %d, want %d", got, link.Attrs().Index)
	}
}

// The folder is root's with mode 0700, like a home or a build with umask 077.
func TestRelayExecutableInClosedFolder(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	captured, machine := lab.pod(t, "captured"), lab.machine(t, "machine")
	lab.set(captured, machine)
	programs, closed := relays(t), t.TempDir()
	testlab.Must(t, os.Chmod(closed, 0o700))
	for _, program := range []*Program{&programs.Captured, &programs.Guests} {
		copied := filepath.Join(closed, filepath.Base(program.Path))
		text, err := os.ReadFile(program.Path)
		if err == nil {
			err = errors.Join(os.WriteFile(copied, text, 0o755), os.Chmod(copied, 0o755)) // despite the umask
		}
		testlab.Must(t, err)
		program.Path = copied
	}
	s, _ := supervisedWith(t, lab, programs)
	for pod, want := range map[*attachments.RelayedAttachment]string{&captured: "ktsn-relay\n", &machine: "ktsn-relay-vhos\n"} {
		comm := fmt.Sprintf("/proc/%d/comm", processOf(t, s, pod))
		// Its name is that of a descriptor until it sets one.
		eventually(t, "the relay is called "+want, func() bool {
			name, err := os.ReadFile(comm)
			return err == nil && string(name) == want
		})
	}
}

func TestKilledRelayRestarts(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	first, second := lab.pod(t, "first"), lab.pod(t, "second")
	lab.set(first, second)
	s, _ := supervised(t, lab)
	killed, other := processOf(t, s, &first), processOf(t, s, &second)
	waits := relayOf(t, lab.states[first.PortName()])
	testlab.Must(t, syscall.Kill(killed, syscall.SIGKILL))
	eventually(t, "another relay", func() bool {
		status := statusOf(s, &first)
		return status.Running && status.PID != killed && status.Starts == 2
	})
	if got := relayOf(t, lab.states[first.PortName()]); got != waits {
		t.Errorf("frames go to device %d, and waited in %d", got, waits)
	}
	if status := statusOf(s, &second); status.PID != other || status.Starts != 1 {
		t.Errorf("the relay of the other pod is %+v", status)
	}
}

func TestMissingSocketFolder(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	whole, broken := lab.pod(t, "whole"), lab.pod(t, "broken")
	folder := filepath.Join(t.TempDir(), "later")
	broken.Socket = filepath.Join(folder, "app.sock")
	lab.set(broken, whole)
	s, _ := supervised(t, lab)
	processOf(t, s, &whole)
	eventually(t, "a failure", func() bool { return statusOf(s, &broken).Failure != nil })
	if message := statusOf(s, &broken).Failure.Error(); !strings.Contains(message, "there is no folder "+folder) {
		t.Errorf("it said %q", message)
	}
	if isThere(broken.TapName()) || relayOf(t, lab.states[broken.PortName()]) != 0 {
		t.Error("frames go to a device without a reader")
	}
	testlab.Must(t, os.Mkdir(folder, 0o755))
	processOf(t, s, &broken)
	if err := statusOf(s, &broken).Failure; err != nil {
		t.Errorf("it still says %v", err)
	}
}

func TestTroubleWithoutVolume(t *testing.T) {
	for name, test := range map[string]struct {
		status Status
		reason string
	}{
		"timed":       {Status{Failure: errNoVolume, Away: time.Hour}, ""},
		"all":         {Status{Failure: errNoVolume, Away: time.Hour, All: true, KernelPath: true}, "KernelPath"},
		"other cause": {Status{Failure: os.ErrPermission, Away: time.Hour}, "RelayAway"},
	} {
		reason, sentence := test.status.Trouble()
		if reason != test.reason || (sentence == "") != (reason == "") {
			t.Errorf("%s: it says %q, %q; want %q", name, reason, sentence, test.reason)
		}
	}
}

func TestReleaseRemovesDevices(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	stays, goes := lab.pod(t, "stays"), lab.pod(t, "goes")
	lab.set(stays, goes)
	s, end := supervised(t, lab)
	processOf(t, s, &stays)
	processOf(t, s, &goes)
	lab.set(stays)
	eventually(t, "the end of the tap", func() bool { return !isThere(goes.TapName()) })
	if got := relayOf(t, lab.states[goes.PortName()]); got != 0 {
		t.Errorf("frames still go to device %d", got)
	}
	if !isThere(stays.TapName()) {
		t.Error("the other tap is gone")
	}
	end()
	if isThere(stays.TapName()) || relayOf(t, lab.states[stays.PortName()]) != 0 {
		t.Error("something is left at the end")
	}
}

func TestReattachedProgramGetsRelay(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod := lab.pod(t, "pod")
	lab.set(pod)
	s, _ := supervised(t, lab)
	first := processOf(t, s, &pod)
	state := capturing(t, &pod.Attachment)
	eventually(t, "another relay", func() bool {
		status := statusOf(s, &pod)
		return status.Running && status.PID != first && relayOf(t, state) != 0
	})
}

func TestMissingPortBackoff(t *testing.T) {
	node, err := overlay.Open(t.TempDir(), time.Second)
	testlab.Must(t, err)
	defer node.Close()
	lab := &captures{}
	gone := attachments.RelayedAttachment{Attachment: overlay.Attachment{Network: "tsn", ContainerID: "gone", Interface: "tsn0"}}
	lab.set(gone)
	s := &Supervisor{
		Node: node, List: lab.List, Changed: lab.changed, Log: slog.New(slog.DiscardHandler),
		attached: map[string]*attachment{}, missing: map[string]time.Time{},
	}
	begin := time.Now()
	for _, step := range []struct {
		name string
		at   time.Duration
		list []attachments.RelayedAttachment
		soon bool
	}{
		{"new", 0, lab.list, true},
		{"missing", patience - 1, lab.list, true},
		{"missing for long", patience, lab.list, false},
		{"removed", 2 * patience, nil, false},
		{"added again", 3 * patience, lab.list, true},
	} {
		lab.set(step.list...)
		now := begin.Add(step.at)
		s.reconcile(now)
		if got := s.due(now.Add(pollEvery)); got != step.soon {
			t.Errorf("%s: due after pollEvery: %v", step.name, got)
		}
		if !s.due(now.Add(reconcileEvery)) {
			t.Errorf("%s: not due after reconcileEvery", step.name)
		}
	}
}

func TestCompare(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod := lab.pod(t, "pod")
	lab.set(pod)
	node, err := overlay.Open(t.TempDir(), time.Second)
	testlab.Must(t, err)
	defer node.Close()
	s := &Supervisor{
		Programs: relays(t),
		Node:     node, List: lab.List, Changed: lab.changed, Open: openState, Log: slog.New(slog.DiscardHandler),
		starter: newStarter(), attached: map[string]*attachment{}, missing: map[string]time.Time{},
	}
	defer s.starter.end()
	defer func() {
		if err := s.releaseAll(); err != nil {
			t.Error(err)
		}
	}()
	now := time.Now()
	s.reconcile(now)
	state := capturing(t, &pod.Attachment)
	s.reconcile(now)
	if relayOf(t, state) != 0 {
		t.Fatal("programs are compared at each reconciliation")
	}
	s.Compare()
	s.reconcile(now)
	if relayOf(t, state) == 0 {
		t.Error("the new program has no relay")
	}
}

func TestMissingRelayProgram(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod := lab.pod(t, "pod")
	lab.set(pod)
	node, err := overlay.Open(t.TempDir(), time.Second)
	testlab.Must(t, err)
	defer node.Close()
	s := &Supervisor{Programs: Programs{Captured: Program{Path: "/nowhere/ktsn-relay"}}, Node: node, List: lab.List, Changed: lab.changed, Open: openState, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	eventually(t, "a failure", func() bool { return statusOf(s, &pod).Failure != nil })
	if message := statusOf(s, &pod).Failure.Error(); !strings.Contains(message, "there is no program /nowhere/ktsn-relay") {
		t.Errorf("it said %q", message)
	}
	cancel()
	if err := <-done; err != nil || isThere(pod.TapName()) {
		t.Errorf("it ended with %v, and the tap is there: %v", err, isThere(pod.TapName()))
	}
}

// sendRecord sends a frame with a record from the pod.
func sendRecord(t *testing.T, pod *attachments.RelayedAttachment) {
	t.Helper()
	frame := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, 0x88, 0xb5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)
	frame = append(frame, append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb6}, make([]byte, 46)...)...)
	testlab.Must(t, ns.WithNetNSPath(pod.Netns, func(ns.NetNS) error {
		descriptor, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(descriptor)
		link, err := netlink.LinkByName(pod.Interface)
		if err != nil {
			return err
		}
		return unix.Sendto(descriptor, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index})
	}))
}

func TestQueuedFramesSurviveRestart(t *testing.T) {
	lab := &captures{}
	pod := lab.pod(t, "pod")
	lab.set(pod)
	s, _ := supervised(t, lab)
	first := processOf(t, s, &pod)
	sendRecord(t, &pod)
	eventually(t, "the first frame", func() bool { return statusOf(s, &pod).Frames["read-timed"] == 1 })
	testlab.Must(t, syscall.Kill(first, syscall.SIGSTOP))
	for range 3 {
		sendRecord(t, &pod)
	}
	testlab.Must(t, syscall.Kill(first, syscall.SIGKILL))
	// Without ktsnd a relay reads one frame and leaves the others in the tap.
	eventually(t, "a queued frame", func() bool {
		frames := statusOf(s, &pod).Frames
		return frames["read-timed"] == 2 && frames["drop-lost"] == 1
	})
}

func TestRelayOfLargestMTU(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod := lab.pod(t, "large")
	port, err := netlink.LinkByName(pod.PortName())
	if err == nil {
		err = netlink.LinkSetMTU(port, 65535)
	}
	testlab.Must(t, err)
	lab.set(pod)
	s, _ := supervised(t, lab)
	processOf(t, s, &pod)
	tap, err := netlink.LinkByName(pod.TapName())
	if err != nil || tap.Attrs().MTU != 65521 {
		t.Errorf("its device is %+v, %v", tap, err)
	}
}
