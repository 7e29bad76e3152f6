// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// shape is a use of sockets and processes by a case of ktsn-test-shapes, with its numbers of datagrams with and without
// a transmit time.
type shape struct {
	sentence string
	name     string
	timed    int
	untimed  int
}

var shapes = []shape{
	{"one socket", "plain", 3, 0},
	{"a copy made by dup", "copied-by-dup", 4, 0},
	{"a copy made before SO_TXTIME was asked for", "copied-before-it-asks", 4, 0},
	{"a copy made by dup2 over a file", "copied-by-dup2-over-a-file", 4, 0},
	{"a copy made by dup2 over a timed socket", "copied-by-dup2-over-a-timed-socket", 5, 0},
	{"dup2 over itself", "copied-by-dup2-over-itself", 4, 0},
	{"an untimed socket put over it by dup2", "replaced-by-dup2-with-an-untimed-socket", 1, 1},
	{"copies and close_range that are refused", "refused-over-a-timed-socket", 3, 0},
	{"a copy made by dup3 that closes on exec", "copied-by-dup3-with-cloexec", 4, 0},
	{"a copy made by fcntl", "copied-by-fcntl", 4, 0},
	{"a copy made by fcntl that closes on exec", "copied-by-fcntl-with-cloexec", 4, 0},
	{"the original closed and its copy used", "original-closed-and-copy-used", 4, 1},
	{"the copy closed and the original used", "copy-closed-and-original-used", 3, 0},
	{"the number used again by an untimed socket", "number-used-again-by-an-untimed-socket", 1, 1},
	{"the number used again after fclose", "number-used-again-after-fclose", 1, 1},
	{"a socket passed to the process itself", "passed-to-itself", 4, 0},
	{"standard streams closed at the start", "standard-streams-closed-at-start", 3, 0},
	{"each descriptor closed at the start", "loop-of-close-at-start", 3, 0},
	{"each descriptor closed between messages", "loop-of-close-with-a-timed-socket-open", 4, 0},
	{"close_range at the start", "close_range-at-start", 3, 0},
	{"close_range between messages", "close_range-with-a-timed-socket-open", 4, 0},
	{"close_range that only marks", "close_range-that-only-marks", 4, 0},
	{"close_range below and above the socket", "close_range-around-a-timed-socket", 4, 0},
	{"closefrom at the start", "closefrom-at-start", 3, 0},
	{"closefrom between messages", "closefrom-with-a-timed-socket-open", 4, 0},
	{"close_range as a bare system call", "close_range-by-system-call-with-a-timed-socket-open", 4, 0},

	{"fork, and both send", "forked-and-both-send", 5, 0},
	{"fork, and only the child sends", "forked-and-only-the-child-sends", 3, 0},
	{"fork, and the child has a socket of its own", "forked-and-the-child-makes-its-own", 5, 0},
	{"fork, and the child closes everything", "forked-and-the-child-closes-all", 4, 0},
	{"fork twice", "forked-twice", 3, 0},
	{"a daemon that makes its socket", "daemonised-before-its-socket", 3, 0},
	{"a daemon that had its socket before", "daemonised-with-its-socket", 3, 0},
	{"vfork and exec, and both send", "vforked-and-the-program-sends", 5, 0},
	{"vfork and exec, and only the program sends", "vforked-and-only-the-program-sends", 3, 0},
	{"vfork, close and exit", "vforked-and-the-child-closes-and-exits", 3, 0},
	{"vfork, close and exec", "vforked-and-the-child-closes-and-execs", 3, 0},
	{"vfork, dup2 and exec", "vforked-and-the-child-replaces-it", 3, 0},
	{"exec with the socket", "execs-with-its-socket", 4, 0},
	{"posix_spawn, and both send", "spawned-and-both-send", 5, 0},
	{"a socket passed to another program, and both send", "passed-to-a-program-and-both-send", 5, 0},
	{"a socket passed to another program and closed", "passed-to-a-program-and-closed", 4, 0},

	{"SO_TXTIME after connect", "asks-after-connect", 3, 0},
	{"SO_TXTIME before bind and connect", "asks-before-bind-and-connect", 3, 0},
	{"bound and two addresses", "bound-and-unconnected", 4, 0},
	{"unbound and two addresses", "neither-bound-nor-connected", 4, 0},
	{"connected and another address", "connected-and-another-address-named", 4, 0},
	{"connected anew", "connected-anew", 3, 0},
	{"sendmmsg of timed and untimed", "sendmmsg-of-timed-and-untimed", 2, 2},
	{"timed and untimed in turns", "timed-and-untimed-in-turns", 2, 2},
	{"eight threads on one socket", "threads-on-one-socket", 32, 0},
	{"eight threads on eight sockets", "threads-on-sockets-of-their-own", 32, 0},
	{"fork while eight threads send", "threads-while-others-fork", 36, 0},
}

// shapePrograms returns the same program of both C libraries in a folder for every user.
func shapePrograms(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"glibc": publicCopy(t, "ktsn-test-shapes"),
		"musl":  compileWithMusl(t, "shapes", "shapes/*.c", "-pthread"),
	}
}

// compileWithMusl compiles sources of datapath/tests/programs with musl.
func compileWithMusl(t *testing.T, name, sources string, options ...string) string {
	t.Helper()
	return compile(t, muslCompiler(t), name, sources, options...)
}

// muslCompiler returns musl's compiler.
func muslCompiler(t *testing.T) string {
	t.Helper()
	compiler, err := exec.LookPath("musl-gcc")
	if err != nil {
		testlab.Missing(t, "musl-gcc is missing; install musl-tools")
	}
	return compiler
}

func compile(t *testing.T, compiler, name, sources string, options ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../datapath/tests/programs", sources))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources %s: %v", sources, err)
	}
	built := filepath.Join(publicDir(t), name)
	arguments := append([]string{"-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Werror", "-o", built}, files...)
	if output, err := exec.Command(compiler, append(arguments, options...)...).CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %v\n%s", name, err, output)
	}
	return built
}

// shapeCommand returns a program of one shape, run by root or nobody. environment nil means without libktsn.
func shapeCommand(program string, shape shape, user string, environment []string) *exec.Cmd {
	command := exec.Command(program, shape.name, topology.PodAddressB.String(), strconv.Itoa(listenPort))
	command.Env = environment
	if user == "nobody" {
		asNobody(command)
	}
	return command
}

// users are two users that differ in SO_TXTIME with CLOCK_TAI: the kernel grants it to root only.
var users = []string{"root", "nobody"}

// eachShape runs each shape with each program by one of the users, in turns, or by both (testlab.Long).
func eachShape(t *testing.T, programs map[string]string, test func(t *testing.T, shape shape, program, user string)) {
	for i, libc := range slices.Sorted(maps.Keys(programs)) {
		for j, user := range users {
			for k, shape := range shapes {
				if testlab.Long() || (i+j+k)%2 == 0 {
					t.Run(libc+", "+user+", "+shape.sentence, func(t *testing.T) { test(t, shape, programs[libc], user) })
				}
			}
		}
	}
}

func TestShapeTableMatchesProgram(t *testing.T) {
	timing(t)
	var known []string
	for _, shape := range shapes {
		known = append(known, shape.name)
	}
	checkListed(t, "ktsn-test-shapes", known)
}

// checkListed checks that a program has the cases of the test's table.
func checkListed(t *testing.T, name string, known []string) {
	t.Helper()
	output, err := exec.Command(program(t, name), "--list").Output()
	must(t, err)
	if listed := strings.Fields(string(output)); !slices.Equal(known, listed) {
		t.Errorf("the test has\n%q\nthe program\n%q", known, listed)
	}
}

func TestMuslProgramsAreMuslPrograms(t *testing.T) {
	content(t)
	program(t, "ktsn-test-shapes")
	file, err := elf.Open(shapePrograms(t)["musl"])
	must(t, err)
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(segment.Open())
		if err != nil || !bytes.Contains(loader, []byte("/lib/ld-musl-")) {
			t.Errorf("its loader is %q, %v", loader, err)
		}
		return
	}
	t.Error("it is linked statically")
}

func TestProgramShapesAreServed(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.addAddress(t)
	environment := lab.preloadedForNobody(t)
	daemon, client := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	eachShape(t, shapePrograms(t), func(t *testing.T, shape shape, program, user string) {
		before := awaitSettled(t, client)
		running := start(t, lab.PodA, shape.name, shapeCommand(program, shape, user, environment))
		if err := finish(t, running); err != nil {
			t.Error(err)
		}
		checkServed(t, shape, receiver.take(t, shape.timed+shape.untimed, patience))
		checkCounted(t, shape, before, awaitSettled(t, client))
	})
	checkNobodyIsServed(t, client)
	if log := daemon.Stderr(); strings.Contains(log, "<3>") {
		t.Errorf("ktsnd complained: %s", log)
	}
}

// checkServed checks that each datagram arrived once, those with a time in order and not early, from the port of its
// socket at its destination.
func checkServed(t *testing.T, shape shape, arrived []shapedDatagram) {
	t.Helper()
	var timed, untimed int
	var latest int64
	seen := map[string]bool{}
	for _, datagram := range arrived {
		if seen[datagram.label] {
			t.Errorf("%s arrived twice", datagram.label)
		}
		seen[datagram.label] = true
		checkAddresses(t, datagram)
		if datagram.txtimeTAI == 0 {
			untimed++
			continue
		}
		timed++
		if early := datagram.txtimeTAI - min(datagram.stampTAI, datagram.readTAI); early > 0 {
			t.Errorf("%s arrived %v before its time", datagram.label, time.Duration(early))
		}
		// Messages of several processes that were late when ktsnd took them have no order.
		late := datagram.stampTAI-datagram.txtimeTAI > time.Millisecond.Nanoseconds()
		if datagram.txtimeTAI < latest && !late {
			t.Errorf("%s arrived after a message with a later time", datagram.label)
		}
		latest = max(latest, datagram.txtimeTAI)
	}
	if timed != shape.timed || untimed != shape.untimed {
		t.Errorf("%d with and %d without a time arrived, want %d and %d: %v", timed, untimed, shape.timed, shape.untimed,
			labelsOf(arrived))
	}
}

func checkAddresses(t *testing.T, datagram shapedDatagram) {
	t.Helper()
	if datagram.source.Addr() != topology.PodAddressA || (datagram.port != 0 && datagram.source.Port() != datagram.port) {
		t.Errorf("%s arrived from %s, its socket is on port %d", datagram.label, datagram.source, datagram.port)
	}
	if datagram.destination != datagram.to {
		t.Errorf("%s was for %s and reached %s", datagram.label, datagram.to, datagram.destination)
	}
}

// checkCounted checks that ktsnd sent the messages with a time, and no others.
func checkCounted(t *testing.T, shape shape, before, after control.Counters) {
	t.Helper()
	taken, sent := after.Taken-before.Taken, after.Sent-before.Sent
	if taken != uint64(shape.timed) || sent != taken {
		t.Errorf("ktsnd took %d and sent %d, want %d; before %+v, after %+v", taken, sent, shape.timed, before, after)
	}
	if astray := after.KernelPath - before.KernelPath; astray != 0 {
		t.Errorf("%d went the kernel's way", astray)
	}
}

// checkNobodyIsServed checks that ktsnd has forgotten ended processes.
func checkNobodyIsServed(t *testing.T, client *control.Client) {
	t.Helper()
	awaitStatus(t, client, "nobody is served", func(status *control.Status) bool {
		return status.Processes == 0 && status.Flows == 0
	})
}

func labelsOf(datagrams []shapedDatagram) []string {
	var all []string
	for _, datagram := range datagrams {
		all = append(all, datagram.label)
	}
	slices.Sort(all)
	return all
}

func TestProgramShapesWithoutDaemonBehaveAsWithoutLibrary(t *testing.T) {
	timing(t)
	t.Parallel()
	lab := newLabWithPass(t)
	lab.addAddress(t)
	environment := lab.preloadedForNobody(t)
	receiver := lab.listenShaped(t)
	outcome := func(t *testing.T, command *exec.Cmd, wanted int) string {
		running := start(t, lab.PodA, "ktsn-test-shapes", command)
		_ = finish(t, running)
		arrived := receiver.take(t, wanted, 200*time.Millisecond)
		return fmt.Sprintf("status %d, received %v", command.ProcessState.ExitCode(), labelsOf(arrived))
	}
	eachShape(t, shapePrograms(t), func(t *testing.T, shape shape, program, user string) {
		wanted := shape.timed + shape.untimed
		if user == "nobody" { // the kernel rejects its transmit times
			wanted = shape.untimed
		}
		// The kernel's messages arrive at once.
		for _, complaint := range testlab.Undisturbed(t, testlab.Stopped, func() []string {
			plain := outcome(t, shapeCommand(program, shape, user, os.Environ()), wanted)
			preloaded := outcome(t, shapeCommand(program, shape, user, environment), wanted)
			if plain == preloaded {
				return nil
			}
			return []string{fmt.Sprintf("with libktsn: %s\nwithout:      %s", preloaded, plain)}
		}) {
			t.Error(complaint)
		}
	})
}
