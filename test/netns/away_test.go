// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
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
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// writeLibrary writes libktsn into the folder of the socket, like the CSI driver (internal/node/agent/csi).
func (l *lab) writeLibrary(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(program(t, "libktsn.so"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(l.dir, "libktsn.so"), content, 0o444))
}

// daemonEnds are the states in which a stopped ktsnd leaves the folder of its socket.
var daemonEnds = map[string]func(t *testing.T, lab *lab, daemon *process.Process){
	"its socket, when it was killed": func(t *testing.T, lab *lab, daemon *process.Process) {
		t.Helper()
		kill(t, daemon)
		checkSocket(t, lab, true)
	},
	"the pod's library, when it ended in order": func(t *testing.T, lab *lab, daemon *process.Process) {
		t.Helper()
		lab.writeLibrary(t)
		must(t, daemon.Stop(patience))
		checkSocket(t, lab, false)
	},
}

func checkSocket(t *testing.T, lab *lab, want bool) {
	t.Helper()
	if _, err := os.Lstat(lab.socket); (err == nil) != want {
		t.Fatalf("the socket is there: %v, want %v; the test proves nothing then", !want, want)
	}
}

// TestProgramStartedWithoutDaemonWaits starts programs without a ktsnd: they wait for it and no message leaves early.
func TestProgramStartedWithoutDaemonWaits(t *testing.T) {
	timing(t)
	for name, leave := range daemonEnds {
		for _, way := range []string{"blocking", "nonblocking"} {
			t.Run("with "+name+", "+way, func(t *testing.T) {
				t.Parallel()
				lab := newLab(t)
				daemon, _ := lab.startDaemon(t)
				lab.listenForTexts(t)
				tap := lab.openTap(t, 100)
				leave(t, lab, daemon)
				asker := lab.startAsker(t, way)
				asker.request(t, "socket")
				asker.request(t, "send")
				time.Sleep(300 * time.Millisecond)
				_, client := lab.startDaemon(t)
				checkAnswer(t, asker, "made")
				refused := 0 // non-blocking calls fail until ktsnd answers
				answer, _ := asker.answer(t)
				for begun := time.Now(); answer != "sent"; answer, _ = asker.answer(t) {
					if answer != "ENETDOWN" || way == "blocking" || time.Since(begun) > patience {
						t.Fatalf("ktsnd is there, and a message gives %q", answer)
					}
					refused++
					asker.request(t, "send")
				}
				for range 5 {
					asker.expect(t, "send", "sent")
				}
				asker.awaitEnd(t)
				checkAccount(t, awaitSettled(t, client), 6, refused)
				checkWire(t, tap, 6)
			})
		}
	}
}

func checkAnswer(t *testing.T, asker *asker, want string) {
	t.Helper()
	if answer, _ := asker.answer(t); answer != want {
		t.Errorf("got %q, want %q", answer, want)
	}
}

// checkAccount checks that ktsnd sent the messages that the application counts as sent and knows the rejected ones.
func checkAccount(t *testing.T, counted control.Counters, sent, refused int) {
	t.Helper()
	want := uint64(sent) //nolint:gosec // a few
	if counted.Taken != want || counted.Sent != want || counted.KernelPath != 0 || counted.Dropped() != 0 {
		t.Errorf("the application sent %d, and ktsnd counts %+v", sent, counted)
	}
	if counted.Unanswered != uint64(refused) { //nolint:gosec // a few
		t.Errorf("the application was refused %d, and ktsnd has of %d", refused, counted.Unanswered)
	}
}

// TestSendWithoutDaemonFails checks that without a ktsnd each call fails after its timeout and no message leaves.
func TestSendWithoutDaemonFails(t *testing.T) {
	content(t)
	ways := map[string]func(*testing.T){}
	for name, leave := range daemonEnds {
		for way, limit := range map[string]time.Duration{
			"blocking": 7 * time.Second, "timeout": 3 * time.Second, "nonblocking": 2 * time.Second, "dontwait": 2 * time.Second,
		} {
			ways["with "+name+", "+way] = func(t *testing.T) {
				lab := newLab(t)
				daemon, _ := lab.startDaemon(t)
				tap := lab.openTap(t, 100)
				leave(t, lab, daemon)
				asker := lab.startAsker(t, way)
				if took := asker.expect(t, "socket", "made"); took > limit {
					t.Errorf("to make the socket took %v", took)
				}
				for range 5 {
					if took := asker.expect(t, "send", "ENETDOWN"); took > limit {
						t.Errorf("the call took %v", took)
					}
				}
				checkWire(t, tap, 0)
			}
		}
	}
	testlab.AtOnce(t, ways)
}

// TestProgramWithoutDaemonUsesKernel checks that without ktsnd's socket and the pod's folder the kernel's SO_TXTIME is
// used, which sends at once without etf. It also shows that the tests above detect an early message.
func TestProgramWithoutDaemonUsesKernel(t *testing.T) {
	timing(t)
	for name, prepare := range map[string]func(t *testing.T, lab *lab){
		"because the folder is empty":  func(*testing.T, *lab) {},
		"because there is no folder":   func(_ *testing.T, lab *lab) { lab.socket = filepath.Join(lab.dir, "none", "app.sock") },
		"because ktsnd ended in order": endInOrder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := newLabWithPass(t)
			lab.listenForTexts(t)
			prepare(t, lab)
			tap := lab.openTap(t, 100)
			asker := lab.startAskerAhead(t, "blocking", time.Minute)
			asker.expect(t, "socket", "made")
			asker.expect(t, "send", "sent")
			asker.expect(t, "send", "sent")
			if early := leadsOnWire(t, tap, 2); len(early) != 2 || slices.Min(early) <= 0 {
				t.Errorf("messages left so long before their times: %v, want 2 and early", early)
			}
		})
	}
}

func endInOrder(t *testing.T, lab *lab) {
	t.Helper()
	daemon, _ := lab.startDaemon(t)
	must(t, daemon.Stop(patience))
	checkSocket(t, lab, false)
}

// startingShapes are programs that create their sockets and processes in different ways.
var startingShapes = []string{"plain", "forked-and-both-send", "forked-and-the-child-makes-its-own",
	"daemonised-with-its-socket", "vforked-and-the-program-sends", "execs-with-its-socket", "passed-to-a-program-and-both-send",
	"bound-and-unconnected", "sendmmsg-of-timed-and-untimed", "threads-on-sockets-of-their-own"}

// TestProgramShapesStartedWithoutDaemonAreServed starts all kinds of programs without a ktsnd, with both C libraries,
// as root and as nobody.
func TestProgramShapesStartedWithoutDaemonAreServed(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.addAddress(t)
	lab.writeLibrary(t)
	environment := lab.preloadedForNobody(t)
	daemon, _ := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	for libc, program := range shapePrograms(t) {
		for i, shape := range shapesNamed(t, startingShapes) {
			user := users[i%len(users)]
			t.Run(libc+", "+user+", "+shape.sentence, func(t *testing.T) {
				if i%4 < len(users) {
					kill(t, daemon)
				} else if err := daemon.Stop(patience); err != nil {
					t.Fatal(err)
				}
				running := start(t, lab.PodA, shape.name, shapeCommand(program, shape, user, environment))
				time.Sleep(100 * time.Millisecond)
				next, client := lab.startDaemon(t)
				daemon = next
				if err := finish(t, running); err != nil {
					t.Errorf("%v; %s", err, running.Stderr())
				}
				checkServed(t, shape, receiver.take(t, shape.timed+shape.untimed, patience))
				checkCounted(t, shape, control.Counters{}, awaitSettled(t, client))
			})
		}
	}
}

func shapesNamed(t *testing.T, names []string) []shape {
	t.Helper()
	var named []shape
	for _, candidate := range shapes {
		if slices.Contains(names, candidate.name) {
			named = append(named, candidate)
		}
	}
	if len(named) != len(names) {
		t.Fatalf("%d of %d shapes are known: %v", len(named), len(names), named)
	}
	return named
}

// asker is a run of testdata/silent.py in pod a, which executes one command after another.
type asker struct{ dialogue }

func (l *lab) startAsker(t *testing.T, way string) *asker {
	t.Helper()
	return l.startAskerAhead(t, way, 20*time.Millisecond)
}

// startAskerAhead starts a program whose messages are due a given time after they are sent.
func (l *lab) startAskerAhead(t *testing.T, way string, lead time.Duration) *asker {
	t.Helper()
	command := exec.Command(python(t), "testdata/silent.py", way, topology.PodAddressB.String(), strconv.Itoa(listenPort),
		strconv.FormatInt(lead.Nanoseconds(), 10))
	command.Env = l.preloaded(t)
	return &asker{startDialogue(t, l.PodA, "silent.py "+way, command)}
}

// answer returns the result of a command and its duration.
func (a *asker) answer(t *testing.T) (string, time.Duration) {
	t.Helper()
	var answer string
	var milliseconds int64
	text := a.line(t)
	if _, err := fmt.Sscan(text, &answer, &milliseconds); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return answer, time.Duration(milliseconds) * time.Millisecond
}

func (a *asker) expect(t *testing.T, what, want string) time.Duration {
	t.Helper()
	a.request(t, what)
	answer, took := a.answer(t)
	if answer != want {
		t.Errorf("%s: got %q, want %q", what, answer, want)
	}
	return took
}

// txtimeOf returns the transmit time in the payload of a message on the wire, false for other frames.
func txtimeOf(frame wiretap.Packet) (int64, bool) {
	datagram, err := wiretap.Dissect(frame.Head)
	if err != nil || datagram.Destination.Port() != listenPort {
		return 0, false
	}
	txtime, err := strconv.ParseInt(string(datagram.Payload), 10, 64)
	return txtime, err == nil
}

// leadsOnWire waits for count messages with their transmit time as payload and returns how long before it each was on
// the wire.
func leadsOnWire(t *testing.T, tap *wiretap.Tap, want int) []time.Duration {
	t.Helper()
	awaitWire(t, tap, want, func(frame wiretap.Packet) bool { _, ok := txtimeOf(frame); return ok })
	var leads []time.Duration
	for _, frame := range stopTap(t, tap) {
		if txtime, ok := txtimeOf(frame); ok {
			leads = append(leads, time.Duration(txtime-frame.TAI))
		}
	}
	return leads
}

// checkWire checks that count messages with their transmit time as payload were on the wire, none of them early.
func checkWire(t *testing.T, tap *wiretap.Tap, want int) {
	t.Helper()
	leads := leadsOnWire(t, tap, want)
	for _, early := range leads {
		if early > 0 {
			t.Errorf("a message was on the wire %v before its time", early)
		}
	}
	if len(leads) != want {
		t.Errorf("%d messages were on the wire, want %d", len(leads), want)
	}
}

// TestNonBlockingCallFailsWithSilentDaemon checks that a non-blocking call fails without waiting and that its message
// does not leave.
func TestNonBlockingCallFailsWithSilentDaemon(t *testing.T) {
	content(t)
	ways := map[string]func(*testing.T){}
	for _, way := range []string{"nonblocking", "dontwait", "timeout"} {
		ways[way] = func(t *testing.T) {
			lab := newLab(t)
			daemon, client := lab.startDaemon(t)
			lab.listenForTexts(t)
			tap := lab.openTap(t, 100)
			signal(t, daemon, syscall.SIGSTOP)
			asker := lab.startAsker(t, way)
			asker.expect(t, "socket", "made")
			for range 5 {
				if took := asker.expect(t, "send", "ENETDOWN"); took > 3*time.Second {
					t.Errorf("the call took %v", took)
				}
			}
			signal(t, daemon, syscall.SIGCONT)
			idle := time.Now()
			for asker.request(t, "send"); ; asker.request(t, "send") {
				if answer, _ := asker.answer(t); answer == "sent" {
					break
				} else if answer != "ENETDOWN" || time.Since(idle) > patience {
					t.Fatalf("ktsnd continues, and a message gives %s", answer)
				}
			}
			asker.expect(t, "send", "sent")
			asker.awaitEnd(t)
			counted := awaitSettled(t, client)
			if counted.Unanswered < 5 || counted.Taken != 2 || counted.KernelPath != 0 {
				t.Errorf("ktsnd counts %+v", counted)
			}
			checkWire(t, tap, 2)
			awaitLog(t, daemon, "did not answer in time")
			if count := strings.Count(daemon.Stderr(), "did not answer in time"); count != 1 {
				t.Errorf("ktsnd reports %d times that it did not answer: %s", count, daemon.Stderr())
			}
		}
	}
	testlab.AtOnce(t, ways)
}

// TestNothingTimedLeavesWithoutAnswer checks that no timed message leaves while the listener at the socket never
// answers, whatever the kernel returns for SO_TXTIME.
func TestNothingTimedLeavesWithoutAnswer(t *testing.T) {
	content(t)
	asUsers := map[string]func(*testing.T){}
	for _, user := range users {
		asUsers[user] = func(t *testing.T) {
			lab := newLab(t)
			listenApp(t, lab.socket)
			tap := lab.openTap(t, 100)
			dir := publicDir(t)
			must(t, os.Chmod(dir, 0o777)) //nolint:gosec // for nobody's report
			file := filepath.Join(dir, "talker.csv")
			command := exec.Command(publicCopy(t, "tsnperf"), "talker", "--quiet", "--clock", "tai", "--count", "2", "--csv", file,
				"--to", netip.AddrPortFrom(topology.PodAddressB, listenPort).String())
			command.Env = lab.preloadedForNobody(t)
			if user == "nobody" {
				asNobody(command)
			}
			_ = finish(t, start(t, lab.PodA, "talker", command))
			for _, sent := range testlab.ReadFile(t, file, tsnperf.ReadTalker) {
				if errno := syscall.Errno(sent.Errno); errno != syscall.ENETDOWN {
					t.Errorf("message %d gave %v", sent.Sequence, errno)
				}
			}
			seen := &observed{}
			if seen.addPackets(t, tap); len(seen.packets) != 0 {
				t.Errorf("%d messages were on the wire", len(seen.packets))
			}
		}
	}
	testlab.AtOnce(t, asUsers)
}

// TestSocketsCreatedBetweenDaemonsAreServed opens a socket in a served process after ktsnd has ended: it waits for the
// next ktsnd.
func TestSocketsCreatedBetweenDaemonsAreServed(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	lab.listenForTexts(t)
	tap := lab.openTap(t, 100)
	asker := lab.startAsker(t, "blocking")
	asker.expect(t, "socket", "made")
	asker.expect(t, "send", "sent")
	awaitSent(t, client, 1) // otherwise its departure is uncertain
	kill(t, daemon)
	asker.request(t, "socket")
	time.Sleep(300 * time.Millisecond)
	_, client = lab.startDaemon(t)
	if answer, _ := asker.answer(t); answer != "made" {
		t.Errorf("got %q", answer)
	}
	asker.expect(t, "send", "sent")
	asker.awaitEnd(t)
	awaitSettled(t, client)
	checkWire(t, tap, 2)
}

// TestProgramShapesWithStarvedDaemon runs programs of all shapes with a ktsnd that is mostly stopped: no message is
// early or lost.
func TestProgramShapesWithStarvedDaemon(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.addAddress(t)
	environment := lab.preloadedForNobody(t)
	programs := map[string]string{"glibc": publicCopy(t, "ktsn-test-shapes")}
	daemon, client := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	eachShape(t, programs, func(t *testing.T, shape shape, program, user string) {
		before := awaitSettled(t, client)
		running := start(t, lab.PodA, shape.name, shapeCommand(program, shape, user, environment))
		stopNowAndThen(t, daemon, running)
		if err := running.Wait(); err != nil {
			t.Errorf("%v; %s", err, running.Stderr())
		}
		checkServed(t, shape, receiver.take(t, shape.timed+shape.untimed, patience))
		checkCounted(t, shape, before, awaitSettled(t, client))
	})
	checkNobodyIsServed(t, client)
}

// stopNowAndThen repeatedly stops ktsnd for longer than libktsn waits for an answer, until the program has ended.
func stopNowAndThen(t *testing.T, daemon, running *process.Process) {
	t.Helper()
	defer signal(t, daemon, syscall.SIGCONT)
	testlab.Eventually(t, patience, 0, func() error {
		signal(t, daemon, syscall.SIGSTOP)
		select {
		case <-running.Done():
			return nil
		case <-time.After(150 * time.Millisecond):
		}
		signal(t, daemon, syscall.SIGCONT)
		select {
		case <-running.Done():
			return nil
		case <-time.After(30 * time.Millisecond):
		}
		return fmt.Errorf("%s does not end; its log: %s", running.Name(), running.Stderr())
	})
}

// TestBlockedSenderSurvivesKtsnd checks that an application that waits for space in any way hands its ring to the
// successor of a killed ktsnd.
func TestBlockedSenderSurvivesKtsnd(t *testing.T) {
	timing(t)
	for _, way := range []string{"poll", "select", "epoll", "epoll-edge"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			daemon, _ := lab.startDaemon(t)
			lab.listenForTexts(t) // avoids "port unreachable"
			running := startDialogue(t, lab.PodA, "python3", lab.script(t, "space.py", way))
			if text := running.line(t); text != "waiting" {
				t.Fatalf("got %q; %s", text, running.Stderr())
			}
			kill(t, daemon)
			lab.startDaemon(t)
			if err := finish(t, running.Process); err != nil {
				t.Errorf("it was not woken: %v; %s", err, running.Stderr())
			}
		})
	}
}

// TestEpollReportsWritableWithoutSpareDescriptors checks that epoll reports the socket as writable when libktsn cannot
// open a descriptor of its own.
func TestEpollReportsWritableWithoutSpareDescriptors(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	lab.listenForTexts(t)
	for name, numbers := range map[string][]string{
		"a low limit":                          {"64", "8"},
		"one left, which is not enough":        {"64", "1"},
		"none left":                            {"64", "0"},
		"none left below a limit that is high": {"1024", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := finish(t, start(t, lab.PodA, "python3", lab.script(t, "few_descriptors.py", numbers...))); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPollIgnoresDescriptorClosedElsewhere(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	lab.listenForTexts(t)
	if err := finish(t, start(t, lab.PodA, "python3", lab.script(t, "own_closed.py"))); err != nil {
		t.Error(err)
	}
}

// nobodysTalker returns a talker without privileges, to which the kernel denies SO_TXTIME with CLOCK_TAI. environment
// nil means without libktsn.
func nobodysTalker(t *testing.T, environment []string) *exec.Cmd {
	t.Helper()
	command := asNobody(exec.Command(publicCopy(t, "tsnperf"), "talker", "--quiet", "--clock", "tai",
		"--to", netip.AddrPortFrom(topology.PodAddressB, listenPort).String(), "--count", "20"))
	command.Env = environment
	return command
}

// preloadedForNobody returns the environment with a libktsn that every user can read.
func (l *lab) preloadedForNobody(t *testing.T) []string {
	t.Helper()
	return append(l.preloaded(t), "LD_PRELOAD="+publicCopy(t, "libktsn.so"))
}

func TestWithoutDaemonKernelErrorsStay(t *testing.T) {
	content(t)
	lab := newLab(t)
	plain := start(t, lab.PodA, "talker", nobodysTalker(t, nil))
	errPlain := finish(t, plain)
	if errPlain == nil {
		t.Fatal("the kernel granted SO_TXTIME with CLOCK_TAI to nobody; the test proves nothing")
	}
	begin := time.Now()
	preloaded := start(t, lab.PodA, "talker", nobodysTalker(t, lab.preloadedForNobody(t)))
	if err := finish(t, preloaded); err == nil || preloaded.Stderr() != plain.Stderr() {
		t.Errorf("with libktsn got %q (%v), without %q", preloaded.Stderr(), err, plain.Stderr())
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v to detect that there is no daemon", took)
	}
}

// listenApp listens like a ktsnd that never answers.
func listenApp(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	must(t, os.Chmod(path, 0o666))
	return listener
}
