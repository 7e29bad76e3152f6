// SPDX-License-Identifier: Apache-2.0

// Package netns_test tests the whole path of a packet in network namespaces: the built programs and the real kernel, with one
// namespace for each node and pod. It needs root and the programs of `make build` (in KTSN_BIN_DIR, default bin/). Without them
// tests are skipped; with KTSN_REQUIRE=1 or CI=true they fail.
//
// The tests check that no message is lost, changed, early or out of order, and that nothing remains afterwards. None of this
// depends on the speed of the machine: `ktsn demo` measures latency, and bench/test tests it.
//
// A test that mostly waits calls t.Parallel (`make test` runs four at a time): its namespaces and folders are its own. A test
// that floods, measures or kills under load runs alone, or in parallel with its own subtests only.
package netns_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

const (
	identity   = "test-pod-a"
	listenPort = 7788
	// patience is the timeout of operations that take milliseconds on an idle machine.
	patience = 20 * time.Second
	// nobody is a user without privileges.
	nobody = 65534
)

// must fails the test if a step that it needs has failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within returns the result of an action in a network namespace.
func within[T any](t *testing.T, where testlab.Namespace, action func() (T, error)) (result T) {
	t.Helper()
	must(t, where.Do(func() (err error) {
		result, err = action()
		return err
	}))
	return result
}

// newNamespace creates a network namespace until the end of the test.
func newNamespace(t *testing.T, name string) *topology.Namespace {
	t.Helper()
	created, err := topology.NewNamespace(name)
	must(t, err)
	t.Cleanup(func() {
		if err := created.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return created
}

// program returns the path of a built program. It skips the test without the program or without root.
func program(t *testing.T, name string) string {
	t.Helper()
	testlab.Root(t)
	return testlab.Program(t, name)
}

// lab is a topology with the ktsnd of node a, once started.
type lab struct {
	*topology.Topology
	// dir is accessible to every user, unlike the topology's own folder.
	dir     string
	control string
	socket  string
	// library replaces the libktsn.so of this build if it is not empty.
	library string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabWith(t, func(*cniruntime.Wiring) {})
}

// newLabWithPass returns a lab whose pods send messages with a transmit time through the kernel if they do not use
// libktsn.
func newLabWithPass(t *testing.T) *lab {
	t.Helper()
	return newLabWith(t, func(wiring *cniruntime.Wiring) { wiring.A.LetPass() })
}

func newLabWith(t *testing.T, prepare func(*cniruntime.Wiring)) *lab {
	t.Helper()
	lab, wiring := newUnattached(t)
	prepare(wiring)
	must(t, wiring.AttachBoth(t.Context()))
	return lab
}

// newUnattached returns a lab whose pods have no interface yet.
func newUnattached(t *testing.T) (*lab, *cniruntime.Wiring) {
	t.Helper()
	plugins := filepath.Dir(program(t, "tsn-cni"))
	for _, name := range append(cniruntime.Plugins, "ktsnd") {
		program(t, name)
	}
	nodes, err := topology.Create(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if err := nodes.Destroy(); err != nil {
			t.Error(err)
		}
	})
	// Most tests configure ktsnd themselves.
	wiring := cniruntime.Wire(nodes, plugins, identity)
	dir := publicDir(t)
	l := &lab{Topology: nodes, dir: dir, control: filepath.Join(dir, "control.sock"), socket: filepath.Join(dir, "app.sock")}
	return l, wiring
}

// publicDir creates a folder with a short name that every user can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ktsn-test-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// startDaemon starts ktsnd on node a, attaches pod a and waits until both are ready.
func (l *lab) startDaemon(t *testing.T, options ...string) (*process.Process, *control.Client) {
	t.Helper()
	return l.startDaemonBy(t, exec.Command(program(t, "ktsnd"), append(l.daemonArguments(), options...)...))
}

// startDaemonBy is startDaemon for a command that executes ktsnd.
func (l *lab) startDaemonBy(t *testing.T, command *exec.Cmd) (*process.Process, *control.Client) {
	t.Helper()
	daemon := start(t, l.NodeA, "ktsnd", command)
	client := connect(t, daemon, l.control)
	l.attach(t, client, daemon)
	return daemon, client
}

// startUnattached starts ktsnd on node a without pods.
func (l *lab) startUnattached(t *testing.T, options ...string) (*process.Process, *control.Client) {
	t.Helper()
	return startDaemonOn(t, l.NodeA, l.control, topology.NodeAddressA, options...)
}

// startDaemonOn starts ktsnd on a node without pods.
func startDaemonOn(t *testing.T, node *topology.Namespace, path string, address netip.Addr, options ...string) (*process.Process, *control.Client) {
	t.Helper()
	arguments := append([]string{"--interface", topology.PhysicalInterface, "--local-address", address.String(), "--control", path}, options...)
	daemon := start(t, node, "ktsnd", exec.Command(program(t, "ktsnd"), arguments...))
	return daemon, connect(t, daemon, path)
}

// attach configures pod a and node b in ktsnd in the agents' order: the socket comes last.
func (l *lab) attach(t *testing.T, client *control.Client, daemon *process.Process) {
	t.Helper()
	ctx := t.Context()
	err := errors.Join(
		client.PeerAdd(ctx, control.Peer{VNI: topology.VNI, Address: topology.NodeAddressB,
			Subnets: []netip.Prefix{topology.PodSubnetB}}),
		client.EndpointAdd(ctx, l.endpoint()),
		client.SocketAdd(ctx, identity, l.socket))
	if err != nil {
		t.Fatalf("attach pod a: %v\nktsnd's log: %s", err, daemon.Stderr())
	}
}

// endpoint returns pod a's interface.
func (l *lab) endpoint() control.Endpoint {
	return control.Endpoint{Identity: identity, Interface: topology.PodInterface, Netns: l.PodA.Path(), VNI: topology.VNI}
}

func (l *lab) daemonArguments() []string {
	return []string{"--interface", topology.PhysicalInterface, "--local-address", topology.NodeAddressA.String(),
		"--control", l.control}
}

// connect waits until ktsnd answers.
func connect(t *testing.T, daemon *process.Process, path string) *control.Client {
	t.Helper()
	return testlab.EventuallyValue(t, patience, 10*time.Millisecond, func() (*control.Client, error) {
		client, err := control.Dial(t.Context(), path)
		if err == nil {
			t.Cleanup(func() { client.Close() })
			if _, err := client.Status(t.Context()); err != nil {
				t.Fatalf("ktsnd does not answer: %v\nits log: %s", err, daemon.Stderr())
			}
			return client, nil
		}
		select {
		case <-daemon.Done():
			t.Fatal(daemon.Ended())
		default:
		}
		return nil, fmt.Errorf("ktsnd does not listen: %v\nits log: %s", err, daemon.Stderr())
	})
}

// start starts a program in a namespace. The end of the test ends it.
func start(t *testing.T, where *topology.Namespace, name string, command *exec.Cmd) *process.Process {
	t.Helper()
	started, err := process.Start(where, name, command)
	must(t, err)
	t.Cleanup(func() {
		if err := started.Stop(patience); err != nil {
			t.Errorf("%v\nits log: %s", err, started.Stderr())
		}
	})
	return started
}

// dialogue is a program that answers commands line by line.
type dialogue struct {
	*process.Process
	stdin  io.WriteCloser
	stdout *bufio.Scanner
}

// startDialogue starts a program with pipes. Unlike exec's own pipe, its output remains readable after its end.
func startDialogue(t *testing.T, where *topology.Namespace, name string, command *exec.Cmd) dialogue {
	t.Helper()
	stdin, err := command.StdinPipe()
	must(t, err)
	readable, writable, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { readable.Close() })
	command.Stdout = writable
	started := start(t, where, name, command)
	writable.Close()
	return dialogue{started, stdin, bufio.NewScanner(readable)}
}

// request sends a command.
func (d *dialogue) request(t *testing.T, words ...any) {
	t.Helper()
	if _, err := fmt.Fprintln(d.stdin, words...); err != nil {
		t.Fatalf("%v; its log: %s", err, d.Stderr())
	}
}

// line returns the next line of output.
func (d *dialogue) line(t *testing.T) string {
	t.Helper()
	if !d.stdout.Scan() {
		t.Fatalf("%s prints nothing more: %v; its log: %s", d.Name(), d.stdout.Err(), d.Stderr())
	}
	return d.stdout.Text()
}

// ask sends a command and returns the line that answers it.
func (d *dialogue) ask(t *testing.T, words ...any) string {
	t.Helper()
	d.request(t, words...)
	return d.line(t)
}

// script returns a Python program of testdata with libktsn that sends to pod b.
func (l *lab) script(t *testing.T, name string, further ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(python(t), append([]string{"testdata/" + name, topology.PodAddressB.String(), strconv.Itoa(listenPort)}, further...)...)
	command.Env = l.preloaded(t)
	return command
}

// awaitEnd closes the program's input and waits for its end.
func (d *dialogue) awaitEnd(t *testing.T) {
	t.Helper()
	d.stdin.Close()
	if err := finish(t, d.Process); err != nil {
		t.Error(err)
	}
}

// finish waits for the end of a program and returns the error of Wait.
func finish(t *testing.T, running *process.Process) error {
	t.Helper()
	select {
	case <-running.Done():
		return running.Wait()
	case <-time.After(patience):
		t.Fatalf("%s does not end; its log: %s\nits threads:\n%s", running.Name(), running.Stderr(), running.Threads())
		return nil
	}
}

// preloaded returns the environment of an application that uses libktsn.
func (l *lab) preloaded(t *testing.T) []string {
	t.Helper()
	library := l.library
	if library == "" {
		library = program(t, "libktsn.so")
	}
	return append(os.Environ(), "LD_PRELOAD="+library, "KTSN_SOCKET="+l.socket)
}

// asNobody makes a command run without privileges. Its files must be readable for everybody.
func asNobody(command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return command
}

// publicCopy copies a program to a folder where every user can run it.
func publicCopy(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(program(t, name))
	must(t, err)
	path := filepath.Join(publicDir(t), name)
	// Independent of the umask.
	must(t, errors.Join(os.WriteFile(path, content, 0o755), os.Chmod(path, 0o755)))
	return path
}

// traffic describes the messages of one talker to one listener.
type traffic struct {
	count        int
	payloadBytes int
	// talkerOptions are further options. environment nil means this process's.
	talkerOptions []string
	environment   []string
}

// observed contains the results of a traffic.
type observed struct {
	sent     []tsnperf.Sent
	received []tsnperf.Received
	packets  []*wiretap.Datagram
	// wireTAI is the time of each packet on the wire.
	wireTAI []int64
}

// run sends from pod a to pod b and captures at the receiving end of the link.
func (l *lab) run(t *testing.T, what traffic) *observed {
	t.Helper()
	tap := l.openTap(t, what.count)
	f := listenFor(t, l.PodB, atPodB, what.count)
	arguments := append([]string{"talker", "--quiet", "--clock", "tai", "--csv", f.talkerFile, "--to", atPodB.String(),
		"--count", strconv.Itoa(what.count), "--size", strconv.Itoa(what.payloadBytes)}, what.talkerOptions...)
	command := exec.Command(program(t, "tsnperf"), arguments...)
	command.Env = what.environment
	f.talker = start(t, l.PodA, "talker", command)
	f.finish(t)
	seen := &observed{sent: f.sent, received: f.received}
	seen.addPackets(t, tap)
	return seen
}

func (l *lab) openTap(t *testing.T, count int) *wiretap.Tap {
	t.Helper()
	return within(t, l.NodeB, func() (*wiretap.Tap, error) { return wiretap.Open(topology.PhysicalInterface, 2*count+1000) })
}

// awaitWire waits until the tap has captured count matching frames. A frame that ktsnd has sent may still be in a
// backlog of the kernel.
func awaitWire(t *testing.T, tap *wiretap.Tap, count int, matches func(wiretap.Packet) bool) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		packets, err := tap.Seen()
		must(t, err)
		seen := 0
		for _, packet := range packets {
			if matches(packet) {
				seen++
			}
		}
		if seen >= count {
			return nil
		}
		return fmt.Errorf("%d frames on the wire, want %d", seen, count)
	})
}

// stopTap ends a tap, which must not have dropped any frame, and returns its frames.
func stopTap(t *testing.T, tap *wiretap.Tap) []wiretap.Packet {
	t.Helper()
	capture, err := tap.Stop()
	must(t, err)
	if capture.Drops > 0 {
		t.Fatalf("the tap dropped %d frames", capture.Drops)
	}
	return capture.Packets
}

// addPackets adds the tap's messages of tsnperf.
func (o *observed) addPackets(t *testing.T, tap *wiretap.Tap) {
	t.Helper()
	for _, packet := range stopTap(t, tap) {
		datagram, err := wiretap.Dissect(packet.Head)
		if errors.Is(err, wiretap.ErrOther) {
			continue
		}
		must(t, err)
		o.packets = append(o.packets, datagram)
		o.wireTAI = append(o.wireTAI, packet.TAI)
	}
}

// unlimited is a number of messages that no talker reaches: the listener runs until it is drained.
const unlimited = 1000000

// startListener starts tsnperf's listener and returns when it listens.
func startListener(t *testing.T, pod *topology.Namespace, at netip.AddrPort, count int, file string) *process.Process {
	t.Helper()
	return startListenerIn(t, pod, at, count, file, nil)
}

// startListenerIn is startListener with an environment; nil is this process's.
func startListenerIn(t *testing.T, pod *topology.Namespace, at netip.AddrPort, count int, file string, environment []string) *process.Process {
	t.Helper()
	first, idle := patience/2, patience/4
	if count == unlimited { // the time between two messages may include a start of ktsnd
		first, idle = time.Hour, time.Hour
	}
	readable, writable, err := os.Pipe()
	must(t, err)
	defer readable.Close()
	command := exec.Command(program(t, "tsnperf"), "listener", "--block", "--quiet", "--csv", file,
		"--bind", at.String(),
		"--count", strconv.Itoa(count), "--ready-fd", "3", "--first-timeout", seconds(first), "--idle-timeout", seconds(idle))
	command.ExtraFiles, command.Env = []*os.File{writable}, environment
	listener := start(t, pod, "listener", command)
	writable.Close()
	_ = readable.SetReadDeadline(time.Now().Add(patience))
	if _, err := readable.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the listener is not ready: %v; its log: %s", err, listener.Stderr())
	}
	return listener
}

func seconds(duration time.Duration) string { return strconv.Itoa(int(duration.Seconds())) + "s" }

// drain ends a listener when it has received everything that was sent to it.
func drain(t *testing.T, listener *process.Process) {
	t.Helper()
	time.Sleep(500 * time.Millisecond) // for frames in the kernel's backlog
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if unread(t, listener) > 0 {
			return fmt.Errorf("the listener does not read; its log: %s", listener.Stderr())
		}
		return nil
	})
	interrupt(t, listener)
}

// unread returns the bytes that wait in the UDP sockets of a process: proc(5), /proc/net/udp.
func unread(t *testing.T, running *process.Process) uint64 {
	t.Helper()
	const queues, inode = 4, 9
	descriptors := descriptorsOf(t, running.PID())
	bytes := uint64(0)
	for _, name := range []string{"udp", "udp6"} {
		table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", running.PID(), name))
		must(t, err)
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line)
			if len(fields) <= inode || !slices.Contains(descriptors, "socket:["+fields[inode]+"]") {
				continue
			}
			_, receive, _ := strings.Cut(fields[queues], ":")
			waiting, err := strconv.ParseUint(receive, 16, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			bytes += waiting
		}
	}
	return bytes
}

// descriptorsOf returns the open descriptors of a process: "socket:[INODE]", "anon_inode:[KIND]" or a path.
func descriptorsOf(t *testing.T, pid int) []string {
	t.Helper()
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(folder)
	must(t, err)
	var all []string
	for _, entry := range entries {
		if to, err := os.Readlink(filepath.Join(folder, entry.Name())); err == nil {
			all = append(all, to)
		}
	}
	return all
}

// interfaceMAC returns the hardware address of the pod's interface.
func interfaceMAC(t *testing.T, pod *topology.Namespace) net.HardwareAddr {
	t.Helper()
	return interfaceMACOf(t, pod, topology.PodInterface)
}

func interfaceMACOf(t *testing.T, where *topology.Namespace, name string) net.HardwareAddr {
	t.Helper()
	var mac net.HardwareAddr
	must(t, where.Do(func() error {
		link, err := net.InterfaceByName(name)
		if err == nil {
			mac = link.HardwareAddr
		}
		return err
	}))
	return mac
}

func statusOf(t *testing.T, client *control.Client) *control.Status {
	t.Helper()
	status, err := client.Status(t.Context())
	must(t, err)
	return status
}

func counters(t *testing.T, client *control.Client) control.Counters {
	t.Helper()
	return statusOf(t, client).Counters
}

// awaitStatus waits until ktsnd's status satisfies a condition.
func awaitStatus(t *testing.T, client *control.Client, what string, condition func(*control.Status) bool) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		status := statusOf(t, client)
		if condition(status) {
			return nil
		}
		return fmt.Errorf("not so: %s; ktsnd has %+v", what, status)
	})
}

// awaitCounters waits until ktsnd's counters satisfy a condition.
func awaitCounters(t *testing.T, client *control.Client, what string, condition func(control.Counters) bool) {
	t.Helper()
	awaitStatus(t, client, what, func(status *control.Status) bool { return condition(status.Counters) })
}

// awaitSettled waits until all handed-over messages have left or were dropped, and returns ktsnd's final counters. The
// applications must have ended or be about to end: ktsnd forgets a process when its ring is empty. A message in the
// ring of a running application is taken without a doorbell if its time is far enough away, and does not count as
// pending before.
func awaitSettled(t *testing.T, client *control.Client) control.Counters {
	t.Helper()
	return testlab.EventuallyValue(t, patience, 10*time.Millisecond, func() (control.Counters, error) {
		left := unsettled(t, client) // first, so that the counters read next include ended processes
		status := statusOf(t, client)
		if left == 0 && status.Pending == 0 {
			return status.Counters, nil
		}
		return control.Counters{}, fmt.Errorf("%d messages stay pending, of %d processes", status.Pending, left)
	})
}

// unsettled returns the number of processes whose ring ktsnd has, including those that have ended.
func unsettled(t *testing.T, client *control.Client) uint64 {
	t.Helper()
	pods, err := client.Pods(t.Context())
	must(t, err)
	left := uint64(0)
	for _, pod := range pods {
		left += pod.Processes + pod.RelayConnections
	}
	return left
}

// python returns the path of CPython, whose socket module is independent of this project.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		testlab.Missing(t, "python3 is missing; install it")
	}
	return path
}

func TestMain(m *testing.M) { os.Exit(cniruntime.TestMain(m)) }
