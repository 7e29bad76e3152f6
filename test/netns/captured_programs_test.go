// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// plan contains the options of the programs of these tests.
type plan struct {
	to            netip.AddrPort
	count         int
	clock         int32
	leadNs, cycle int64
}

func (p *plan) arguments() []string {
	return []string{p.to.Addr().String(), strconv.Itoa(int(p.to.Port())), strconv.Itoa(p.count), strconv.Itoa(int(p.clock)),
		strconv.FormatInt(p.leadNs, 10), strconv.FormatInt(p.cycle, 10)}
}

// unseenPrograms are the programs whose calls no preloaded library intercepts, with their commands.
var unseenPrograms = map[string]func(*testing.T, *plan) *exec.Cmd{
	"static C with musl": func(t *testing.T, p *plan) *exec.Cmd { return cProgram(t, muslCompiler(t), "sendmsg", p) },
	"io_uring":           func(t *testing.T, p *plan) *exec.Cmd { return cProgram(t, "gcc", "io_uring", p) },
	"static Rust":        func(t *testing.T, p *plan) *exec.Cmd { return exec.Command(rustProgram(t), p.arguments()...) },
	"CPython without libktsn": func(t *testing.T, p *plan) *exec.Cmd {
		return exec.Command(python(t), append([]string{"testdata/captured.py"}, p.arguments()...)...)
	},
}

// cProgram compiles datapath/tests/programs/captured. musl's compiler does not find the kernel's headers by itself.
func cProgram(t *testing.T, compiler, way string, p *plan) *exec.Cmd {
	t.Helper()
	built := compile(t, compiler, "static-"+way, "captured/*.c", "-static", "-idirafter", "/usr/include", "-idirafter",
		"/usr/include/x86_64-linux-gnu")
	return exec.Command(built, append([]string{way}, p.arguments()...)...)
}

func rustProgram(t *testing.T) string {
	t.Helper()
	compiler, err := exec.LookPath("rustc")
	if err != nil {
		testlab.Missing(t, "rustc is missing; install it")
	}
	built := filepath.Join(publicDir(t), "rust-sender")
	output, err := exec.Command(compiler, "--edition", "2021", "-O", "-C", "target-feature=+crt-static", "-o", built,
		"testdata/captured.rs").CombinedOutput()
	if err != nil {
		t.Fatalf("compile testdata/captured.rs: %v\n%s", err, output)
	}
	return built
}

// lacking is the exit status of a program that needs a kernel feature that is missing.
const lacking = 77

// send sends from a program of pod a.
func (c *captured) send(t *testing.T, command *exec.Cmd) {
	t.Helper()
	running := start(t, c.PodA, "sender", command)
	err := finish(t, running)
	if command.ProcessState.ExitCode() == lacking {
		testlab.Missing(t, "the kernel lacks it (kernel.io_uring_disabled?)")
	}
	must(t, err)
}

// TestProgramsWithoutLibrarySendOnTime checks programs that libktsn cannot intercept, for each user, clock and family.
func TestProgramsWithoutLibrarySendOnTime(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.Timed)
	v4, v6 := atPodB, netip.AddrPortFrom(podAddress6B, listenPort)
	const count = 100
	for name, test := range map[string]struct {
		program string
		to      netip.AddrPort
		clock   int32
		user    string
	}{
		"static C":                          {"static C with musl", v4, unix.CLOCK_TAI, "root"},
		"static C over IPv6":                {"static C with musl", v6, unix.CLOCK_TAI, "root"},
		"static C on CLOCK_REALTIME":        {"static C with musl", v4, unix.CLOCK_REALTIME, "root"},
		"static C on CLOCK_MONOTONIC":       {"static C with musl", v4, unix.CLOCK_MONOTONIC, "nobody"},
		"static Rust":                       {"static Rust", v4, unix.CLOCK_MONOTONIC, "nobody"},
		"static Rust over IPv6":             {"static Rust", v6, unix.CLOCK_MONOTONIC, "nobody"},
		"io_uring":                          {"io_uring", v4, unix.CLOCK_MONOTONIC, "nobody"},
		"io_uring over IPv6":                {"io_uring", v6, unix.CLOCK_TAI, "root"},
		"CPython without libktsn":           {"CPython without libktsn", v4, unix.CLOCK_MONOTONIC, "root"},
		"CPython without libktsn over IPv6": {"CPython without libktsn", v6, unix.CLOCK_TAI, "root"},
	} {
		t.Run(name, func(t *testing.T) {
			before := counters(t, c.client)
			listener := listen(t, c.PodB, "udp", test.to)
			tap := c.openTap(t, count)
			command := unseenPrograms[test.program](t, &plan{test.to, count, test.clock, 20e6, 1e6})
			if test.user == "nobody" {
				asNobody(command)
			}
			c.send(t, command)
			checkInOrder(t, awaitMarks(t, tap, count), count, test.clock)
			checkMarksReceived(t, receivedTexts(t, listener), count)
			awaitCounters(t, c.client, "all are sent", func(counted control.Counters) bool { return counted.Sent-before.Sent == count })
			if after := counters(t, c.client); after.Taken-before.Taken != count || after.Dropped() != before.Dropped() {
				t.Errorf("counted %+v, before %+v", after, before)
			}
		})
	}
}

// checkMarksReceived checks that the receiving program got all marks once and in order.
func checkMarksReceived(t *testing.T, received []string, count int) {
	t.Helper()
	if len(received) != count {
		t.Errorf("%d messages arrived, want %d", len(received), count)
	}
	for i, text := range received {
		if parsed, ok := markOf([]byte(text)); !ok || int(parsed.number) != i {
			t.Fatalf("in place %d arrived %q", i, text)
		}
	}
}

// TestStaticGoProgramSendsOnTime sends tsnperf's messages from a static Go program and checks each byte with its
// listener.
func TestStaticGoProgramSendsOnTime(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.Timed)
	for name, test := range map[string]struct {
		to        netip.AddrPort
		arguments []string
		count     int
	}{
		"over IPv4":        {atPodB, nil, 500},
		"over IPv6":        {netip.AddrPortFrom(podAddress6B, listenPort), nil, 100},
		"the largest":      {atPodB, []string{"--size", "1422"}, 100},
		"one byte shorter": {atPodB, []string{"--size", "1421"}, 100},
		"in one class":     {atPodB, []string{"--priority", "6"}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			tap := c.openTap(t, test.count)
			f := listenFor(t, c.PodB, test.to, test.count)
			f.talker = start(t, c.PodA, "talker", goTalker(t, f.talkerFile, test.to, append(test.arguments, "--count", strconv.Itoa(test.count))...))
			f.finish(t)
			f.checkConserved(t, sum{})
			if len(f.received) != test.count {
				t.Errorf("%d of %d messages arrived", len(f.received), test.count)
			}
			for i, message := range f.received {
				if int(message.Sequence) != i {
					t.Fatalf("message %d arrived in place %d", message.Sequence, i)
				}
			}
			if test.to.Addr().Is4() {
				seen := &observed{sent: f.sent}
				seen.addPackets(t, tap)
				checkNotEarly(t, seen, test.count)
			}
		})
	}
}

// checkNotEarly checks the frames on the wire of one flow with rising times.
func checkNotEarly(t *testing.T, seen *observed, count int) {
	t.Helper()
	if len(seen.wireTAI) != count {
		t.Fatalf("%d messages on the wire, want %d", len(seen.wireTAI), count)
	}
	for i, wire := range seen.wireTAI {
		message, err := tsnperf.DecodeMessage(seen.packets[i].Payload)
		if err != nil || int(message.Sequence) != i {
			t.Fatalf("in place %d is message %+v, %v", i, message, err)
		}
		if wire < message.Txtime {
			t.Errorf("message %d was %d ns early", i, message.Txtime-wire)
		}
		if from := seen.packets[i]; from.VNI != topology.VNI || from.Source.Addr() != topology.PodAddressA {
			t.Errorf("message %d arrives from %s in network %d", i, from.Source, from.VNI)
		}
	}
}

// goTalker returns the static Go talker.
func goTalker(t *testing.T, file string, to netip.AddrPort, options ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-talker"), append([]string{"--csv", file, "--to", to.String(), "--lead", "20ms"}, options...)...)
	command.Env = os.Environ()
	return command
}

// TestLibraryMessagesAreNotCapturedTwice checks that messages of libktsn in a captured pod are not captured too.
func TestLibraryMessagesAreNotCapturedTwice(t *testing.T) {
	timing(t)
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			const count = 100
			c := newCaptured(t, mode)
			before := counters(t, c.client)
			seen := c.run(t, traffic{count: count, payloadBytes: 64, environment: c.preloaded(t)})
			checkAllArrived(t, seen, count)
			checkNotEarly(t, seen, count)
			awaitCounters(t, c.client, "all are sent", func(counted control.Counters) bool {
				return counted.Sent-counted.Untimed-(before.Sent-before.Untimed) == count
			})
		})
	}
}

// TestUnprivilegedProgramInCapturedPod sends timed and untimed messages with libktsn from one socket, without
// privileges.
func TestUnprivilegedProgramInCapturedPod(t *testing.T) {
	timing(t)
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			const each = 20
			c := newCaptured(t, mode)
			before := counters(t, c.client)
			listener := c.listenForTexts(t)
			arguments := connectedTo(atPodB)
			want := map[string]int{"timed": each, "ordinary": each}
			for range each {
				arguments = append(arguments, "50000:timed", "-:ordinary")
			}
			command := asNobody(exec.Command(publicCopy(t, "ktsn-test-send"), arguments...))
			command.Env = c.preloadedForNobody(t)
			c.openSocket(t)
			c.send(t, command)
			came := map[string]int{}
			for range 2 * each {
				text, _ := receive(t, listener)
				came[text]++
			}
			if !maps.Equal(came, want) {
				t.Errorf("%v arrived, want %v", came, want)
			}
			awaitCounters(t, c.client, "ktsnd has sent those with a time", func(counted control.Counters) bool {
				return counted.Sent-counted.Untimed-(before.Sent-before.Untimed) == each
			})
			counted, ktsnd := c.countFrames(t), counters(t, c.client)
			if counted.captured > 0 || counted.refused > 0 {
				t.Errorf("the programs of the kernel counted %+v", counted)
			}
			if mode == capture.All && ktsnd.Untimed-before.Untimed+counted.passed < each {
				t.Errorf("ktsnd has sent %d without a time, and the bridge forwarded %d", ktsnd.Untimed-before.Untimed, counted.passed)
			}
		})
	}
}

// openSocket makes the pod's socket accessible to every user, like its mount in a container.
func (c *captured) openSocket(t *testing.T) {
	t.Helper()
	for dir := filepath.Dir(c.socket); strings.HasPrefix(dir, c.Dir); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o711)) //nolint:gosec // for nobody's program
	}
}
