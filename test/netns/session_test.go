// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// sessionPort is the virtio port by which a test tells a virtual machine what to do.
const sessionPort = "org.kubernetsn.test"

// session is a virtual machine that does what the test says: ktsn-test-inside is its only program.
type session struct {
	machine guestmachine.Machine
	where   *topology.Namespace
	// dir has its sockets and the number of QEMU's process; the machine sees machine.Out as guestmachine.OutDir.
	dir  string
	root string

	number  int
	port    net.Conn
	answers *bufio.Scanner
	qmp     *qmp
	end     context.CancelFunc
	// say adds to a failure what others say of the machine.
	say   func() string
	ended chan error
}

// newSession prepares a machine on a node. Devices are QEMU's arguments, with a virtio-serial device among them.
func newSession(t *testing.T, where *topology.Namespace, processors int, devices ...string) *session {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{where: where, dir: publicDir(t), root: root, say: func() string { return "" }}
	s.machine = guestmachine.Machine{
		Base: guestmachine.Kernel(t, root), First: testlab.Program(t, "ktsn-test-first"), Out: t.TempDir(), Processors: processors, MemoryMiB: sessionMiB,
		Shown: []string{root, testlab.BinDir(t)},
		// A relay without privileges connects to sockets of QEMU's.
		QEMU: append([]string{"ip", "netns", "exec", where.Name(), "sh", "-c", `umask 0; exec "$0" "$@"`}, guestmachine.QEMU(t, root)...),
		Devices: append(devices, "-device", "virtserialport,chardev=test,name="+sessionPort,
			"-chardev", "socket,id=test,server=on,wait=off,path="+s.path("test.sock"),
			"-qmp", "unix:"+s.path("qmp.sock")+",server=on,wait=off", "-pidfile", s.path("pid")),
	}
	return s
}

// sessionMiB is the machine's memory. Of a memfd, so that a relay can have it too.
const sessionMiB = 384

func (s *session) path(name string) string { return filepath.Join(s.dir, name) }

// boot starts the machine; await waits until it is there.
func (s *session) boot(t *testing.T) {
	t.Helper()
	for _, name := range []string{"test.sock", "qmp.sock", "pid"} {
		_ = os.Remove(s.path(name)) // of a machine before
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	s.end, s.ended = cancel, ended
	go func() {
		script := "for module in virtio_net virtio_console sch_ingress cls_bpf 8021q; do modprobe $module; done; exec \"$0\" serve " + sessionPort
		status, err := s.machine.Run(ctx, guestmachine.Command{Dir: "/", Arguments: []string{"sh", "-euc", script, testlab.Program(t, "ktsn-test-inside")}})
		if err == nil && status != 0 {
			err = fmt.Errorf("status %d", status)
		}
		ended <- err
	}()
}

// await returns when the machine can be told what to do.
func (s *session) await(t *testing.T) {
	t.Helper()
	s.port = s.dial(t, "test.sock")
	s.qmp = newQMP(t, s.dial(t, "qmp.sock"))
	s.awaitAgain(t)
}

// awaitAgain is await behind a reset of the machine.
func (s *session) awaitAgain(t *testing.T) {
	t.Helper()
	s.answers = bufio.NewScanner(s.port)
	s.answers.Buffer(nil, 1<<20)
	if answer := s.answer(t, guestPatience); answer.Number != 0 {
		t.Fatalf("the virtual machine begins with %+v", answer)
	}
}

// dial connects to a socket of QEMU's.
func (s *session) dial(t *testing.T, name string) net.Conn {
	t.Helper()
	return testlab.EventuallyValue(t, patience, 10*time.Millisecond, func() (net.Conn, error) {
		conn, err := net.Dial("unix", s.path(name))
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return conn, nil
		}
		select {
		case err := <-s.ended:
			t.Fatalf("the virtual machine has ended: %v", err)
		default:
		}
		return nil, fmt.Errorf("%v%s", err, s.say())
	})
}

// answered is reply of test/netns/inside.
type answered struct {
	Number, Status int
	Output         string
}

func (s *session) answer(t *testing.T, wait time.Duration) (got answered) {
	t.Helper()
	_ = s.port.SetReadDeadline(time.Now().Add(wait))
	if !s.answers.Scan() {
		log, _ := os.ReadFile(filepath.Join(s.machine.Out, guestmachine.LogFile))
		t.Fatalf("the virtual machine does not answer: %v\nit says: %s", s.answers.Err(), log)
	}
	if err := json.Unmarshal(s.answers.Bytes(), &got); err != nil {
		t.Fatalf("the virtual machine says %q: %v", s.answers.Text(), err)
	}
	return got
}

// begin has the machine run a script of the shell; finish waits for its end.
func (s *session) begin(t *testing.T, script string) (finish func(*testing.T) (string, error)) {
	t.Helper()
	s.number++
	bin := testlab.BinDir(t)
	request := map[string]any{"Number": s.number, "Script": fmt.Sprintf("PATH='%s':$PATH; inside=ktsn-test-inside\n%s", bin, script)}
	if err := json.NewEncoder(s.port).Encode(request); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) (string, error) {
		t.Helper()
		got := s.answer(t, time.Minute)
		if got.Number != s.number {
			t.Fatalf("the virtual machine answers %+v to request %d", got, s.number)
		}
		if got.Status != 0 {
			return got.Output, fmt.Errorf("status %d: %s", got.Status, got.Output)
		}
		return got.Output, nil
	}
}

// run has the machine run a script, which must succeed, and returns what it said.
func (s *session) run(t *testing.T, script string, arguments ...any) string {
	t.Helper()
	script = fmt.Sprintf(script, arguments...)
	output, err := s.begin(t, script)(t)
	if err != nil {
		t.Fatalf("in the virtual machine: %s\n%v", script, err)
	}
	return output
}

// fails returns what a script said that must not succeed.
func (s *session) fails(t *testing.T, script string, arguments ...any) string {
	t.Helper()
	script = fmt.Sprintf(script, arguments...)
	output, err := s.begin(t, script)(t)
	if err == nil {
		t.Errorf("in the virtual machine this succeeds: %s\n%s", script, output)
	}
	return output
}

// pid is QEMU's.
func (s *session) pid(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(s.path("pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// kill ends QEMU as a crash would.
func (s *session) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(s.pid(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	s.ended = nil
}

// close turns the machine off, by the end of its only program.
func (s *session) close(t *testing.T) {
	t.Helper()
	if s.ended == nil {
		return
	}
	defer s.end()
	if s.port != nil {
		s.port.Close()
	}
	select {
	case <-s.ended: // with the status of a program that nobody speaks to any more
	case <-time.After(patience):
		s.end()
		if err := <-s.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the virtual machine: %v", err)
		}
	}
	s.ended = nil
}
