// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// awaitTaken waits until ktsnd has taken at least count messages.
func awaitTaken(t *testing.T, client *control.Client, taken uint64) {
	t.Helper()
	awaitCounters(t, client, fmt.Sprintf("%d messages are taken", taken), func(c control.Counters) bool { return c.Taken >= taken })
}

// awaitSent waits until ktsnd has sent at least count messages and is done with them.
func awaitSent(t *testing.T, client *control.Client, sent uint64) {
	t.Helper()
	awaitStatus(t, client, fmt.Sprintf("%d messages are sent", sent), func(status *control.Status) bool {
		return status.Counters.Sent >= sent && status.Pending == 0
	})
}

// awaitOnTime waits until messages leave on time again.
func awaitOnTime(t *testing.T, client *control.Client) {
	t.Helper()
	awaitCounters(t, client, "a message leaves on time", func(c control.Counters) bool { return c.OnTime > 0 })
}

// startTalker starts a talker in pod a that sends until it is stopped. file is its report, os.DevNull for none.
func (l *lab) startTalker(t *testing.T, file string, options ...string) *process.Process {
	t.Helper()
	arguments := append([]string{"talker", "--quiet", "--clock", "tai", "--csv", file, "--count", "1000000",
		"--to", atPodB.String()}, options...)
	command := exec.Command(program(t, "tsnperf"), arguments...)
	command.Env = l.preloaded(t)
	return start(t, l.PodA, "talker", command)
}

// interrupt ends a program with SIGINT, waits for it, and fails if it reports an error.
func interrupt(t *testing.T, running *process.Process) {
	t.Helper()
	must(t, syscall.Kill(running.PID(), syscall.SIGINT))
	if err := finish(t, running); err != nil {
		t.Error(err)
	}
}

func TestKilledTwentyTimesLosesNothingUncounted(t *testing.T) {
	timing(t)
	for name, cycle := range map[string]string{
		"one message a millisecond":    "1ms",
		"one message in five":          "5ms",
		"five messages in one of them": "200us",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			daemon, client := lab.startDaemon(t)
			running := lab.startFlow(t, "--lead", "5ms", "--cycle", cycle)
			var total sum
			for i := range 20 {
				awaitTaken(t, client, 50)
				if i%2 == 0 { // otherwise while the waiting messages leave
					awaitOnTime(t, client)
					time.Sleep(rand.N(200 * time.Millisecond))
				}
				time.Sleep(rand.N(10 * time.Millisecond))
				daemon, client = lab.restart(t, daemon, client, kill, &total)
			}
			awaitTaken(t, client, 50)
			total.add(running.end(t, client))
			running.checkConserved(t, total)
		})
	}
}

// restart ends ktsnd in the given way, adds its counters, and starts it again.
func (l *lab) restart(t *testing.T, daemon *process.Process, client *control.Client, end func(*testing.T, *process.Process),
	total *sum) (*process.Process, *control.Client) {
	t.Helper()
	total.add(counters(t, client))
	end(t, daemon)
	return l.startDaemon(t)
}

// TestStopUnderLoadLosesNothing sends messages while ktsnd ends, to a ring with room for them. None is uncertain: none
// is departing when the loop has ended.
func TestStopUnderLoadLosesNothing(t *testing.T) {
	timing(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startFlow(t, "--lead", "50ms", "--cycle", "200us")
	var total sum
	for range shortOrLong(4, 50) {
		awaitOnTime(t, client) // until then the ring is full
		time.Sleep(rand.N(20 * time.Millisecond))
		daemon, client = lab.restart(t, daemon, client, interrupt, &total)
	}
	awaitTaken(t, client, 50)
	total.add(running.end(t, client))
	running.checkNoneLost(t, total)
}

// keptSending are the messages of "keeps-sending". The program must live until ktsnd runs again.
const keptSending = 67

func TestRestartKeepsTransmitTimes(t *testing.T) {
	timing(t)
	for name, test := range map[string]struct {
		program string
		user    string
	}{
		"of a program of glibc":              {publicCopy(t, "ktsn-test-shapes"), "root"},
		"of one without privileges, of musl": {compileWithMusl(t, "shapes", "shapes/*.c", "-pthread"), "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, complaint := range testlab.Undisturbed(t, testlab.Stopped, func() []string { return restartOnce(t, test.program, test.user) }) {
				t.Error(complaint)
			}
		})
	}
}

// restartOnce kills and restarts ktsnd while an application sends, and returns messages that the machine may have
// delayed.
func restartOnce(t *testing.T, program, user string) []string {
	t.Helper()
	lab := newLab(t)
	lab.addAddress(t)
	environment := lab.preloadedForNobody(t)
	daemon, client := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	began := time.Now()
	application := start(t, lab.PodA, "application",
		shapeCommand(program, shape{name: "keeps-sending"}, user, environment))
	awaitTaken(t, client, 4)
	kill(t, daemon)
	dead := testlab.ClockNow(unix.CLOCK_TAI)
	time.Sleep(time.Second)
	_, client = lab.startDaemon(t)
	again := testlab.ClockNow(unix.CLOCK_TAI)
	late := time.Since(began) > 5*time.Second // the program sends for 6.5 s
	if err := finish(t, application); err != nil {
		t.Error(err)
	}
	if late {
		return []string{"ktsnd ran again too late for the program"}
	}
	counted := awaitSettled(t, client)
	complaints := checkTimesKept(t, receiver.take(t, keptSending, patience), dead, again)
	if counted.Uncertain != 0 {
		complaints = append(complaints, fmt.Sprintf("%d messages are uncertain, and none was due when ktsnd was killed", counted.Uncertain))
	}
	return complaints
}

func TestLateAnswerOfDaemonIsIgnored(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.addAddress(t)
	daemon, client := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	application := start(t, lab.PodA, "application",
		shapeCommand(publicCopy(t, "ktsn-test-shapes"), shape{name: "keeps-opening"}, "root", lab.preloadedForNobody(t)))
	for range 2 {
		time.Sleep(100 * time.Millisecond)
		signal(t, daemon, syscall.SIGSTOP)
		time.Sleep(150 * time.Millisecond) // longer than libktsn waits for an answer
		signal(t, daemon, syscall.SIGCONT)
	}
	_ = finish(t, application)
	counted := awaitSettled(t, client)
	refused := strings.Count(application.Stderr(), "cannot socket")
	arrived := receiver.take(t, 100-refused, patience)
	twice := 0
	seen := map[string]bool{}
	for _, datagram := range arrived {
		if seen[datagram.label] {
			twice++
		}
		seen[datagram.label] = true
		checkAddresses(t, datagram)
		if datagram.stampTAI < datagram.txtimeTAI {
			t.Errorf("%s arrived before its time", datagram.label)
		}
	}
	if twice != 0 || len(seen)+refused != 100 || counted.Dropped() != 0 {
		t.Errorf("%d arrived, %d of them twice, and %d were refused, of 100; %+v", len(seen), twice, refused, counted)
	}
}

func signal(t *testing.T, running *process.Process, number syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(running.PID(), number))
}

// checkTimesKept checks the messages of "keeps-sending". Messages due between the kill and the restart had to wait. It
// returns the other late messages, which the machine may have delayed, or the application that could not send in time.
func checkTimesKept(t *testing.T, arrived []shapedDatagram, dead, again int64) (late []string) {
	t.Helper()
	const slack = 50 * time.Millisecond
	seen := map[string]bool{}
	waited := 0
	for _, datagram := range arrived {
		if seen[datagram.label] {
			t.Errorf("%s arrived twice", datagram.label)
		}
		seen[datagram.label] = true
		checkAddresses(t, datagram)
		after := time.Duration(datagram.stampTAI - datagram.txtimeTAI)
		if after < 0 {
			t.Errorf("%s arrived %v before its time", datagram.label, -after)
		}
		if datagram.txtimeTAI > dead && datagram.txtimeTAI < again {
			waited++
			if datagram.stampTAI < dead {
				t.Errorf("%s came while nobody could send it", datagram.label)
			}
			continue
		}
		// The first message after the restart makes the library connect to the new ktsnd.
		if datagram.txtimeTAI > again+4*int64(slack) && after > slack {
			late = append(late, fmt.Sprintf("%s came %v after its time", datagram.label, after))
		}
	}
	if len(seen) != keptSending || !seen["future"] || !seen["passing"] {
		t.Errorf("%d of %d messages arrived: %s", len(seen), keptSending, strings.Join(labelsOf(arrived), " "))
	}
	if waited < 8 {
		t.Errorf("only %d messages had to wait; the test proves nothing", waited)
	}
	return late
}

// tickingSender is a run of testdata/restored.py in pod a.
type tickingSender struct {
	dialogue
	listener *net.UDPConn
}

func (l *lab) startTicking(t *testing.T, how string, further ...string) *tickingSender {
	t.Helper()
	listener := l.listenForTexts(t)
	command := exec.Command(python(t), append([]string{"testdata/restored.py", how, topology.PodAddressB.String(),
		strconv.Itoa(listenPort)}, further...)...)
	command.Env = l.preloaded(t)
	return &tickingSender{startDialogue(t, l.PodA, "restored.py "+how, command), listener}
}

// checkAllCame ends it when ktsnd has taken some of its messages and checks that each arrived once.
//
// A program that ends before it has found ktsnd takes its waiting messages with it. On a busy machine a start of ktsnd
// takes seconds.
func (r *tickingSender) checkAllCame(t *testing.T, client *control.Client) {
	t.Helper()
	awaitTaken(t, client, 20)
	r.awaitEnd(t)
	counted := awaitSettled(t, client)
	text := r.line(t)
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("got %q", text)
	}
	var want []string
	for i := range count {
		want = append(want, "tick"+strconv.Itoa(i))
	}
	if got := receivedTexts(t, r.listener); !slices.Equal(got, want) {
		t.Errorf("%d of %d messages arrived: %v", len(got), count, got)
	}
	if counted.Dropped() != 0 {
		t.Errorf("messages were dropped: %+v", counted)
	}
}

// TestRestartLosesOnlySocketsWithoutRoute checks that a socket that cannot be restored is skipped and later ones in the
// table are restored.
func TestRestartLosesOnlySocketsWithoutRoute(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	vanishing := netip.MustParsePrefix("198.51.100.0/24")
	ip(t, lab.PodA, "route", "add", vanishing.String(), "dev", topology.PodInterface)
	must(t, client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: netip.MustParseAddr("192.0.2.99"),
		Subnets: []netip.Prefix{vanishing}}))
	running := lab.startTicking(t, "connect", vanishing.Addr().Next().String())
	awaitTaken(t, client, 5)
	kill(t, daemon)
	_, client = lab.startDaemon(t)
	running.checkAllCame(t, client)
	if text := running.line(t); text != "No route to host" {
		t.Errorf("the socket whose destination is gone: %q", text)
	}
}

// TestRestartedDaemonLearnsOfPeersLater checks that no message is lost while the agent configures a new ktsnd step by
// step.
func TestRestartedDaemonLearnsOfPeersLater(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startTicking(t, "sendto")
	awaitTaken(t, client, 5)
	kill(t, daemon)
	_, client = lab.startUnattached(t)
	err := errors.Join(
		client.SocketAdd(t.Context(), identity, lab.socket),
		client.EndpointAdd(t.Context(), control.Endpoint{Identity: identity, Interface: topology.PodInterface,
			Netns: lab.PodA.Path(), VNI: topology.VNI}))
	must(t, err)
	time.Sleep(500 * time.Millisecond)
	err = client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressB,
		Subnets: []netip.Prefix{topology.PodSubnetB}})
	must(t, err)
	running.checkAllCame(t, client)
}

// TestSlowRestartedDaemonGetsRing checks that a ring is handed back with all its messages to a ktsnd that rarely runs.
func TestSlowRestartedDaemonGetsRing(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startTicking(t, "sendto")
	awaitTaken(t, client, 5)
	kill(t, daemon)
	daemon, client = lab.startDaemon(t)
	within := time.AfterFunc(5*time.Second, func() { _ = running.stdin.Close() })
	defer within.Stop()
	stopNowAndThen(t, daemon, running.Process)
	running.checkAllCame(t, client)
}
