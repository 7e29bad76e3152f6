// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// frontEnd replaces QEMU at the socket of a pod's virtual machine and runs as QEMU's user.
type frontEnd struct {
	process *process.Process
	stdin   io.Writer
	lines   chan string
}

const qemuUser = 107

func (p *pod) vhostSocket() string {
	return filepath.Join(p.node.dir, "pods", p.identity(), podIf+".vhost.sock")
}

// openPodFolder makes the pod's folder accessible to that user, like the pod's own mount.
func openPodFolder(t *testing.T, p *pod) {
	t.Helper()
	for dir := filepath.Dir(p.vhostSocket()); dir != filepath.Dir(p.node.dir); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
}

func (p *pod) startFrontEnd(t *testing.T) *frontEnd {
	t.Helper()
	p.awaitVhostSocket(t)
	openPodFolder(t, p)
	// To a folder where that user may execute it.
	copied := filepath.Join(p.node.dir, "ktsn-test-guest")
	text, err := os.ReadFile(program(t, "ktsn-test-guest"))
	must(t, err)
	if _, err := os.Stat(copied); err != nil {
		must(t, os.WriteFile(copied, text, 0o755))
		must(t, os.Chmod(copied, 0o755)) // independent of the umask
	}
	command := exec.Command(copied, p.vhostSocket(), "1", "connect")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: qemuUser, Gid: qemuUser}}
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	f := &frontEnd{stdin: stdin, lines: make(chan string, 100), process: start(t, p.node.Namespace, "ktsn-test-guest", command)}
	go func() {
		defer close(f.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			f.lines <- lines.Text()
		}
	}()
	f.awaitLine(t, "up", func(line string) bool { return line == "up" })
	return f
}

func (f *frontEnd) awaitLine(t *testing.T, what string, condition func(string) bool) {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case line, more := <-f.lines:
			if more && condition(line) {
				return
			}
			if !more {
				t.Fatalf("the front end ends before %s; its log: %s", what, f.process.Stderr())
			}
		case <-deadline:
			t.Fatalf("the front end waits for %s without success; its log: %s", what, f.process.Stderr())
		}
	}
}

func (f *frontEnd) send(t *testing.T, frame []byte) {
	t.Helper()
	_, err := fmt.Fprintf(f.stdin, "0 %x\n", frame)
	must(t, err)
}

func (p *pod) awaitVhostSocket(t *testing.T) {
	t.Helper()
	path := p.vhostSocket()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		p.node.checkRelays(t)
		return fmt.Errorf("there is no %s", path)
	})
}

func TestMachineByVhostUser(t *testing.T) {
	t.Parallel()
	m := newMachines(t, fields{"device": "vhost-user", "device-owner": qemuUser})
	relays := m.a.runRelays(t)
	guest := m.guest.startFrontEnd(t)
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
	there, back := packetSocket(t, m.otherMachine, machineEtherType), packetSocket(t, m.otherMachine, machineEtherType)
	source, to := macOf(t, m.guest.Namespace, podIf), macOf(t, m.otherMachine.Namespace, podIf)

	guest.send(t, machineFrame(to, source, machineEtherType, []byte("at once")))
	arrivalTime(t, there, "at once")
	at := time.Now().Add(300 * time.Millisecond)
	guest.send(t, behindRecord(machineFrame(to, source, machineEtherType, []byte("at its time")), at))
	if came := arrivalTime(t, there, "at its time"); came.Before(at) {
		t.Errorf("a frame arrives %v before its time", at.Sub(came))
	}
	_, err := unix.Write(back, machineFrame(source, to, machineEtherType, []byte("for the machine")))
	must(t, err)
	guest.awaitLine(t, "a frame", func(line string) bool {
		_, text, _ := strings.Cut(line, " ")
		frame, err := hex.DecodeString(text)
		return err == nil && bytes.Contains(frame, []byte("for the machine"))
	})

	// DEL removes the rest of the pod while relays run.
	must(t, guest.process.Stop(patience))
	must(t, m.a.runtime.DelNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
	if _, err := os.Stat(filepath.Dir(m.guest.vhostSocket())); !os.IsNotExist(err) {
		t.Errorf("the pod's folder is left: %v", err)
	}
	must(t, relays.Stop(patience))
}

func TestVhostRecordNeedsCapture(t *testing.T) {
	t.Parallel()
	m := newMachines(t, fields{"device": "vhost-user", "device-owner": qemuUser, "capture": "None"})
	m.a.runRelays(t)
	guest := m.guest.startFrontEnd(t)
	there := packetSocket(t, m.otherMachine, machineEtherType)
	source, to := macOf(t, m.guest.Namespace, podIf), macOf(t, m.otherMachine.Namespace, podIf)
	guest.send(t, behindRecord(machineFrame(to, source, machineEtherType, []byte("with a record")), time.Now()))
	guest.send(t, machineFrame(to, source, machineEtherType, []byte("without one")))
	firstIs(t, there, "without one")
}

// firstIs checks that the next frame at a socket has a text.
func firstIs(t *testing.T, at int, want string) {
	t.Helper()
	came := make([]byte, 2048)
	n, err := testlab.Read(at, came)
	must(t, err)
	if !bytes.Contains(came[:n], []byte(want)) {
		t.Errorf("%q arrives, want %q", came[:n], want)
	}
}

// sendsItself sends frames like a program of the pod with CAP_NET_RAW, by every path past the filters of the pod's
// kernel.
func (p *pod) sendsItself(t *testing.T, frame func(text string) []byte) {
	t.Helper()
	// SO_MARK needs CAP_NET_RAW since Linux 5.17. The first is the mark of relays in older releases.
	const bypass, mark = 1, 2
	for how := range 4 {
		must(t, p.Do(func() error {
			fd, err := packetsAt(podIf, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if how&mark != 0 {
				err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 0x6b74736e)
			}
			if how&bypass != 0 {
				err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))
			}
			if err != nil {
				return err
			}
			// The pod's own filter may reject it.
			if _, err := unix.Write(fd, frame(fmt.Sprintf("forged, way %d", how))); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return err
			}
			return nil
		}))
	}
}

func TestMachinePodSendsOnlyThroughRelay(t *testing.T) {
	t.Parallel()
	m := newMachines(t, fields{"device": "vhost-user", "device-owner": qemuUser, "capture": "All"})
	there := packetSocket(t, m.otherMachine, machineEtherType)
	source, to := macOf(t, m.guest.Namespace, podIf), macOf(t, m.otherMachine.Namespace, podIf)
	frame := func(text string) []byte { return machineFrame(to, source, machineEtherType, []byte(text)) }
	m.guest.sendsItself(t, frame) // while no relay runs
	m.a.runRelays(t)
	guest := m.guest.startFrontEnd(t)
	m.guest.sendsItself(t, frame)
	// Broadcast: frames to a destination known to ktsnd wait in the ring for the next ktsnd.
	guest.send(t, machineFrame(broadcast, source, machineEtherType, []byte("through ktsnd")))
	firstIs(t, there, "through ktsnd")

	// Without the filters in the pod, which CAP_NET_ADMIN can remove.
	on(t, m.guest.Namespace, podIf, removeFilters)
	m.guest.sendsItself(t, frame)
	must(t, m.a.daemon.Stop(patience))
	m.guest.sendsItself(t, frame)
	// Only the relay sends past ktsnd.
	guest.send(t, frame("past ktsnd"))
	firstIs(t, there, "past ktsnd")
}

func TestMachineNodeEndIsClosedAgain(t *testing.T) {
	t.Parallel()
	m := newMachines(t, fields{"device": "vhost-user", "device-owner": qemuUser})
	on(t, m.a.Namespace, portOf(m.guest), func(link netlink.Link) error {
		return netlink.FilterDel(&netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL,
		}})
	})
	want := portOf(m.guest) + " had lost the filter ktsn_relayed of the pod's virtual machine; it is back"
	testlab.CheckError(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, m.config), m.guest.attachment()), want)
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
}
