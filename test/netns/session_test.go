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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// sessionPort is the virtio port over which a test controls a virtual machine.
const sessionPort = "org.kubernetsn.test"

// session is a virtual machine that runs the test's scripts: ktsn-test-inside is its only program.
type session struct {
	machine guestmachine.Machine
	where   *topology.Namespace
	// dir contains its sockets and QEMU's process number. The machine sees machine.Out as guestmachine.OutDir.
	dir  string
	root string

	number  int
	port    net.Conn
	answers *bufio.Scanner
	qmp     *qmp
	end     context.CancelFunc
	// say adds other logs about the machine to a failure.
	say   func() string
	ended chan error
}

// newSession prepares a machine on a node. devices are QEMU's arguments, including a virtio-serial device.
func newSession(t *testing.T, where *topology.Namespace, processors int, devices ...string) *session {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	s := &session{where: where, dir: publicDir(t), root: root, say: func() string { return "" }}
	s.machine = guestmachine.Machine{
		Base: guestmachine.Kernel(t, root), First: testlab.Program(t, "ktsn-test-first"), Out: t.TempDir(), Processors: processors, MemoryMiB: sessionMiB,
		Shown: []string{root, testlab.BinDir(t)},
		// A relay without privileges connects to QEMU's sockets.
		QEMU: append([]string{"ip", "netns", "exec", where.Name(), "sh", "-c", `umask 0; exec "$0" "$@"`}, guestmachine.QEMU(t, root)...),
		Devices: append(devices, "-device", "virtserialport,chardev=test,name="+sessionPort,
			"-chardev", "socket,id=test,server=on,wait=off,path="+s.path("test.sock"),
			"-qmp", "unix:"+s.path("qmp.sock")+",server=on,wait=off", "-pidfile", s.path("pid")),
	}
	return s
}

// sessionMiB is the machine's memory, a memfd that a relay can share.
const sessionMiB = 384

func (s *session) path(name string) string { return filepath.Join(s.dir, name) }

// boot starts the machine. awaitReady waits until it is ready.
func (s *session) boot(t *testing.T) {
	t.Helper()
	for _, name := range []string{"test.sock", "qmp.sock", "pid"} {
		_ = os.Remove(s.path(name)) // left by a previous machine
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

// awaitReady waits until the machine accepts scripts.
func (s *session) awaitReady(t *testing.T) {
	t.Helper()
	s.port = s.dial(t, "test.sock")
	s.qmp = newQMP(t, s.dial(t, "qmp.sock"))
	s.awaitAgain(t)
}

// awaitAgain is awaitReady after a reset of the machine.
func (s *session) awaitAgain(t *testing.T) {
	t.Helper()
	s.answers = bufio.NewScanner(s.port)
	s.answers.Buffer(nil, 1<<20)
	if answer := s.answer(t, guestPatience); answer.Number != 0 {
		t.Fatalf("the virtual machine begins with %+v", answer)
	}
}

// dial connects to a socket of QEMU.
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

// answered is the reply of test/netns/inside.
type answered struct {
	Number, Status int
	Output         string
}

func (s *session) answer(t *testing.T, wait time.Duration) (got answered) {
	t.Helper()
	_ = s.port.SetReadDeadline(time.Now().Add(wait))
	if !s.answers.Scan() {
		log, _ := os.ReadFile(filepath.Join(s.machine.Out, guestmachine.LogFile))
		t.Fatalf("the virtual machine does not answer: %v\nits log: %s", s.answers.Err(), log)
	}
	if err := json.Unmarshal(s.answers.Bytes(), &got); err != nil {
		t.Fatalf("the virtual machine reports %q: %v", s.answers.Text(), err)
	}
	return got
}

// begin starts a shell script in the machine. finish waits for its end.
func (s *session) begin(t *testing.T, script string) (finish func(*testing.T) (string, error)) {
	t.Helper()
	s.number++
	bin := testlab.BinDir(t)
	request := map[string]any{"Number": s.number, "Script": fmt.Sprintf("PATH='%s':$PATH; inside=ktsn-test-inside\n%s", bin, script)}
	must(t, json.NewEncoder(s.port).Encode(request))
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

// run runs a script in the machine, which must succeed, and returns its output.
func (s *session) run(t *testing.T, script string, arguments ...any) string {
	t.Helper()
	script = fmt.Sprintf(script, arguments...)
	output, err := s.begin(t, script)(t)
	if err != nil {
		t.Fatalf("in the virtual machine: %s\n%v", script, err)
	}
	return output
}

// expectFailure returns the output of a script that must fail.
func (s *session) expectFailure(t *testing.T, script string, arguments ...any) string {
	t.Helper()
	script = fmt.Sprintf(script, arguments...)
	output, err := s.begin(t, script)(t)
	if err == nil {
		t.Errorf("in the virtual machine this succeeds: %s\n%s", script, output)
	}
	return output
}

// pid returns QEMU's process number.
func (s *session) pid(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(s.path("pid"))
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	return pid
}

// kill kills QEMU.
func (s *session) kill(t *testing.T) {
	t.Helper()
	must(t, syscall.Kill(s.pid(t), syscall.SIGKILL))
	<-s.ended
	s.ended = nil
}

// close shuts the machine down by ending its only program.
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
	case <-s.ended: // with the status of a program whose input is closed
	case <-time.After(patience):
		s.end()
		if err := <-s.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the virtual machine: %v", err)
		}
	}
	s.ended = nil
}

// bootPatience is the timeout for a machine with emulated CPUs on a busy host.
const bootPatience = 3 * time.Minute

// machineFiles returns the kernel and the initial file system of a machine whose first process is ktsn-test-machine.
func machineFiles(t *testing.T) (kernel, initial string) {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		testlab.Missing(t, "qemu-system-x86_64 is missing; run scripts/install-deps.sh conformance")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, "../../scripts/guest-kernel.sh").Output()
	if err != nil {
		testlab.Missing(t, "scripts/guest-kernel.sh: "+err.Error())
	}
	base := strings.TrimSpace(string(output))
	root := t.TempDir()
	names := []string{"init", "modules"}
	var modules strings.Builder
	for _, file := range machineModules(t, base) {
		name := filepath.Base(file)
		copyTo(t, file, filepath.Join(root, name))
		names = append(names, name)
		fmt.Fprintf(&modules, "/%s\n", name)
	}
	copyTo(t, program(t, "ktsn-test-machine"), filepath.Join(root, "init"))
	must(t, os.WriteFile(filepath.Join(root, "modules"), []byte(modules.String()), 0o600))
	pack := exec.CommandContext(t.Context(), "cpio", "-o", "-H", "newc", "--quiet", "-D", root)
	pack.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	archive, err := pack.Output()
	if err != nil {
		t.Fatalf("cpio: %v", err)
	}
	public := publicDir(t) // the machine runs without privileges
	kernel, initial = filepath.Join(public, "vmlinuz"), filepath.Join(public, "initial.cpio")
	copyTo(t, filepath.Join(base, "vmlinuz"), kernel)
	must(t, os.WriteFile(initial, archive, 0o644))
	return kernel, initial
}

// machineModules returns the kernel's modules for the device in the order of their dependencies.
func machineModules(t *testing.T, base string) (files []string) {
	t.Helper()
	folder := filepath.Join(base, "kernel")
	releases, err := os.ReadDir(filepath.Join(folder, "lib", "modules"))
	if err != nil || len(releases) != 1 {
		t.Fatalf("%d kernels are in %s: %v", len(releases), folder, err)
	}
	for _, module := range []string{"virtio_pci", "virtio_net", "af_packet"} {
		output, err := exec.CommandContext(t.Context(), "/usr/sbin/modprobe", "-d", folder, "-S", releases[0].Name(), "--show-depends", module).Output()
		if err != nil {
			t.Fatalf("modprobe %s: %v", module, err)
		}
		for line := range strings.Lines(string(output)) {
			if file, ok := strings.CutPrefix(strings.TrimSpace(line), "insmod "); ok {
				files = append(files, strings.Fields(file)[0])
			}
		}
	}
	return files
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o755)
	}
	must(t, err)
}

// toMachine returns a frame of pod b with a text.
func (r *guestRig) toMachine(text string) []byte {
	frame := r.frame(r.podB, text)
	copy(frame, r.podA)
	return frame
}

// awaitEcho sends frames to the machine until one comes back: a network device takes a moment to be ready again.
func (r *guestRig) awaitEcho(t *testing.T, send, there int, text string) {
	t.Helper()
	testlab.Eventually(t, patience, 0, func() error {
		if _, err := unix.Write(send, r.toMachine(text)); err != nil {
			t.Fatal(err)
		}
		if receiveFrame(t, there, 200*time.Millisecond) != nil {
			for receiveFrame(t, there, 200*time.Millisecond) != nil {
			}
			return nil
		}
		return fmt.Errorf("%q does not return; the relay's log: %s, and counted %+v", text, r.relay.Stderr(), r.count(t))
	})
}

// qmp is a connection to QEMU's control protocol (QMP).
type qmp struct {
	conn    net.Conn
	answers *json.Decoder
}

// newQMP connects and reads the greeting.
func newQMP(t *testing.T, conn net.Conn) *qmp {
	t.Helper()
	q := &qmp{conn, json.NewDecoder(conn)}
	var greeting map[string]any
	_ = conn.SetDeadline(time.Now().Add(patience))
	if err := q.answers.Decode(&greeting); err != nil || greeting["QMP"] == nil {
		t.Fatalf("QEMU greets with %v, %v", greeting, err)
	}
	q.do(t, "qmp_capabilities", nil)
	return q
}

// try executes a command and returns QEMU's error message.
func (q *qmp) try(t *testing.T, command string, arguments map[string]any) (refused string) {
	t.Helper()
	_ = q.conn.SetDeadline(time.Now().Add(patience))
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	must(t, json.NewEncoder(q.conn).Encode(request))
	for {
		var answer struct {
			Return any
			Error  *struct{ Desc string }
			Event  string
		}
		if err := q.answers.Decode(&answer); err != nil {
			t.Fatalf("QEMU does not answer %s: %v", command, err)
		}
		switch {
		case answer.Event != "":
		case answer.Error != nil:
			return answer.Error.Desc
		default:
			return ""
		}
	}
}

func (q *qmp) do(t *testing.T, command string, arguments map[string]any) {
	t.Helper()
	if refused := q.try(t, command, arguments); refused != "" {
		t.Fatalf("QEMU refuses %s: %s", command, refused)
	}
}
