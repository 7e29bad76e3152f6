// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestProgramWithoutUnixSocketsIsCaptured sends with libktsn from a program that may not open unix sockets: the kernel
// serves its socket, and its messages are captured.
func TestProgramWithoutUnixSocketsIsCaptured(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.Timed)
	listener := c.listenForTexts(t)
	var now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_TAI, &now))
	command := exec.Command(program(t, "ktsn-test-sandbox"), append([]string{"no-unix", program(t, "ktsn-test-send"), "--clock", "monotonic"},
		append(connectedTo(atPodB), "200000:first", "250000:second")...)...)
	command.Env = c.preloaded(t)
	c.send(t, command)
	for _, want := range []string{"first", "second"} {
		if text, _ := receive(t, listener); text != want {
			t.Errorf("%q arrived, want %q", text, want)
		}
	}
	var arrived unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_TAI, &arrived))
	if after := time.Duration(arrived.Nano() - now.Nano()); after < 250*time.Millisecond {
		t.Errorf("the second message arrived after %s", after)
	}
	if counted := c.countFrames(t); counted.captured != 2 || counted.refused != 0 {
		t.Errorf("the programs of the kernel counted %+v", counted)
	}
}

// documentedSystemCalls returns the system calls that libktsn(7) names.
func documentedSystemCalls(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/man/libktsn.7")
	must(t, err)
	_, list, _ := strings.Cut(string(page), "\n.Sh SYSTEM CALLS\n")
	list, _, _ = strings.Cut(list, "\n.Sh ")
	var calls []string
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, ".It ") {
			continue
		}
		for _, match := range regexp.MustCompile(`\bFn ([a-z0-9_]+)`).FindAllStringSubmatch(line, -1) {
			calls = append(calls, match[1])
		}
	}
	return strings.Join(calls, ",")
}

// TestDocumentedSystemCallsSuffice sends and receives with libktsn, by programs that are killed for any system call
// besides their own and those that libktsn(7) names.
func TestDocumentedSystemCallsSuffice(t *testing.T) {
	content(t)
	o := newOracle(t)
	calls := documentedSystemCalls(t)
	sandbox := program(t, "ktsn-test-sandbox")
	t.Run("to send", func(t *testing.T) {
		listener := o.listenForTexts(t)
		command := exec.Command(sandbox, append([]string{calls, program(t, "ktsn-test-send")},
			append(connectedTo(atPodB), "5000:timed", "-:untimed")...)...)
		command.Env = o.preloaded(t)
		if got := saidOf(o.outputOf(t, patience, command)); got != "5 0, 7 0" {
			t.Errorf("results are %q", got)
		}
		came := receivedTexts(t, listener)
		if len(came) != 2 {
			t.Errorf("%q arrived", came)
		}
		awaitCounters(t, o.client, "ktsnd has sent the timed one", func(counted control.Counters) bool { return counted.Sent == 1 })
	})
	script := filepath.Join(t.TempDir(), "receive")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nexec "+strconv.Quote(sandbox)+" "+calls+" "+strconv.Quote(program(t, "ktsn-test-receive"))+` "$@"`+"\n"), 0o700)) //nolint:gosec // a program
	for _, test := range []receiveCase{{sentence: "to receive", name: "recv", inRing: 3}, {sentence: "with epoll", name: "epoll", inRing: 4}} {
		t.Run(test.sentence, func(t *testing.T) {
			for _, complaint := range testlab.Undisturbed(t, testlab.Stopped, func() []string { return o.compare(t, script, "ipv4", &test) }) {
				t.Error(complaint)
			}
		})
	}
}
