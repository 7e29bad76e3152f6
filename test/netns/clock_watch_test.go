// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// timeNetwork is three nodes on one Ethernet that share this machine's clock: their programs may measure but not set
// it.
type timeNetwork struct {
	dir   string
	hub   *topology.Namespace
	nodes map[string]*topology.Namespace
}

// newTimeNetwork creates nodes of these names with the addresses 192.0.2.1 and following.
func newTimeNetwork(t *testing.T, names ...string) *timeNetwork {
	t.Helper()
	testlab.Root(t)
	id, err := topology.NewID()
	must(t, err)
	network := &timeNetwork{dir: publicDir(t), nodes: map[string]*topology.Namespace{}}
	network.hub = newNamespace(t, id.String()+"-hub")
	ip(t, network.hub, "link", "add", "hub", "type", "bridge")
	ip(t, network.hub, "link", "set", "hub", "up")
	for i, name := range names {
		node := newNamespace(t, id.String()+"-"+name)
		network.nodes[name] = node
		ip(t, network.hub, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", node.Name())
		ip(t, network.hub, "link", "set", name, "master", "hub", "up")
		ip(t, node, "address", "add", fmt.Sprintf("192.0.2.%d/24", i+1), "dev", "eth0")
		ip(t, node, "link", "set", "eth0", "up")
	}
	return network
}

// run starts a program on a node without the right to set the clock and returns a function that kills it.
func (n *timeNetwork) run(t *testing.T, node, path string, arguments ...string) (kill func()) {
	t.Helper()
	name := filepath.Base(path)
	output := &strings.Builder{}
	command := exec.Command("setpriv", append([]string{"--bounding-set", "-sys_time", path}, arguments...)...)
	command.Stdout, command.Stderr = output, output
	must(t, n.nodes[node].Start(command))
	kill = sync.OnceFunc(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s on %s said\n%s", name, node, output)
		}
	})
	t.Cleanup(kill)
	return kill
}

// systemProgram returns the path of an installed program.
func systemProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			testlab.Missing(t, name+" is missing; scripts/install-deps.sh test")
		}
	}
	return path
}

// chronydProgram returns the path of chronyd and skips the test without it.
func chronydProgram(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "../../scripts/chronyd.sh")
	command.Stderr = os.Stderr
	path, err := command.Output()
	if err != nil {
		testlab.Missing(t, "scripts/chronyd.sh: "+err.Error())
	}
	return strings.TrimSpace(string(path))
}

// socketOf returns the socket of the ptp4l on a node.
func (n *timeNetwork) socketOf(node string) string { return filepath.Join(n.dir, node) }

// ptp4l starts a free-running ptp4l with eight messages a second.
func (n *timeNetwork) ptp4l(t *testing.T, node string, settings ...string) (kill func()) {
	t.Helper()
	configuration := filepath.Join(n.dir, node+".conf")
	text := "[global]\ntime_stamping software\nfree_running 1\nnetwork_transport L2\nuds_address " + n.socketOf(node) +
		"\nlogSyncInterval -3\nlogMinDelayReqInterval -3\nlogAnnounceInterval -2\nannounceReceiptTimeout 2\n" + strings.Join(settings, "\n") + "\n[eth0]\n"
	must(t, os.WriteFile(configuration, []byte(text), 0o600))
	return n.run(t, node, systemProgram(t, "ptp4l"), "-f", configuration, "-m")
}

// watchedClock is the watcher and the judge of a node's clock.
type watchedClock struct {
	*clock.Watcher
	judge clock.Judge
	need  clock.Need
}

// watch watches a node like its agent. The bound is generous since this machine may be busy for milliseconds.
func (n *timeNetwork) watch(t *testing.T, node string, holdover time.Duration) *watchedClock {
	t.Helper()
	w, err := clock.Watch(t.Context(), clock.Options{PTPSockets: []string{n.socketOf(node)}, LocalDir: filepath.Join(n.dir, node+".local"),
		ChronyAddresses: []string{filepath.Join(n.dir, node+".chrony", "chronyd.sock")}, Proc: "-"})
	must(t, err)
	t.Cleanup(w.Close)
	return &watchedClock{Watcher: w, need: clock.Need{MaxError: time.Second, Holdover: holdover}}
}

// awaitState returns the first estimate with a verdict of this state.
func (w *watchedClock) awaitState(t *testing.T, state clock.State) (clock.Estimate, clock.Verdict) {
	t.Helper()
	return w.awaitThat(t, string(state), func(_ clock.Estimate, verdict clock.Verdict) bool { return verdict.State == state })
}

func (w *watchedClock) awaitThat(t *testing.T, what string, condition func(clock.Estimate, clock.Verdict) bool) (clock.Estimate, clock.Verdict) {
	t.Helper()
	var estimate clock.Estimate
	timeout := time.After(2 * patience)
	for {
		select {
		case estimate = <-w.Changes():
			if verdict := w.judge.Look(w.need, estimate); condition(estimate, verdict) {
				return estimate, verdict
			}
		case <-timeout:
			t.Fatalf("not seen: %s; last %+v of %+v", what, w.judge.Verdict(), estimate)
		}
	}
}

// stateSince returns the time since a moment in milliseconds.
func stateSince(moment time.Time) time.Duration { return time.Since(moment).Round(time.Millisecond) }

func TestClockFollowsGrandmasters(t *testing.T) {
	content(t)
	network := newTimeNetwork(t, "first", "second", "follower")
	killFirst := network.ptp4l(t, "first", "priority1 10", "clockClass 6", "clockAccuracy 0x23")
	network.ptp4l(t, "follower", "slaveOnly 1")
	w := network.watch(t, "follower", 4*time.Second)

	e, _ := w.awaitState(t, clock.Synchronized)
	first := e.Grandmaster
	if e.Source != clock.PTP || e.Parts.Accuracy != time.Microsecond || e.Parts.PathDelay <= 0 || len(e.Ports) != 1 || e.Ports[0].Interface != "eth0" {
		t.Errorf("with a grandmaster: %+v", e)
	}
	// The port state of linuxptp 3.1.1 whose servo may not adjust the clock. The estimate relies on it.
	if e.Ports[0].State != "UNCALIBRATED" {
		t.Errorf("the port of a ptp4l that runs free is %s", e.Ports[0].State)
	}

	killed := time.Now()
	killFirst()
	e, verdict := w.awaitState(t, clock.Holdover)
	t.Logf("holdover %v after the grandmaster was killed: %s", stateSince(killed), verdict.Sentence)
	if e.Lost.After(killed) || e.Grandmaster != first {
		t.Errorf("lost since %v, which is after %v; %+v", e.Lost, killed, e)
	}
	var before time.Time // the last estimate in holdover: under load estimates may be more than a second apart
	e, verdict = w.awaitThat(t, "its end", func(e clock.Estimate, verdict clock.Verdict) bool {
		if verdict.State == clock.Holdover {
			before = e.At
		}
		return verdict.State == clock.Unsynchronized
	})
	if verdict.Reason != clock.ReasonHoldoverOver || e.At.Sub(e.Lost) < 4*time.Second || before.Sub(e.Lost) > 4*time.Second {
		t.Errorf("unsynchronized %v after the loss and in holdover until %v, want the first look after 4 s: %+v", e.At.Sub(e.Lost),
			before.Sub(e.Lost), verdict)
	}

	network.ptp4l(t, "second", "priority1 20", "clockClass 7")
	e, _ = w.awaitState(t, clock.Synchronized)
	if e.Grandmaster == first || !e.Lost.IsZero() {
		t.Errorf("with the second grandmaster: %+v", e)
	}
	grandmaster := network.watch(t, "second", time.Minute)
	if mine, _ := grandmaster.awaitState(t, clock.Synchronized); mine.Grandmaster != e.Grandmaster || mine.Bound != 0 || mine.Ports[0].State != "MASTER" {
		t.Errorf("the second grandmaster itself: %+v", mine)
	}
}

func TestKilledPtp4lLosesClockAtOnce(t *testing.T) {
	content(t)
	network := newTimeNetwork(t, "first", "follower")
	network.ptp4l(t, "first", "priority1 10", "clockClass 6")
	kill := network.ptp4l(t, "follower", "slaveOnly 1")
	w := network.watch(t, "follower", time.Minute)
	w.awaitState(t, clock.Synchronized)
	killed := time.Now()
	kill()
	_, verdict := w.awaitState(t, clock.Holdover)
	if took := stateSince(killed); verdict.Reason != clock.ReasonPTPGone || took > patience { // 1.1 s where the machine is idle
		t.Errorf("lost after %v: %+v", took, verdict)
	} else {
		t.Logf("lost after %v: %s", took, verdict.Sentence)
	}
	network.ptp4l(t, "follower", "slaveOnly 1")
	w.awaitState(t, clock.Synchronized)
}

func TestPtp4lSocketOfOtherOwnerIsRejected(t *testing.T) {
	content(t)
	ktsn := program(t, "ktsn")
	network := newTimeNetwork(t, "first")
	network.ptp4l(t, "first", "clockClass 6")
	w := network.watch(t, "first", time.Minute)
	w.awaitState(t, clock.Synchronized)
	must(t, os.Chown(network.socketOf("first"), nobody, nobody))
	output, err := exec.Command(ktsn, "node", "clock", "--ptp-socket", network.socketOf("first"), "--local-dir", filepath.Join(network.dir, "cli"),
		"--chrony-socket", filepath.Join(network.dir, "none")).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "Unknown") || !strings.Contains(string(output), "belongs to user 65534, not to root") {
		t.Errorf("got %q, %v", output, err)
	}
}

func TestClockWatchSurvivesFlood(t *testing.T) {
	content(t)
	network := newTimeNetwork(t, "first")
	network.ptp4l(t, "first", "clockClass 6")
	w := network.watch(t, "first", time.Minute)
	w.awaitState(t, clock.Synchronized)
	ours, err := filepath.Glob(filepath.Join(network.dir, "first.local", "ptp4l-client-*"))
	if err != nil || len(ours) != 1 {
		t.Fatalf("the watcher's sockets are %v, %v", ours, err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	const messages, batch = 20_000, 100
	for sent := range messages { // 10,000 a second
		if sent%batch == 0 {
			time.Sleep(batch * time.Second / 10_000)
		}
		if err := unix.Sendto(fd, []byte("tick"), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: ours[0]}); !errors.Is(err, unix.EPERM) {
			t.Fatalf("message %d: %v, want EPERM", sent, err)
		}
	}
	estimate, verdict := w.awaitThat(t, "an estimate", func(clock.Estimate, clock.Verdict) bool { return true })
	if verdict.State != clock.Synchronized || !estimate.Lost.IsZero() {
		t.Errorf("after the flood: %+v, %+v", verdict, estimate)
	}
}

func TestClockWatchReportsGarbage(t *testing.T) {
	content(t)
	network := newTimeNetwork(t, "first")
	connection, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: network.socketOf("first"), Net: "unixgram"})
	must(t, err)
	defer connection.Close()
	go func() {
		data := make([]byte, 2048)
		for {
			_, from, err := connection.ReadFromUnix(data)
			if err != nil {
				return
			}
			for range 8 {
				_, _ = connection.WriteToUnix([]byte("\x0d\x02\xff\xff garbage of more bytes than a management message has at the very least"), from)
			}
		}
	}()
	must(t, os.Chmod(network.socketOf("first"), 0o660))
	w := network.watch(t, "first", time.Minute)
	estimate, verdict := w.awaitThat(t, "that no ptp4l answers", func(e clock.Estimate, _ clock.Verdict) bool {
		return strings.Contains(e.Why.Sentence, "what answers is no ptp4l")
	})
	if verdict.State != clock.Unknown || estimate.Why.Reason != clock.ReasonPTPGone {
		t.Errorf("got %+v, %+v", verdict, estimate)
	}
}

func TestClockWatchWithChrony(t *testing.T) {
	content(t)
	network := newTimeNetwork(t, "server", "client")
	path := chronydProgram(t)
	chronyd := func(node string, settings ...string) (kill func()) {
		folder := filepath.Join(network.dir, node+".chrony")
		must(t, os.MkdirAll(folder, 0o770))
		configuration := filepath.Join(folder, "chrony.conf")
		text := fmt.Sprintf("bindcmdaddress %s/chronyd.sock\npidfile %s/chronyd.pid\ncmdport 0\n%s\n", folder, folder, strings.Join(settings, "\n"))
		must(t, os.WriteFile(configuration, []byte(text), 0o600))
		return network.run(t, node, path, "-x", "-d", "-u", "root", "-f", configuration)
	}
	chronyd("server", "local stratum 2", "allow all")
	kill := chronyd("client", "server 192.0.2.1 minpoll -4 maxpoll -2 iburst")
	w := network.watch(t, "client", time.Minute)
	e, _ := w.awaitState(t, clock.Synchronized)
	if e.Source != clock.NTP || e.Grandmaster != "192.0.2.1" || e.Bound <= 0 {
		t.Errorf("got %+v", e)
	}
	t.Logf("an error of at most %v: %+v", e.Bound, e.Parts)
	kill()
	if _, verdict := w.awaitState(t, clock.Holdover); verdict.Reason != clock.ReasonNTPLost {
		t.Errorf("without chronyd: %+v", verdict)
	}
}
