// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// writeLibrary puts beside the socket what a pod finds there (internal/node/agent/csi).
func (l *lab) writeLibrary(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(program(t, "libktsn.so"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.dir, "libktsn.so"), content, 0o444); err != nil {
		t.Fatal(err)
	}
}

// leavings are what a ktsnd that is away has left in the folder of its socket.
var daemonEnds = map[string]func(t *testing.T, lab *lab, daemon *process.Process){
	"its socket, when it was killed": func(t *testing.T, lab *lab, daemon *process.Process) {
		t.Helper()
		kill(t, daemon)
		checkSocket(t, lab, true)
	},
	"the pod's library, when it ended in order": func(t *testing.T, lab *lab, daemon *process.Process) {
		t.Helper()
		lab.writeLibrary(t)
		if err := daemon.Stop(patience); err != nil {
			t.Fatal(err)
		}
		checkSocket(t, lab, false)
	},
}

func checkSocket(t *testing.T, lab *lab, want bool) {
	t.Helper()
	if _, err := os.Lstat(lab.socket); (err == nil) != want {
		t.Fatalf("the socket is there: %v, want %v; this test has no meaning then", !want, want)
	}
}

// A program that starts while ktsnd is away was never served by one, and nothing of it leaves early all the same.
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
				refused := 0 // as those that may not wait are for as long as the machine keeps ktsnd from answering
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
				asker.ends(t)
				checkAccount(t, awaitSettled(t, client), 6, refused)
				checkWire(t, tap, 6)
			})
		}
	}
}

func checkAnswer(t *testing.T, asker *asker, want string) {
	t.Helper()
	if answer, _ := asker.answer(t); answer != want {
		t.Errorf("it says %q, want %q", answer, want)
	}
}

// checkAccount checks that ktsnd sent what the application was told was sent, and knows of what it was refused.
func checkAccount(t *testing.T, counted control.Counters, sent, refused int) {
	t.Helper()
	want := uint64(sent) //nolint:gosec // a few
	if counted.Taken != want || counted.Sent != want || counted.KernelPath != 0 || counted.Dropped() != 0 {
		t.Errorf("the application sent %d, and ktsnd counts %+v", sent, counted)
	}
	if counted.Unanswered != uint64(refused) { //nolint:gosec // a few
		t.Errorf("the application was refused %d, and ktsnd knows of %d", refused, counted.Unanswered)
	}
}

// Where no ktsnd comes back, each message is refused, after the time that the call may take, and none leaves.
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

// Without ktsnd's socket and a pod's folder the kernel's answer stands: its SO_TXTIME sends at once where there is no etf. It
// also shows that the tests above would see a message that leaves early.
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
	if err := daemon.Stop(patience); err != nil {
		t.Fatal(err)
	}
	checkSocket(t, lab, false)
}

// startingShapes are programs whose sockets and processes come about in different ways.
var startingShapes = []string{"plain", "forked-and-both-send", "forked-and-the-child-makes-its-own",
	"daemonised-with-its-socket", "vforked-and-the-program-sends", "execs-with-its-socket", "passed-to-a-program-and-both-send",
	"bound-and-unconnected", "sendmmsg-of-timed-and-untimed", "threads-on-sockets-of-their-own"}

// All kinds of programs, of both C libraries, with and without privileges, start while ktsnd is away.
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
