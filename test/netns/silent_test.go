// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// asker is a run of testdata/silent.py in pod a, which does one thing after another as it is told.
type asker struct{ dialogue }

func (l *lab) startAsker(t *testing.T, way string) *asker {
	t.Helper()
	return l.startAskerAhead(t, way, 20*time.Millisecond)
}

// startAskerAhead starts one whose messages are due so much later than they are sent.
func (l *lab) startAskerAhead(t *testing.T, way string, lead time.Duration) *asker {
	t.Helper()
	command := exec.Command(python(t), "testdata/silent.py", way, topology.PodAddressB.String(), strconv.Itoa(listenPort),
		strconv.FormatInt(lead.Nanoseconds(), 10))
	command.Env = l.preloaded(t)
	return &asker{startDialogue(t, l.PodA, "silent.py "+way, command)}
}

// request has it make a socket or send a message, without waiting for what comes of it.
func (a *asker) request(t *testing.T, what string) {
	t.Helper()
	if _, err := fmt.Fprintln(a.stdin, what); err != nil {
		t.Fatalf("%v; it says %s", err, a.Stderr())
	}
}

// answer is what came of it, and how long that took.
func (a *asker) answer(t *testing.T) (string, time.Duration) {
	t.Helper()
	var answer string
	var milliseconds int64
	if !a.stdout.Scan() {
		t.Fatalf("it says nothing more; %s", a.Stderr())
	}
	if _, err := fmt.Sscan(a.stdout.Text(), &answer, &milliseconds); err != nil {
		t.Fatalf("%q: %v", a.stdout.Text(), err)
	}
	return answer, time.Duration(milliseconds) * time.Millisecond
}

func (a *asker) expect(t *testing.T, what, want string) time.Duration {
	t.Helper()
	a.request(t, what)
	answer, took := a.answer(t)
	if answer != want {
		t.Errorf("%s: it says %q, want %q", what, answer, want)
	}
	return took
}

// txtimeOf is the transmit time that is the payload of a message on the wire; false for all else.
func txtimeOf(frame wiretap.Packet) (int64, bool) {
	datagram, err := wiretap.Dissect(frame.Head)
	if err != nil || datagram.Destination.Port() != listenPort {
		return 0, false
	}
	txtime, err := strconv.ParseInt(string(datagram.Payload), 10, 64)
	return txtime, err == nil
}

// leadsOnWire is of each message on the wire whose payload is its transmit time how long before that it was there. It waits
// for so many.
func leadsOnWire(t *testing.T, tap *wiretap.Tap, want int) []time.Duration {
	t.Helper()
	awaitWire(t, tap, want, func(frame wiretap.Packet) bool { _, ok := txtimeOf(frame); return ok })
	capture, err := tap.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if capture.Drops > 0 {
		t.Fatalf("the tap dropped %d frames", capture.Drops)
	}
	var leads []time.Duration
	for _, frame := range capture.Packets {
		if txtime, ok := txtimeOf(frame); ok {
			leads = append(leads, time.Duration(txtime-frame.TAI))
		}
	}
	return leads
}

// checkWire checks that so many messages whose payload is their transmit time were on the wire, none before it.
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

// A call that must not wait does not wait for seconds, and the message does not leave early instead.
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
					t.Fatalf("ktsnd goes on, and a message gives %s", answer)
				}
			}
			asker.expect(t, "send", "sent")
			asker.ends(t)
			counted := awaitSettled(t, client)
			if counted.Unanswered < 5 || counted.Taken != 2 || counted.KernelPath != 0 {
				t.Errorf("ktsnd counts %+v", counted)
			}
			checkWire(t, tap, 2)
			awaitLog(t, daemon, "did not answer in time")
			if count := strings.Count(daemon.Stderr(), "did not answer in time"); count != 1 {
				t.Errorf("ktsnd says %d times that it did not answer: %s", count, daemon.Stderr())
			}
		}
	}
	testlab.AtOnce(t, ways)
}

// Where somebody listens and never answers, nothing timed ever leaves, whatever the kernel thinks of SO_TXTIME.
func TestNothingTimedLeavesWithoutAnswer(t *testing.T) {
	content(t)
	asUsers := map[string]func(*testing.T){}
	for _, user := range users {
		asUsers[user] = func(t *testing.T) {
			lab := newLab(t)
			listenApp(t, lab.socket)
			tap := lab.openTap(t, 100)
			dir := publicDir(t)
			if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // for nobody's report
				t.Fatal(err)
			}
			file := filepath.Join(dir, "talker.csv")
			command := exec.Command(publicCopy(t, "tsnperf"), "talker", "--quiet", "--clock", "tai", "--count", "2", "--csv", file,
				"--to", netip.AddrPortFrom(topology.PodAddressB, listenPort).String())
			command.Env = lab.preloadedForNobody(t)
			if user == "nobody" {
				asNobody(command)
			}
			_ = finish(t, start(t, lab.PodA, "talker", command))
			for _, sent := range read(t, file, tsnperf.ReadTalker) {
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

// A process that ktsnd served asks for another socket while ktsnd is away, and that waits for the next ktsnd.
func TestSocketsCreatedBetweenDaemonsAreServed(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	lab.listenForTexts(t)
	tap := lab.openTap(t, 100)
	asker := lab.startAsker(t, "blocking")
	asker.expect(t, "socket", "made")
	asker.expect(t, "send", "sent")
	awaitSent(t, client, 1) // or it is uncertain whether it has left
	kill(t, daemon)
	asker.request(t, "socket")
	time.Sleep(300 * time.Millisecond)
	_, client = lab.startDaemon(t)
	if answer, _ := asker.answer(t); answer != "made" {
		t.Errorf("it says %q", answer)
	}
	asker.expect(t, "send", "sent")
	asker.ends(t)
	awaitSettled(t, client)
	checkWire(t, tap, 2)
}

// All programs of all shapes, beside a ktsnd that hardly ever runs: whatever they do, nothing is early and nothing lost.
func TestProgramShapesWithStarvedDaemon(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.addAddress(t)
	environment := lab.preloadedForNobody(t)
	program := publicCopy(t, "ktsn-test-shapes")
	daemon, client := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	for _, user := range users {
		for _, shape := range shapes {
			t.Run(user+", "+shape.sentence, func(t *testing.T) {
				before := awaitSettled(t, client)
				running := start(t, lab.PodA, shape.name, shapeCommand(program, shape, user, environment))
				stopNowAndThen(t, daemon, running)
				if err := running.Wait(); err != nil {
					t.Errorf("%v; %s", err, running.Stderr())
				}
				checkServed(t, shape, receiver.take(t, shape.timed+shape.untimed, patience))
				checkCounted(t, shape, before, awaitSettled(t, client))
			})
		}
	}
	checkNobodyIsServed(t, client)
}

// stopNowAndThen stops ktsnd for longer than libktsn waits for an answer, again and again, until the program has ended.
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
		return fmt.Errorf("%s does not end; it said: %s", running.Name(), running.Stderr())
	})
}
