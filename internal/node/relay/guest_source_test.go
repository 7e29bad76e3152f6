// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	attachments "github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// machineUser is the user of the virtual machine's process.
const machineUser = 107

// machine creates a pod whose interface a virtual machine has by vhost-user. Only root may enter the parents of its folder.
func (c *captures) machine(t *testing.T, name string) attachments.RelayedAttachment {
	t.Helper()
	testlab.Program(t, "ktsn-relay-vhost")
	pod := c.pod(t, name)
	pod.Device = device.Device{Kind: device.VhostUser, Queues: 1, Class: device.ClassRecord, Owner: machineUser}
	return pod
}

// listened reports whether the machine's socket exists, with the machine as owner, and has a listener.
func listened(t *testing.T, pod *attachments.RelayedAttachment) bool {
	t.Helper()
	info, err := os.Lstat(pod.VhostSocket())
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	testlab.Must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid != machineUser || info.Mode() != fs.ModeSocket|0o660 {
		t.Fatalf("the socket is of user %d, with mode %v", owner.Uid, info.Mode())
	}
	connected, err := net.Dial("unix", pod.VhostSocket())
	if err != nil {
		return false
	}
	connected.Close()
	return true
}

func TestGuestSocket(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod, captured := lab.machine(t, "machine"), lab.pod(t, "captured")
	lab.set(pod, captured)
	s, end := supervised(t, lab)
	first := processOf(t, s, &pod)
	processOf(t, s, &captured)
	if !listened(t, &pod) {
		t.Error("the relay runs and does not listen")
	}
	if relayOf(t, lab.states[pod.PortName()]) != 0 || !isThere(pod.TapName()) {
		t.Error("captured frames go to the relay's device, or frames past ktsnd have none")
	}
	if got := statusOf(s, &pod); got.Device != pod.Device || got.Frames["back-handed"] != 0 {
		t.Errorf("its status is %+v", got)
	}
	if _, counted := statusOf(s, &pod).Frames["bypassed"]; !counted {
		t.Error("frames past ktsnd are not counted")
	}

	testlab.Must(t, syscall.Kill(first, syscall.SIGKILL))
	eventually(t, "another relay that listens", func() bool {
		status := statusOf(s, &pod)
		return status.Running && status.PID != first && listened(t, &pod)
	})
	end()
	left, err := os.ReadDir(filepath.Dir(pod.Socket))
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

func TestGuestSocketRemoved(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod := lab.machine(t, "machine")
	// Left by a killed relay.
	testlab.Must(t, os.MkdirAll(device.SocketFolder(pod.VhostSocket()), 0o700))
	testlab.Must(t, os.WriteFile(filepath.Join(device.SocketFolder(pod.VhostSocket()), socketName), nil, 0o600))
	lab.set(pod)
	s, _ := supervised(t, lab)
	processOf(t, s, &pod)
	lab.set()
	s.Wake()
	eventually(t, "the end of the socket", func() bool {
		left, err := os.ReadDir(filepath.Dir(pod.Socket))
		return err == nil && len(left) == 0
	})
}

func TestGuestRelayOptions(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	with, without := lab.machine(t, "with"), lab.machine(t, "without")
	without.Mode, without.Device.Class, without.Device.Queues = capture.None, device.ClassQueue, 4
	lab.set(with, without)
	s, _ := supervised(t, lab)
	for _, test := range []struct {
		pod     *attachments.RelayedAttachment
		records bool
		class   string
	}{{&with, true, "record"}, {&without, false, "queue"}} {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", processOf(t, s, test.pod)))
		testlab.Must(t, err)
		arguments := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.Contains(arguments, "--records") != test.records || !strings.Contains(arguments, "--class "+test.class) || strings.Contains(arguments, "--connect") {
			t.Errorf("%s: the relay's arguments are %s", test.pod.Identity, arguments)
		}
	}
}

func TestMissingGuestRelayProgram(t *testing.T) {
	testlab.Root(t)
	lab := &captures{}
	pod := lab.machine(t, "machine")
	lab.set(pod)
	s, _ := supervisedWith(t, lab, Programs{Guests: Program{Path: "/nowhere/ktsn-relay-vhost", User: User{65533, 65533}}})
	eventually(t, "a failure", func() bool { return statusOf(s, &pod).Failure != nil })
	if message := statusOf(s, &pod).Failure.Error(); !strings.Contains(message, "there is no program /nowhere/ktsn-relay-vhost") {
		t.Errorf("it said %q", message)
	}
}

func TestGuestRelayLimit(t *testing.T) {
	machine := func() *attachment {
		return &attachment{relayed: attachments.RelayedAttachment{Device: device.Device{Kind: device.VhostUser}}}
	}
	running := machine()
	running.process = &process{}
	s := &Supervisor{Programs: Programs{Guests: Program{Most: 1}}, attached: map[string]*attachment{"a": running, "b": machine(), "c": {}}}
	if err := s.mayStart(s.attached["b"]); err == nil || !strings.Contains(err.Error(), "runs 1 relays of vhost-user already and starts no more") {
		t.Errorf("another machine's relay: %v", err)
	}
	if err := s.mayStart(s.attached["c"]); err != nil {
		t.Errorf("a captured pod's relay: %v", err)
	}
	s.Programs.Guests.Most = 0
	if err := s.mayStart(s.attached["b"]); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

func TestGuestRelayLimitPerNamespace(t *testing.T) {
	machine := func(namespace string, running bool) *attachment {
		a := &attachment{relayed: attachments.RelayedAttachment{Namespace: namespace, Device: device.Device{Kind: device.VhostUser}}}
		if running {
			a.process = &process{}
		}
		return a
	}
	s := &Supervisor{
		Programs: Programs{Guests: Program{Most: 4, MostOfNamespace: 2}},
		attached: map[string]*attachment{"1": machine("greedy", true)}, unended: []*attachment{machine("greedy", true)},
	}
	for namespace, want := range map[string]string{"greedy": "runs 2 relays of vhost-user for pods of namespace greedy already", "other": "", "": ""} {
		if err := s.mayStart(machine(namespace, false)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("namespace %q: %v, want %q", namespace, err, want)
		}
	}
	s.attached["2"], s.attached["3"] = machine("other", true), machine("third", true)
	if err := s.mayStart(machine("fourth", false)); err == nil || !strings.Contains(err.Error(), "--vhost-relays (value agent.vhostRelays") {
		t.Errorf("a full node: %v", err)
	}
}

// A process with a file of a file system that does not answer cannot be killed.
func TestUnkillableRelay(t *testing.T) {
	testlab.Root(t)
	silent := testlab.MountSilent(t)
	// os.Open would ask the file system whether the file can be polled, in a call that keeps Go's scheduler from running the
	// goroutine that answers.
	memory := filepath.Join(silent.Dir, "memory")
	fd, err := unix.Open(memory, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	testlab.Must(t, err)
	open := os.NewFile(uintptr(fd), memory)
	sleep, err := exec.LookPath("sleep")
	testlab.Must(t, err)
	s := &Supervisor{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), starter: newStarter(), attached: map[string]*attachment{}}
	defer s.starter.end()
	program := Program{Path: sleep, User: User{65533, 65533}}
	running, err := program.run(s.starter, []string{"60"}, []*os.File{open}, s.Log, func() {})
	testlab.Must(t, err)
	testlab.Must(t, open.Close())
	silent.Unanswered.Store(testlab.FuseFlush)
	stuck := &attachment{
		source: &capturedSource{}, process: running, log: s.Log,
		relayed: attachments.RelayedAttachment{Namespace: "greedy", Device: device.Device{Kind: device.VhostUser}},
	}
	began := time.Now()
	s.release([]*attachment{stuck})
	if took := time.Since(began); !running.running() || took > 2*endPatience+time.Second {
		t.Fatalf("it took %v, and the process runs: %t", took, running.running())
	}
	if count := s.running((*attachment).isOfGuest); count != 1 {
		t.Errorf("%d relays count, want the one that does not end", count)
	}
	silent.End()
	eventually(t, "its end", func() bool { return !running.running() })
	s.List, s.Changed = (&captures{}).List, (&captures{}).changed
	s.reconcile(time.Now())
	if count := s.running((*attachment).isOfGuest); count != 0 {
		t.Errorf("%d relays count after the end", count)
	}
}
