// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

const (
	hostileIdentity = "hostile"
	// hostilePort is the destination port of the hostile pod.
	hostilePort = listenPort + 1
)

// hostile is a second pod on node a that does not use libktsn.
type hostile struct {
	lab      *lab
	pod      *topology.Namespace
	socket   string
	cpus     string              // in the syntax of taskset, "" for any
	receiver *topology.Namespace // a third pod, if it was added
}

// addHostile attaches the hostile pod to a running ktsnd.
func (l *lab) addHostile(t *testing.T, client *control.Client) *hostile {
	t.Helper()
	added := &hostile{lab: l, pod: l.addNeighbor(t), socket: filepath.Join(l.dir, "hostile.sock")}
	must(t, added.attach(t.Context(), client))
	ip(t, added.pod, "link", "set", "lo", "up")
	return added
}

// attach adds the hostile pod to ktsnd, also repeatedly.
func (h *hostile) attach(ctx context.Context, client *control.Client) error {
	return errors.Join(client.SocketAdd(ctx, hostileIdentity, h.socket),
		client.EndpointAdd(ctx, control.Endpoint{Identity: hostileIdentity, Interface: topology.PodInterface, Netns: h.pod.Path(), VNI: topology.VNI}))
}

func (h *hostile) remove(ctx context.Context, client *control.Client) error {
	return errors.Join(client.SocketDel(ctx, hostileIdentity), client.EndpointDel(ctx, hostileIdentity, topology.PodInterface))
}

// attack is one run of the hostile program.
type attack struct {
	*process.Process
	stdout *bytes.Buffer
}

func (h *hostile) start(t *testing.T, mode string, duration time.Duration) *attack {
	t.Helper()
	return startAttack(t, h.pod, mode, h.on(attackOf(t, h.socket, mode, netip.AddrPortFrom(topology.PodAddressB, hostilePort), duration)))
}

// startAsking measures ktsnd's response times from a well-behaved pod.
func startAsking(t *testing.T, pod *topology.Namespace, socket string, duration time.Duration) *attack {
	t.Helper()
	return startAt(t, pod, socket, "ask", netip.AddrPortFrom(topology.PodAddressB, hostilePort), duration)
}

// startAt lets it send to the given address.
func startAt(t *testing.T, pod *topology.Namespace, socket, mode string, to netip.AddrPort, duration time.Duration) *attack {
	t.Helper()
	return startAttack(t, pod, mode, attackOf(t, socket, mode, to, duration))
}

func attackOf(t *testing.T, socket, mode string, to netip.AddrPort, duration time.Duration) *exec.Cmd {
	t.Helper()
	return exec.Command(program(t, "ktsn-test-hostile"), mode, socket, to.Addr().String(), strconv.Itoa(int(to.Port())),
		fmt.Sprint(duration.Seconds()))
}

func startAttack(t *testing.T, pod *topology.Namespace, mode string, command *exec.Cmd) *attack {
	t.Helper()
	running := &attack{stdout: &bytes.Buffer{}}
	command.Stdout = running.stdout
	running.Process = start(t, pod, "ktsn-test-hostile "+mode, command)
	return running
}

// results waits for the end of the program and returns the counters it prints.
func (a *attack) results(t *testing.T) map[string]int {
	t.Helper()
	must(t, finish(t, a.Process))
	results := map[string]int{}
	for line := range strings.Lines(a.stdout.String()) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%s reports %q", a.Name(), line)
		}
		results[name] = value
	}
	return results
}

// listenHostile checks in pod b that all datagrams of the hostile pod have its own source address. The returned
// function ends that and returns the number of datagrams.
func (h *hostile) listenHostile(t *testing.T) func() int {
	t.Helper()
	conn := listen(t, h.lab.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, hostilePort))
	counted := make(chan int)
	go func() {
		count := 0
		buffer := make([]byte, 2048)
		for {
			_, source, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				counted <- count
				return
			}
			if source.Addr() != neighborAddress {
				t.Errorf("a message of the hostile pod arrives from %s", source)
			}
			count++
		}
	}()
	return func() int {
		conn.Close()
		return <-counted
	}
}

// goodTraffic sends periodic messages from pod a and checks that all arrive in order and not early. begin is called
// when ktsnd serves the talker, before the first message.
func (l *lab) goodTraffic(t *testing.T, count int, begin func()) {
	t.Helper()
	f := listenFor(t, l.PodB, atPodB, count)
	f.talker = l.startServedTalker(t, "--csv", f.talkerFile, "--count", strconv.Itoa(count), "--cycle", "2ms", "--lead", "1ms",
		"--to", atPodB.String())
	begin()
	f.finish(t)
	checkAllArrived(t, &observed{sent: f.sent, received: f.received}, count)
	for i, message := range f.received {
		if int(message.Sequence) != i {
			t.Fatalf("message %d is the %d. to arrive:%s", message.Sequence, i, arrivals(f.received, i))
		}
		if message.Arrival < message.Txtime {
			t.Errorf("message %d arrived %d ns before its time", message.Sequence, message.Txtime-message.Arrival)
		}
	}
}

// arrivals returns due and arrival times of the messages before and after a message.
func arrivals(received []tsnperf.Received, i int) string {
	const neighbors = 10
	var text strings.Builder
	for _, message := range received[max(0, i-neighbors):min(len(received), i+neighbors)] {
		fmt.Fprintf(&text, "\n\tmessage %d was due at %s and arrived %s later", message.Sequence,
			time.Unix(0, message.Txtime).UTC().Format("05.000000"), time.Duration(message.Arrival-message.Txtime))
	}
	return text.String()
}

// startServedTalker starts a talker in pod a with some time until its first message, and waits until ktsnd serves it.
// On a busy machine it retries with more time: otherwise its first messages would be late.
func (l *lab) startServedTalker(t *testing.T, options ...string) *process.Process {
	t.Helper()
	client, err := control.Dial(t.Context(), l.control)
	must(t, err)
	defer client.Close()
	const spare = 50 * time.Millisecond
	for _, ahead := range []time.Duration{150 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		before := processCount(t, client)
		began := time.Now()
		talker := l.startTalker(t, os.DevNull, append([]string{"--start", "+" + ahead.String()}, options...)...)
		for deadline := began.Add(ahead - spare); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if status, err := client.Status(t.Context()); err == nil && status.Processes > before && status.Flows > 0 {
				return talker
			}
		}
		// A talker that may have sent its first message is kept, and its messages are late.
		if time.Since(began) > ahead-spare/2 {
			return talker
		}
		kill(t, talker)
	}
	t.Fatal("the machine is too busy: no application found ktsnd in time")
	return nil
}

// podResources are the descriptors and the memory of a process.
type podResources struct {
	descriptors int
	rssBytes    int
}

func holdingsOf(t *testing.T, running *process.Process) podResources {
	t.Helper()
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", running.PID()))
	must(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	must(t, err)
	return podResources{len(keptOpen(t, running.PID())), pages * os.Getpagesize()}
}

// keptOpen returns the descriptors of a ktsnd except the doorbells that it keeps for the next rings
// (daemon/loop/doorbells.h).
func keptOpen(t *testing.T, pid int) []string {
	t.Helper()
	return slices.DeleteFunc(descriptorsOf(t, pid), func(kind string) bool { return kind == "anon_inode:[eventpoll]" })
}

// awaitForgotten waits until ktsnd has forgotten all applications.
func awaitForgotten(t *testing.T, client *control.Client) {
	t.Helper()
	awaitStatus(t, client, "all applications are forgotten", func(status *control.Status) bool {
		return status.Pending == 0 && status.Processes == 0 && status.Flows == 0 && unsettled(t, client) == 0
	})
}

// awaitIdle waits until ktsnd has forgotten all applications and freed their memory, which happens later.
func awaitIdle(t *testing.T, client *control.Client) {
	t.Helper()
	awaitForgotten(t, client)
	time.Sleep(200 * time.Millisecond)
}

// awaitReturned waits until ktsnd has no more resources than before, except those that its allocator keeps.
func awaitReturned(t *testing.T, daemon *process.Process, client *control.Client, before podResources) {
	t.Helper()
	slackBytes := 16 << 20
	if testlab.Sanitized() {
		slackBytes = 1 << 30
	}
	awaitForgotten(t, client)
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		now := holdingsOf(t, daemon)
		if now.descriptors == before.descriptors && now.rssBytes <= before.rssBytes+slackBytes {
			return nil
		}
		return fmt.Errorf("ktsnd holds %+v instead of %+v", now, before)
	})
}

// checkBooks checks the two sums of docs/reference/counters.md in an idle ktsnd.
func checkBooks(t *testing.T, counted control.Counters) {
	t.Helper()
	if counted.Taken != counted.Sent+counted.Dropped() || counted.Sent != counted.OnTime+counted.Late() {
		t.Errorf("the books do not balance: %+v", counted)
	}
}

func TestHostilePodHarmsOnlyItself(t *testing.T) {
	timing(t)
	for _, test := range []struct {
		mode string
		// achieves are the counters that the program must reach for a valid test.
		achieves string
		// fails are the counters that must stay 0.
		fails string
		// sends means that some of its messages are valid and arrive.
		sends bool
	}{
		{mode: "scribble", achieves: "written"},
		{mode: "lie", achieves: "told", sends: true},
		{mode: "race", achieves: "flips"},
		{mode: "flood", achieves: "filled", sends: true},
		{mode: "distant", achieves: "filled", sends: true},
		{mode: "punch", achieves: "tried", fails: "punched", sends: true},
		{mode: "collapse", achieves: "tried", fails: "collapsed", sends: true},
		{mode: "keep", achieves: "kept"},
		{mode: "sparse", achieves: "handed", fails: "accepted"},
		{mode: "stall", achieves: "closed"},
		{mode: "many", achieves: "sockets"},
		{mode: "bell", achieves: "rings", sends: true},
		{mode: "churn", achieves: "rounds", sends: true},
		{mode: "watchers", achieves: "writes", sends: true},
		{mode: "watchers-close", achieves: "closes"},
		{mode: "sleepers", achieves: "told", sends: true},
		{mode: "pollers", achieves: "pollers", sends: true},
		{mode: "handback", achieves: "handed"},
		{mode: "linger", achieves: "held"},
		{mode: "notifier", achieves: "held"},
		{mode: "locked", achieves: "held"},
		{mode: "unread", achieves: "left"},
		{mode: "register", achieves: "registered", sends: true},
		{mode: "immortal", achieves: "left"},
		{mode: "immortal2", achieves: "rings"},
		{mode: "audience", achieves: "replies"},
		{mode: "faulted", achieves: "held"},
		{mode: "ends", achieves: "connections"},
		{mode: "returns", achieves: "returned"},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			daemon, client := lab.startDaemon(t, "--pod-horizon", "2s")
			enemy := lab.addHostile(t, client)
			listener := enemy.listenHostile(t)
			lab.goodTraffic(t, 10, func() {})
			awaitIdle(t, client)
			before := holdingsOf(t, daemon)
			var running *attack
			messages := shortOrLong(300, 5000)
			lab.goodTraffic(t, messages, func() {
				running = enemy.start(t, test.mode, time.Duration(messages)*2*time.Millisecond+400*time.Millisecond)
			})
			if results := running.results(t); results[test.achieves] == 0 || results[test.fails] != 0 {
				t.Errorf("the hostile pod achieved nothing, or too much: %v", results)
			}
			awaitReturned(t, daemon, client, before)
			killed := enemy.start(t, test.mode, patience)
			time.Sleep(200 * time.Millisecond)
			kill(t, killed.Process)
			awaitReturned(t, daemon, client, before)
			checkBooks(t, awaitSettled(t, client))
			if count := listener(); test.sends && count == 0 {
				t.Error("no message of the hostile pod arrived")
			}
		})
	}
}

// holding are the modes in which a system call of ktsnd waits for the pod, three seconds each time.
var holding = []string{"linger", "notifier", "locked", "unread"}

func TestPodThatStallsKtsndDelaysNoOther(t *testing.T) {
	timing(t)
	for _, mode := range holding {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			_, client := lab.startDaemon(t)
			enemy := lab.addHostile(t, client)
			var running, asking *attack
			lab.goodTraffic(t, 2000, func() {
				running = enemy.start(t, mode, time.Second)
				asking = startAsking(t, lab.PodA, lab.socket, 4*time.Second)
			})
			// A delay, if any, takes seconds.
			const heldUp = time.Second
			if results := asking.results(t); results["asked"] == 0 || results["longest-us"] > int(heldUp/time.Microsecond) {
				t.Errorf("another pod's requests: %v", results)
			}
			if results := running.results(t); results["held"] == 0 && results["left"] == 0 {
				t.Errorf("the hostile pod held nobody up: %v", results)
			}
			checkBooks(t, awaitSettled(t, client))
		})
	}
}

func TestStalledKtsndIsReplacedAndEnds(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	// ktsnd ends when the kernel releases its last thread, on a busy machine not before the pod ends.
	const held = patience / 2
	running := enemy.start(t, "locked", held)
	time.Sleep(500 * time.Millisecond)
	successor, _ := lab.takeOver(t, daemon)
	kill(t, running.Process)
	running = enemy.start(t, "locked", held)
	lab.goodTraffic(t, 50, func() {})
	must(t, successor.Stop(patience))
	kill(t, running.Process)
}

// statusSample is ktsnd's status at a time after the start of a program.
type statusSample struct {
	*control.Status
	after time.Duration
}

// watchAttack samples ktsnd's status until the program has ended.
func watchAttack(t *testing.T, client *control.Client, begin func() *attack) (*attack, []statusSample) {
	t.Helper()
	began := time.Now()
	running := begin()
	var all []statusSample
	for ended := false; !ended; time.Sleep(10 * time.Millisecond) {
		select {
		case <-running.Done():
			ended = true
		default:
		}
		all = append(all, statusSample{statusOf(t, client), time.Since(began)})
	}
	return running, all
}

// maximum returns the highest value of the samples.
func maximum(seen []statusSample, value func(*control.Status) int) int {
	highest := 0
	for _, sample := range seen {
		highest = max(highest, value(sample.Status))
	}
	return highest
}

// checkPace checks that a counter never exceeds a base plus a rate per second.
func checkPace(t *testing.T, seen []statusSample, base, perSecond float64, value func(control.Counters) uint64) {
	t.Helper()
	for _, sample := range seen {
		if count := value(sample.Counters); float64(count) > base+perSecond*sample.after.Seconds() {
			t.Errorf("%d after %v, want at most %v and %v a second", count, sample.after, base, perSecond)
			return
		}
	}
}

// shareCase is a limit with the checks of a pod that reaches it.
type shareCase struct {
	options []string
	mode    string
	// check gets the samples during the run and the counters at its end.
	check func(t *testing.T, results map[string]int, seen []statusSample, end control.Counters)
}

func TestPodQuota(t *testing.T) {
	timing(t)
	for name, test := range map[string]shareCase{
		"of connections": {[]string{"--pod-processes", "3"}, "many",
			func(t *testing.T, results map[string]int, seen []statusSample, end control.Counters) {
				processes := maximum(seen, func(status *control.Status) int { return status.Processes })
				// Eight more connections are accepted, so that their processes learn why they get no ring.
				if results["rings"] != 3 || syscall.Errno(results["ring-errno"]) != syscall.EMFILE || processes > 3+8 || end.LimitRefusals == 0 {
					t.Errorf("%v, %d processes, %d refusals", results, processes, end.LimitRefusals)
				}
			}},
		"of timed sockets": {[]string{"--pod-sockets", "5"}, "many",
			func(t *testing.T, results map[string]int, seen []statusSample, end control.Counters) {
				flows := maximum(seen, func(status *control.Status) int { return status.Flows })
				if results["sockets"] != 5 || syscall.Errno(results["socket-errno"]) != syscall.ENOBUFS || flows != 5 || end.LimitRefusals == 0 {
					t.Errorf("%v, %d flows, %d refusals", results, flows, end.LimitRefusals)
				}
			}},
		"of memory for rings": {[]string{"--pod-memory", "1"}, "many",
			func(t *testing.T, results map[string]int, _ []statusSample, end control.Counters) {
				if results["rings"] != 1 || syscall.Errno(results["ring-errno"]) != syscall.ENOMEM || end.LimitRefusals == 0 {
					t.Errorf("%v, %d refusals", results, end.LimitRefusals)
				}
			}},
		"of messages under way": {[]string{"--pod-pending", "100"}, "distant",
			func(t *testing.T, _ map[string]int, seen []statusSample, end control.Counters) {
				pending := maximum(seen, func(status *control.Status) int { return status.Pending })
				if pending > 100 || pending == 0 || end.SharePending == 0 {
					t.Errorf("%d pending; %+v", pending, end)
				}
			}},
		"of messages a second": {[]string{"--pod-rate", "1000"}, "flood",
			func(t *testing.T, _ map[string]int, seen []statusSample, end control.Counters) {
				checkPace(t, seen, 500, 1000, func(counted control.Counters) uint64 { return counted.Taken })
				if end.Taken < 100 || end.ShareRate == 0 {
					t.Errorf("%d taken, %d times held back", end.Taken, end.ShareRate)
				}
			}},
		"of doorbells": {[]string{"--pod-doorbells", "100"}, "bell",
			func(t *testing.T, _ map[string]int, seen []statusSample, end control.Counters) {
				checkPace(t, seen, 500, 2000, func(counted control.Counters) uint64 { return counted.Doorbells })
				if end.ShareDoorbells == 0 {
					t.Error("none was too many")
				}
			}},
		"of the future": {[]string{"--pod-horizon", "100ms"}, "distant",
			func(t *testing.T, results map[string]int, _ []statusSample, end control.Counters) {
				if end.DropHorizon == 0 || end.Sent != 0 {
					t.Errorf("of %d messages %d were dropped, %d sent", results["filled"], end.DropHorizon, end.Sent)
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			_, client := lab.startDaemon(t, test.options...)
			enemy := lab.addHostile(t, client)
			running, seen := watchAttack(t, client, func() *attack { return enemy.start(t, test.mode, 1200*time.Millisecond) })
			test.check(t, running.results(t), seen, seen[len(seen)-1].Counters)
		})
	}
}
