// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/bench/process"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
)

// frontEnd stands in the place of QEMU at the socket of a pod's virtual machine, and runs as QEMU's user.
type frontEnd struct {
	process *process.Process
	stdin   io.Writer
	said    chan string
}

const qemuUser = 107

func (p *pod) vhostSocket() string {
	return filepath.Join(p.node.dir, "pods", p.identity(), podIf+".vhost.sock")
}

// opened has that user reach what is in the pod's folder, as the pod's own mount does.
func opened(t *testing.T, p *pod) {
	t.Helper()
	for dir := filepath.Dir(p.vhostSocket()); dir != filepath.Dir(p.node.dir); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
}

func (p *pod) startFrontEnd(t *testing.T) *frontEnd {
	t.Helper()
	awaitSocket(t, p.vhostSocket())
	opened(t, p)
	// Where that user may execute it.
	copied := filepath.Join(p.node.dir, "ktsn-test-guest")
	text, err := os.ReadFile(program(t, "ktsn-test-guest"))
	must(t, err)
	if _, err := os.Stat(copied); err != nil {
		must(t, os.WriteFile(copied, text, 0o755))
	}
	command := exec.Command(copied, p.vhostSocket(), "1", "connect")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: qemuUser, Gid: qemuUser}}
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	f := &frontEnd{stdin: stdin, said: make(chan string, 100)}
	f.process, err = process.Start(p.node.Namespace, "ktsn-test-guest", command)
	must(t, err)
	t.Cleanup(func() { _ = f.process.Stop(time.Second) })
	go func() {
		defer close(f.said)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			f.said <- lines.Text()
		}
	}()
	f.await(t, "up", func(line string) bool { return line == "up" })
	return f
}

func (f *frontEnd) await(t *testing.T, what string, is func(string) bool) {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case line, more := <-f.said:
			if more && is(line) {
				return
			}
			if !more {
				t.Fatalf("the front end ends before %s; it says: %s", what, f.process.Stderr())
			}
		case <-deadline:
			t.Fatalf("the front end waits for %s in vain; it says: %s", what, f.process.Stderr())
		}
	}
}

func (f *frontEnd) send(t *testing.T, frame []byte) {
	t.Helper()
	_, err := fmt.Fprintf(f.stdin, "0 %x\n", frame)
	must(t, err)
}

func awaitSocket(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s", path)
		}
	}
}

func TestAVirtualMachineIsServedByVhostUser(t *testing.T) {
	m := newMachines(t, fields{"device": "vhost-user", "device-owner": qemuUser})
	relays := m.a.runRelays(t)
	guest := m.guest.startFrontEnd(t)
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
	there, back := packets(t, m.other, machineEtherType), packets(t, m.other, machineEtherType)
	own, to := hardwareAddress(t, m.guest), hardwareAddress(t, m.other)

	guest.send(t, machineFrame(to, own, machineEtherType, []byte("at once")))
	arrives(t, there, "at once")
	at := time.Now().Add(300 * time.Millisecond)
	guest.send(t, behindRecord(machineFrame(to, own, machineEtherType, []byte("at its time")), at))
	if came := arrives(t, there, "at its time"); came.Before(at) {
		t.Errorf("a frame arrives %v before its time", at.Sub(came))
	}
	_, err := unix.Write(back, machineFrame(own, to, machineEtherType, []byte("for the machine")))
	must(t, err)
	guest.await(t, "a frame", func(line string) bool {
		_, text, _ := strings.Cut(line, " ")
		frame, err := hex.DecodeString(text)
		return err == nil && bytes.Contains(frame, []byte("for the machine"))
	})

	// What is left of the pod goes with DEL, while relays run.
	must(t, guest.process.Stop(patience))
	must(t, m.a.runtime.DelNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
	if _, err := os.Stat(filepath.Dir(m.guest.vhostSocket())); !os.IsNotExist(err) {
		t.Errorf("the pod's folder is left: %v", err)
	}
	must(t, relays.Stop(patience))
}

func TestARecordIsTakenOnlyWhereTheNetworkCapturesFramesWithATime(t *testing.T) {
	m := newMachines(t, fields{"device": "vhost-user", "device-owner": qemuUser, "capture": "None"})
	m.a.runRelays(t)
	guest := m.guest.startFrontEnd(t)
	there := packets(t, m.other, machineEtherType)
	own, to := hardwareAddress(t, m.guest), hardwareAddress(t, m.other)
	guest.send(t, behindRecord(machineFrame(to, own, machineEtherType, []byte("with a record")), time.Now()))
	guest.send(t, machineFrame(to, own, machineEtherType, []byte("without one")))
	frame := make([]byte, 2048)
	n, err := testenv.Read(there, frame)
	must(t, err)
	if !bytes.Contains(frame[:n], []byte("without one")) {
		t.Errorf("%q arrives", frame[:n])
	}
}
