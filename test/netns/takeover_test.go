// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// takeOver starts a ktsnd that replaces the running one and waits for the end of that one.
func (l *lab) takeOver(t *testing.T, before *process.Process, options ...string) (*process.Process, *control.Client) {
	t.Helper()
	return l.takeOverBy(t, before, program(t, "ktsnd"), options...)
}

// takeOverBy is takeOver for any program.
func (l *lab) takeOverBy(t *testing.T, before *process.Process, program string, options ...string) (*process.Process, *control.Client) {
	t.Helper()
	after := start(t, l.NodeA, "ktsnd", exec.Command(program, append(append(l.daemonArguments(), "--take-over"), options...)...))
	if err := finish(t, before); err != nil {
		t.Fatalf("the ktsnd that was replaced: %v\nits log: %s\nthe other: %s", err, before.Stderr(), after.Stderr())
	}
	return after, connect(t, after, l.control)
}

var pausedLine = regexp.MustCompile(`departures paused for (\d+) us`)

// departurePause returns the time without departures during a hand-over.
func departurePause(t *testing.T, successor *process.Process) time.Duration {
	t.Helper()
	awaitLog(t, successor, "departures paused for")
	match := pausedLine.FindStringSubmatch(successor.Stderr())
	if match == nil {
		t.Fatalf("the successor does not report its duration; its log: %s", successor.Stderr())
	}
	us, err := strconv.Atoi(match[1])
	must(t, err)
	return time.Duration(us) * time.Microsecond
}

func TestTakeOverUnderLoadLosesNothing(t *testing.T) {
	content(t)
	times := shortOrLong(5, 30)
	var pauses []time.Duration
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	table := threeWindows()
	table.AdminControlList.Entries[0].GateStatesValue = 255
	table.AdminControlList.Entries[1].GateStatesValue = 255
	table.AdminControlList.Entries[2].GateStatesValue = 255
	must(t, client.ScheduleSet(t.Context(), table))
	waitForSchedule(t, client)
	running := lab.startFlow(t, "--lead", "5ms", "--cycle", "1ms")
	var total sum
	for range times {
		awaitTaken(t, client, 200)
		before := statusOf(t, client)
		daemon, client = lab.takeOver(t, daemon)
		pauses = append(pauses, departurePause(t, daemon))
		after := statusOf(t, client)
		if after.PID != daemon.PID() || after.Sockets != before.Sockets || after.Endpoints != before.Endpoints ||
			after.Peers != before.Peers || after.Processes != before.Processes || after.Flows != before.Flows {
			t.Errorf("the successor has %+v, its predecessor had %+v", after, before)
		}
		if schedule := waitForSchedule(t, client); schedule.Table.OperControlList.Entries[2].GateStatesValue != 255 ||
			schedule.Table.ConfigChangeError != 0 {
			t.Errorf("the successor executes %+v", schedule.Table)
		}
	}
	awaitTaken(t, client, 200)
	total.add(running.end(t, client))
	running.checkNoneLost(t, total)
	t.Logf("%d times; the longest gap between arrivals was %v", times, longestGap(running.received))
	record(t,
		reported("replaced in place: pause in departures, p50", milliseconds(quantile(pauses, 0.5)), "ms"),
		limited("replaced in place: pause in departures, max", milliseconds(quantile(pauses, 1)), "ms", 5))
}

func longestGap(received []tsnperf.Received) time.Duration {
	var longest int64
	for i := 1; i < len(received); i++ {
		longest = max(longest, received[i].Arrival-received[i-1].Arrival)
	}
	return time.Duration(longest)
}

// listenerOf returns the listening process of a socket (SO_PEERCRED).
func listenerOf(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	must(t, err)
	return int(peer.Pid)
}

func TestPodNameSurvivesTakeOver(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	testlab.CheckError(t, client.PodNameSet(t.Context(), "nobody", "factory/axis-1"), "no pod of that identity")
	for _, name := range []string{"factory/axis-0", "factory/axis-1"} {
		must(t, client.PodNameSet(t.Context(), identity, name))
	}
	for range 2 {
		daemon, client = lab.takeOver(t, daemon)
		pods, err := client.Pods(t.Context())
		if err != nil || len(pods) != 1 || pods[0].Identity != identity || pods[0].Name != "factory/axis-1" {
			t.Fatalf("pods %+v, %v", pods, err)
		}
	}
	lab.startTalker(t, filepath.Join(lab.Dir, "talker.csv"))
	flow := soleFlow(t, client)
	messages := parseTrace(t, []byte(lab.ask(t, "trace", "--pod", "factory/axis-1", "--count", "3", "-o", "json")))
	if len(messages) != 3 || messages[0].Flow != flow.Number {
		t.Errorf("of flow %d was traced %+v", flow.Number, messages)
	}
	if text := lab.ask(t, "top", "--once", "--interval", "300ms"); !strings.Contains(text, "factory/axis-1") || strings.Contains(text, identity) {
		t.Errorf("top shows\n%s", text)
	}
}

func TestPodPermissionsSurviveTakeOver(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	endpoint := control.Endpoint{Identity: identity, Interface: topology.PodInterface, Netns: lab.PodA.Path(), VNI: topology.VNI}
	mac := interfaceMAC(t, lab.PodA).String()
	check := func(when string, sources control.Sources, grants control.Grants) {
		t.Helper()
		endpoints, err := client.Endpoints(t.Context())
		if err != nil || len(endpoints) != 1 {
			t.Fatalf("%s: endpoints %+v, %v", when, endpoints, err)
		}
		if got := endpoints[0]; !reflect.DeepEqual(got.Sources, &sources) || !reflect.DeepEqual(got.Grants, &grants) {
			t.Errorf("%s: it may send from %+v with %+v, want %+v with %+v", when, got.Sources, got.Grants, sources, grants)
		}
	}
	anything := control.Sources{HardwareAddresses: []string{mac},
		Addresses: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	nothing := control.Grants{PriorityMax: 6}
	check("of which nothing was said", anything, nothing)

	subnets := []netip.Prefix{netip.MustParsePrefix("10.42.1.2/32"), netip.MustParsePrefix("fd00::/8")}
	endpoint.Sources = &control.Sources{HardwareAddresses: []string{"02:00:00:00:00:99", mac}, Addresses: subnets}
	endpoint.Grants = &control.Grants{PriorityMax: 15, PriorityCodePoint: true}
	want := control.Sources{HardwareAddresses: []string{mac, "02:00:00:00:00:99"}, Addresses: subnets}
	must(t, client.EndpointAdd(t.Context(), endpoint))
	check("of which more was said", want, *endpoint.Grants)
	for range 2 {
		daemon, client = lab.takeOver(t, daemon)
		check("taken over", want, *endpoint.Grants)
	}
	lab.receive(t, 1, func() { lab.sendAt(t, nil, 10*time.Millisecond, "from an address of its own") })

	grants := *endpoint.Grants
	endpoint.Sources, endpoint.Grants = nil, nil
	must(t, client.EndpointAdd(t.Context(), endpoint))
	check("set again by an older program, which omits it", want, grants)
	_, client = lab.takeOver(t, daemon)
	check("that was taken over", want, grants)
}

// TestSocketsBelongToSuccessor checks that the sockets' peer credentials are the successor's. Otherwise a third ktsnd
// would take them for those of the first, which may not have ended.
func TestSocketsBelongToSuccessor(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, _ := lab.startDaemon(t)
	successor, _ := lab.takeOver(t, daemon)
	for _, path := range []string{lab.control, lab.socket} {
		if listener := listenerOf(t, path); listener != successor.PID() {
			t.Errorf("process %d listens at %s, want the successor's %d", listener, path, successor.PID())
		}
	}
}

// TestTakeOverDropsOnlyCorruptRing checks that a ring whose header was overwritten by its application is lost at a
// take-over, and no other.
func TestTakeOverDropsOnlyCorruptRing(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	lab.goodTraffic(t, 3000, func() { // longer than a take-over takes
		running := enemy.start(t, "scribble", patience)
		awaitStatus(t, client, "both programs are known", func(status *control.Status) bool { return status.Processes == 2 })
		awaitCPUTime(t, running.Process)
		daemon, client = lab.takeOver(t, daemon)
		if count := processCount(t, client); count != 1 {
			t.Errorf("the successor has %d processes", count)
		}
		if err := client.SocketDel(t.Context(), hostileIdentity); err != nil {
			t.Error(err)
		}
		if count := processCount(t, client); count != 1 {
			t.Errorf("without the pod of the spoilt ring the successor has %d processes", count)
		}
		kill(t, running.Process)
	})
	awaitLog(t, daemon, "a process of "+hostileIdentity+" was lost")
}

// awaitCPUTime waits until a busy program has used some CPU time.
func awaitCPUTime(t *testing.T, running *process.Process) {
	t.Helper()
	const enough = 20 * time.Millisecond
	before := cpuTime(t, running.PID())
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		if cpuTime(t, running.PID())-before < enough {
			return fmt.Errorf("%s does not run", running.Name())
		}
		return nil
	})
}

func processCount(t *testing.T, client *control.Client) int {
	t.Helper()
	return statusOf(t, client).Processes
}
