// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// instance is a ktsnd of node a as in a pod.
type instance struct {
	*process.Process
	name, folder string
}

// instanceFolder creates the folder that lives as long as the instance's pod.
func (l *lab) instanceFolder(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(l.dir, name)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return folder
}

// startInstance starts or restarts the instance's container.
func (l *lab) startInstance(t *testing.T, name string, options ...string) *instance {
	t.Helper()
	folder := l.instanceFolder(t, name)
	arguments := append(l.daemonArguments(), "--take-over", "--instance-dir", folder, "--instance-name", name)
	started := start(t, l.NodeA, "ktsnd "+name, exec.Command(program(t, "ktsnd"), append(arguments, options...)...))
	return &instance{started, name, folder}
}

// awaitState waits until the instance logs a state.
func (i *instance) awaitState(t *testing.T, state string) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		answer, err := control.Probe(ctx, i.folder)
		cancel()
		if err == nil && answer.State == state && answer.Instance == i.name {
			return nil
		}
		return fmt.Errorf("instance %s is %+v, %v, want it %s; its log: %s", i.name, answer, err, state, i.Stderr())
	})
}

// startServing starts an instance, waits until it serves, and configures it like the agents.
func (l *lab) startServing(t *testing.T, name string, options ...string) (*instance, *control.Client) {
	t.Helper()
	started := l.startInstance(t, name, options...)
	started.awaitState(t, control.StateServing)
	client := connect(t, started.Process, l.control)
	l.attach(t, client, started.Process)
	return started, client
}

// upgrade starts an instance that takes over from another, which then stands by.
func (l *lab) upgrade(t *testing.T, before *instance, name string, options ...string) (*instance, *control.Client) {
	t.Helper()
	after := l.startInstance(t, name, options...)
	after.awaitState(t, control.StateServing)
	before.awaitState(t, control.StateStandingBy)
	return after, connect(t, after.Process, l.control)
}

// terminate ends an instance with SIGTERM like kubelet.
func (i *instance) terminate(t *testing.T) {
	t.Helper()
	must(t, syscall.Kill(i.PID(), syscall.SIGTERM))
	if err := finish(t, i.Process); err != nil {
		t.Errorf("instance %s, terminated: %v", i.name, err)
	}
}

// awaitInstance waits until one instance serves the node and the others stand by.
func (l *lab) awaitInstance(t *testing.T, name string, standingBy ...string) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		client, err := control.Dial(t.Context(), l.control)
		var got *control.Instance
		if err == nil {
			got, err = client.Instance(t.Context())
			client.Close()
		}
		if err == nil && got.Name == name && slices.Equal(slices.Sorted(slices.Values(got.StandingBy)), standingBy) {
			return nil
		}
		return fmt.Errorf("the node's instance is %+v, %v, want %s, and standing by %v", got, err, name, standingBy)
	})
}

// statusField returns a line of proc(5), /proc/PID/status, in kB or as a plain number.
func statusField(t *testing.T, pid int, name string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			number, err := strconv.Atoi(strings.Fields(value)[0])
			must(t, err)
			return number
		}
	}
	t.Fatalf("process %d has no %s", pid, name)
	return 0
}

func TestNewerInstanceServesAndOlderStandsBy(t *testing.T) {
	content(t)
	lab := newLab(t)
	older, _ := lab.startServing(t, "older")
	younger, client := lab.upgrade(t, older, "younger")
	lab.awaitInstance(t, "younger", "older")
	if output := lab.ask(t, "status"); !strings.Contains(output, "younger; standing by: older") {
		t.Errorf("status prints\n%s", output)
	}
	if have, err := process.Children(older.PID()); err != nil || len(have) != 0 || statusField(t, older.PID(), "Threads") != 1 {
		t.Errorf("the one that stands by has processes %v and %d threads", have, statusField(t, older.PID(), "Threads"))
	}
	if kib := statusField(t, older.PID(), "RssAnon"); kib > 4096 && !testlab.Sanitized() {
		t.Errorf("the one that stands by has %d KiB of memory", kib)
	} else {
		t.Logf("the one that stands by has %d KiB of memory of its own", kib)
	}
	// Wake-ups show a process that polls, on machines of any speed. It may still have to receive
	// the confirmation that it stands by.
	const wakes = 2
	before := statusField(t, older.PID(), "voluntary_ctxt_switches")
	lab.receive(t, 1, func() { lab.sendAt(t, nil, 500*time.Millisecond, "text") })
	if woke := statusField(t, older.PID(), "voluntary_ctxt_switches") - before; woke > wakes {
		t.Errorf("the one that stands by woke up %d times, want %d at most", woke, wakes)
	}
	older.terminate(t)
	lab.awaitInstance(t, "younger")
	if status, err := client.Status(t.Context()); err != nil || status.Sockets != 1 {
		t.Errorf("the end of the older leaves %+v, %v", status, err)
	}
	for _, path := range []string{lab.control, lab.socket} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("the end of the older took a socket of the younger: %v", err)
		}
	}
	lab.receive(t, 1, func() { lab.sendAt(t, nil, 10*time.Millisecond, "text") })
	younger.terminate(t)
	for _, path := range []string{lab.control, lab.socket, filepath.Join(younger.folder, "probe.sock")} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the end of the last left %s: %v", path, err)
		}
	}
}

func bootID(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	return strings.TrimSpace(string(text))
}

// olderThanAll creates the folder of an instance that is older than all others of this boot.
func (l *lab) olderThanAll(t *testing.T, name string) {
	t.Helper()
	born := filepath.Join(l.instanceFolder(t, name), "born")
	must(t, os.WriteFile(born, []byte(bootID(t)+" 1\n"), 0o600))
}

func TestOlderInstanceStandsByAtOnce(t *testing.T) {
	content(t)
	lab := newLab(t)
	serving, client := lab.startServing(t, "serving")
	before := statusOf(t, client)
	lab.olderThanAll(t, "older")
	for range 2 { // a restarted container keeps its age
		older := lab.startInstance(t, "older")
		older.awaitState(t, control.StateStandingBy)
		lab.awaitInstance(t, "serving", "older")
		older.terminate(t)
	}
	after, err := client.Status(t.Context())
	if err != nil || after.PID != before.PID || strings.Contains(serving.Stderr(), "take over") {
		t.Errorf("the one that serves was asked to hand over: %v; its log: %s", err, serving.Stderr())
	}
}

// TestInstanceRetriesTakeOverOnce ends the older of two pods while the younger one serves, as Kubernetes does. After a
// rollback during an upgrade the older one is wanted, and the younger one is ended as soon as it serves.
func TestInstanceRetriesTakeOverOnce(t *testing.T) {
	content(t)
	lab := newLab(t)
	older, _ := lab.startServing(t, "older")
	younger, client := lab.upgrade(t, older, "younger")
	before := statusOf(t, client)
	lab.awaitInstance(t, "younger", "older")
	awaitLogFor(t, older.Process, "stood by for 30 s without being ended", time.Minute)
	older.awaitState(t, control.StateServing)
	younger.awaitState(t, control.StateStandingBy)
	lab.awaitInstance(t, "older", "younger")
	if after, err := connect(t, older.Process, lab.control).Status(t.Context()); err != nil || after.Sockets != before.Sockets || after.Endpoints != before.Endpoints {
		t.Errorf("it has taken over %+v, %v, of %+v", after, err, before)
	}
	lab.receive(t, 1, func() { lab.sendAt(t, nil, 10*time.Millisecond, "text") })
	younger.terminate(t)
	// It remains the younger one after a restart of its container.
	older.terminate(t)
	again := lab.startInstance(t, "older")
	again.awaitState(t, control.StateServing)
}

// listenAsKtsnd listens in the place of the serving ktsnd.
func (l *lab) listenAsKtsnd(t *testing.T) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: l.control, Net: "unixpacket"})
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener
}

// acceptRequest waits for a request for the version and returns a function that answers as the youngest instance.
func acceptRequest(t *testing.T, listener *net.UnixListener) (conn *net.UnixConn, answer func()) {
	t.Helper()
	conn, err := listener.AcceptUnix()
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	request := make([]byte, 4096)
	count, err := conn.Read(request)
	if err != nil || !strings.Contains(string(request[:count]), `"instance"`) {
		t.Fatalf("asked %q, %v", request[:count], err)
	}
	return conn, func() {
		t.Helper()
		if _, err := conn.Write([]byte(`{"version":1,"reply":"instance","instance":{"name":"youngest","boot-id":"` + bootID(t) +
			`","born-ns":9000000000000000000,"standing-by":[]}}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInstanceRetriesTakeOverOnceAnswered checks an instance whose serving process is busy or restarting when its
// timeout expires.
func TestInstanceRetriesTakeOverOnceAnswered(t *testing.T) {
	content(t)
	lab := newLab(t)
	listener := lab.listenAsKtsnd(t)
	lab.olderThanAll(t, "older")
	older := lab.startInstance(t, "older")
	conn, answer := acceptRequest(t, listener)
	answer()
	older.awaitState(t, control.StateStandingBy)
	conn.Close()
	_, answer = acceptRequest(t, listener)
	time.Sleep(31 * time.Second)
	answer()
	awaitLogFor(t, older.Process, "stood by for 30 s without being ended", patience)
	listener.Close()
	older.awaitState(t, control.StateServing)
}

// say sends one message on the control socket and returns the answer.
func (l *lab) say(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.Dial("unixpacket", l.control)
	must(t, err)
	defer conn.Close()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	count, err := conn.Read(answer)
	must(t, err)
	return string(answer[:count])
}

// TestTakeOverByOlderInstanceIsRejected requests a hand-over from an older instance: another instance can start to
// serve between the successor's check and its request.
func TestTakeOverByOlderInstanceIsRejected(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startServing(t, "serving")
	serving, err := client.Instance(t.Context())
	must(t, err)
	for request, want := range map[string]string{
		`{"version":1,"request":"take-over","records":3,"boot-id":"` + serving.BootID + `","born-ns":1}`:  "the younger goes on",
		`{"version":1,"request":"take-over","records":1,"boot-id":"","born-ns":0}`:                        "records",
		`{"version":1,"request":"take-over","records":3,"boot-id":"earlier","born-ns":99999999999999999}`: "the younger goes on",
	} {
		if reply := lab.say(t, request); !strings.Contains(reply, want) {
			t.Errorf("%s is answered %s, want %q", request, reply, want)
		}
	}
	lab.receive(t, 1, func() { lab.sendAt(t, nil, 10*time.Millisecond, "text") })
}

// fillBacklog connects to a stopped ktsnd until its backlog is full.
func (l *lab) fillBacklog(t *testing.T) {
	t.Helper()
	for range 10000 {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		must(t, err)
		t.Cleanup(func() { _ = syscall.Close(fd) })
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: l.control})
		if errors.Is(err, syscall.EAGAIN) {
			return
		}
		must(t, err)
	}
	t.Fatal("there is room for ever more connections")
}

// TestInstanceWaitsForStalledInstance checks that an instance that waits for a stalled one answers and can be ended:
// kubelet ends the stalled one.
func TestInstanceWaitsForStalledInstance(t *testing.T) {
	content(t)
	lab := newLab(t)
	serving, client := lab.startServing(t, "serving")
	must(t, syscall.Kill(statusOf(t, client).PID, syscall.SIGSTOP))
	lab.fillBacklog(t)
	checkRefusal(t, lab.NodeA, exec.Command(program(t, "ktsnd"), lab.daemonArguments()...), "a running process listens there")
	instance := lab.startInstance(t, "told")
	instance.awaitState(t, control.StateStarting)
	instance.terminate(t)
	younger := lab.startInstance(t, "younger")
	younger.awaitState(t, control.StateStarting)
	kill(t, serving.Process)
	younger.awaitState(t, control.StateServing)
}

// TestUnansweredInstanceStartsWithoutTakeOver stalls the serving instance at different moments, also after it has
// answered the version.
func TestUnansweredInstanceStartsWithoutTakeOver(t *testing.T) {
	content(t)
	lab := newLab(t)
	serving, _ := lab.startServing(t, "serving")
	target := lab.control
	lab.control = filepath.Join(lab.dir, "hanging.sock")
	var hung atomic.Bool
	ended := make(chan struct{})
	startRelay(t, lab.control, target, func(m message) bool {
		if step(m) != stepRequest || hung.Swap(true) { // the second attempt
			return true
		}
		<-ended
		return false
	})
	t.Cleanup(func() { close(ended) })
	younger := lab.startInstance(t, "younger")
	lab.control = target
	awaitLogFor(t, younger.Process, "did not hand over: it did not answer in time", time.Minute)
	younger.awaitState(t, control.StateServing)
	serving.awaitState(t, control.StateStandingBy)
}

// TestRejectedInstanceDoesNotRetry rejects connections at once or at the first request, as an instance without free
// descriptors does.
func TestRejectedInstanceDoesNotRetry(t *testing.T) {
	content(t)
	lab := newLab(t)
	listener := lab.listenAsKtsnd(t)
	instance := lab.startInstance(t, "instance")
	const most = 10 // it retries every 100 ms
	times := 0
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; times += 2 {
		conn, _ := acceptRequest(t, listener)
		conn.Close()
		conn, err := listener.AcceptUnix()
		must(t, err)
		conn.Close()
	}
	instance.awaitState(t, control.StateStarting)
	if times > most {
		t.Errorf("it asked %d times in half a second, want %d at most", times, most)
	}
	if log := instance.Stderr(); log != "" {
		t.Errorf("its log: %s", log)
	}
	listener.Close()
	instance.awaitState(t, control.StateServing)
}

// TestInstanceEndsWithServingProcess starts ktsnd with SIGCHLD ignored, which is inherited.
func TestInstanceEndsWithServingProcess(t *testing.T) {
	content(t)
	lab := newLab(t)
	folder := lab.instanceFolder(t, "only")
	arguments := append([]string{"--ignore-signal=CHLD", program(t, "ktsnd")}, lab.daemonArguments()...)
	only := start(t, lab.NodeA, "ktsnd", exec.Command("env", append(arguments, "--take-over", "--instance-dir", folder)...))
	client := connect(t, only, lab.control)
	status, err := client.Status(t.Context())
	must(t, err)
	must(t, syscall.Kill(status.PID, syscall.SIGKILL))
	var exit *exec.ExitError
	if err := finish(t, only); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGKILL) {
		t.Errorf("it ended with %v", err)
	}
}

func TestStandbyInstanceServesAfterKill(t *testing.T) {
	content(t)
	lab := newLab(t)
	older, _ := lab.startServing(t, "older")
	younger, _ := lab.upgrade(t, older, "younger")
	kill(t, younger.Process)
	older.awaitState(t, control.StateServing)
	client := connect(t, older.Process, lab.control)
	lab.attach(t, client, older.Process)
	lab.receive(t, 1, func() { lab.sendAt(t, nil, 10*time.Millisecond, "text") })
	// Kubelet restarts its container, and its pod is still the younger one.
	younger, _ = lab.upgrade(t, older, "younger")
	lab.awaitInstance(t, "younger", "older")
	lab.receive(t, 1, func() { lab.sendAt(t, nil, 10*time.Millisecond, "text") })
	younger.terminate(t)
	older.awaitState(t, control.StateServing)
}

// TestConcurrentInstancesElectOne restarts both instances at the same moment in any state: the younger one serves in
// the end.
func TestConcurrentInstancesElectOne(t *testing.T) {
	content(t)
	lab := newLab(t)
	older, _ := lab.startServing(t, "older")
	younger, _ := lab.upgrade(t, older, "younger")
	for range 5 {
		kill(t, younger.Process)
		kill(t, older.Process)
		older, younger = lab.startInstance(t, "older"), lab.startInstance(t, "younger")
		younger.awaitState(t, control.StateServing)
		older.awaitState(t, control.StateStandingBy)
		lab.awaitInstance(t, "younger", "older")
	}
}

func TestUpgradesUnderLoadLoseNothing(t *testing.T) {
	timing(t)
	times := shortOrLong(20, 100)
	var pauses []time.Duration
	lab := newLab(t)
	serving, client := lab.startServing(t, "instance-0")
	running := lab.startFlow(t, "--lead", "5ms", "--cycle", "1ms")
	for n := range times {
		before := serving
		awaitTaken(t, client, 100)
		serving, client = lab.upgrade(t, before, "instance-"+strconv.Itoa(n+1))
		pauses = append(pauses, departurePause(t, serving.Process))
		before.terminate(t)
	}
	awaitTaken(t, client, 100)
	var total sum
	total.add(running.end(t, client))
	running.checkNoneLost(t, total)
	t.Logf("%d upgrades, %d messages", times, len(running.sent))
	record(t,
		reported("upgraded: pause in departures, p50", milliseconds(quantile(pauses, 0.5)), "ms"),
		reported("upgraded: pause in departures, max", milliseconds(quantile(pauses, 1)), "ms"))
}

// TestUpgradedInstancesKeepOpenVSwitch checks that an instance that stands by holds no port of Open vSwitch, and that
// the last one serves again after the others have ended.
func TestUpgradedInstancesKeepOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	serving, client := lab.startServing(t, "instance-0", lab.uplink()...)
	lab.awaitConnected(t)
	running := lab.startFlow(t, "--lead", "20ms", "--cycle", "1ms")
	for n := range 3 {
		before := serving
		awaitTaken(t, client, 200)
		serving, client = lab.upgrade(t, before, "instance-"+strconv.Itoa(n+1), lab.uplink()...)
		before.terminate(t)
	}
	awaitTaken(t, client, 200)
	var total sum
	total.add(running.end(t, client))
	running.checkNoneLost(t, total)
	younger, _ := lab.upgrade(t, serving, "last", lab.uplink()...)
	younger.terminate(t)
	serving.awaitState(t, control.StateServing)
	lab.awaitConnected(t)
}

// stepsBefore returns the steps of a hand-over before the successor has everything.
var stepsBefore = []string{stepRequest, stepFirst, stepEnd, stepReady, stepStands}

// underLoad sends a message a millisecond while change modifies the instances, and checks that none was lost or
// duplicated. A message that may have left when a ktsnd was killed is uncertain: change adds the counters of all but
// the last ktsnd and returns the client of the last.
func (l *lab) underLoad(t *testing.T, change func(before *sum) *control.Client) {
	t.Helper()
	running := l.startFlow(t, "--lead", "50ms", "--cycle", "1ms")
	var total sum
	client := change(&total)
	awaitTaken(t, client, 200)
	total.add(running.end(t, client))
	running.checkConserved(t, total)
}

// killAt starts an instance that takes over through a relay, which kills a victim at a step of the hand-over. The
// message that begins the step is not forwarded, except for the last step: a sent message arrives even if its sender
// dies.
func (l *lab) killAt(t *testing.T, name, at string, victim func(successor *instance) *process.Process) *instance {
	t.Helper()
	target := l.control
	l.control = filepath.Join(l.dir, name+".sock")
	var once sync.Once
	var mu sync.Mutex
	var successor *instance
	killed := make(chan *process.Process, 1)
	die := func() {
		mu.Lock()
		defer mu.Unlock()
		dies := victim(successor)
		_ = syscall.Kill(dies.PID(), syscall.SIGKILL)
		killed <- dies
	}
	mu.Lock()
	var passing *relay
	ready := make(chan struct{})
	passing = startRelay(t, l.control, target, func(m message) bool {
		if step(m) != at {
			return true
		}
		<-ready
		go once.Do(func() { passing.close(); die() })
		return at == stepTaken
	})
	close(ready)
	successor = l.startInstance(t, name)
	mu.Unlock()
	select {
	case dead := <-killed:
		_ = finish(t, dead)
	case <-time.After(patience):
		t.Fatalf("the hand-over did not reach %s; the successor's log: %s", at, successor.Stderr())
	}
	// At the previous socket or the successor's own.
	if at == stepTaken || victim(successor) == successor.Process {
		l.control = target
	}
	return successor
}

// TestSuccessorKilledAtAnyStepLosesNothing checks that the end of a successor changes nothing until it has confirmed
// the hand-over.
func TestSuccessorKilledAtAnyStepLosesNothing(t *testing.T) {
	content(t)
	lab := newLab(t)
	serving, client := lab.startServing(t, "serving")
	lab.underLoad(t, func(*sum) *control.Client {
		before := statusOf(t, client)
		for n, at := range stepsBefore {
			awaitTaken(t, client, counters(t, client).Taken+50)
			lab.killAt(t, fmt.Sprintf("successor-%d", n), at, func(successor *instance) *process.Process { return successor.Process })
			client = connect(t, serving.Process, lab.control)
			if after, err := client.Status(t.Context()); err != nil || after.PID != before.PID {
				t.Fatalf("killed at %s, it left %+v, %v", at, after, err)
			}
		}
		lab.killAt(t, "successor-last", stepTaken, func(successor *instance) *process.Process { return successor.Process })
		client = connect(t, serving.Process, lab.control)
		lab.attach(t, client, serving.Process)
		serving.awaitState(t, control.StateServing)
		return client
	})
}

// TestPredecessorKilledAtAnyStepLosesNothing checks that the successor starts without its predecessor's state and that
// applications hand their rings to it.
func TestPredecessorKilledAtAnyStepLosesNothing(t *testing.T) {
	content(t)
	lab := newLab(t)
	serving, client := lab.startServing(t, "instance-first")
	lab.underLoad(t, func(before *sum) *control.Client {
		for n, at := range append(slices.Clone(stepsBefore), stepTaken) {
			awaitTaken(t, client, counters(t, client).Taken+50)
			before.add(counters(t, client))
			dies := serving
			serving = lab.killAt(t, fmt.Sprintf("instance-%d", n), at, func(*instance) *process.Process { return dies.Process })
			serving.awaitState(t, control.StateServing)
			client = connect(t, serving.Process, lab.control)
			lab.attach(t, client, serving.Process)
		}
		return client
	})
}
