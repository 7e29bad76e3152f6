// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// nobodysTalker is an application without privileges; the kernel refuses it SO_TXTIME with CLOCK_TAI.
// environment nil is one without libktsn.
func nobodysTalker(t *testing.T, environment []string) *exec.Cmd {
	t.Helper()
	command := asNobody(exec.Command(publicCopy(t, "tsnperf"), "talker", "--quiet", "--clock", "tai",
		"--to", netip.AddrPortFrom(topology.PodAddressB, listenPort).String(), "--count", "20"))
	command.Env = environment
	return command
}

// preloadedForNobody is preloaded with a library that every user can read.
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
		t.Fatal("the kernel granted SO_TXTIME with CLOCK_TAI to nobody; this test has no meaning here")
	}
	begin := time.Now()
	preloaded := start(t, lab.PodA, "talker", nobodysTalker(t, lab.preloadedForNobody(t)))
	if err := finish(t, preloaded); err == nil || preloaded.Stderr() != plain.Stderr() {
		t.Errorf("with libktsn it says %q (%v), without %q", preloaded.Stderr(), err, plain.Stderr())
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v to find that nobody is there", took)
	}
}

func TestWithoutDaemonDatagramsUseKernel(t *testing.T) {
	content(t)
	lab := newLabWithPass(t)
	for name, options := range map[string][]string{
		"with a time, which the kernel's veth ignores": nil,
		"without a time": {"--no-txtime"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := lab.run(t, traffic{count: 20, payloadBytes: 64, talkerOptions: options, environment: lab.preloaded(t)})
			checkAllArrived(t, seen, 20)
		})
	}
}

func TestUnprivilegedApplicationSendsOnTime(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	arrivals := lab.receive(t, 20, func() {
		if err := finish(t, start(t, lab.PodA, "talker", nobodysTalker(t, lab.preloadedForNobody(t)))); err != nil {
			t.Fatal(err)
		}
	})
	if len(arrivals) != 20 {
		t.Errorf("%d messages arrived, want 20", len(arrivals))
	}
	if taken := awaitSettled(t, client).Taken; taken != 20 {
		t.Errorf("ktsnd took %d messages, want 20", taken)
	}
}

func TestDaemonStartedLaterIsFound(t *testing.T) {
	content(t)
	lab := newLabWithPass(t)
	checkAllArrived(t, lab.run(t, traffic{count: 20, payloadBytes: 64, environment: lab.preloaded(t)}), 20)
	_, client := lab.startDaemon(t)
	checkAllArrived(t, lab.run(t, traffic{count: 20, payloadBytes: 64, environment: lab.preloaded(t)}), 20)
	if taken := awaitSettled(t, client).Taken; taken != 20 {
		t.Errorf("ktsnd took %d messages of the second application, want 20", taken)
	}
}

func TestKtsnRunFindsTheDaemon(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	command := exec.Command(program(t, "ktsn"), "run", "--socket", lab.socket, "--lib", program(t, "libktsn.so"), "--",
		program(t, "tsnperf"), "talker", "--quiet", "--to", "10.42.2.2:7788", "--count", "10")
	lab.receive(t, 10, func() {
		if err := finish(t, start(t, lab.PodA, "ktsn run", command)); err != nil {
			t.Fatal(err)
		}
	})
	if taken := awaitSettled(t, client).Taken; taken != 10 {
		t.Errorf("ktsnd took %d messages, want 10", taken)
	}
}

func TestKtsnStatusShowsTheDaemon(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	output, err := exec.Command(program(t, "ktsn"), "status", "--control", lab.control).CombinedOutput()
	for _, want := range []string{"direct on phys0", "local address 192.0.2.1", identity + " tsn0, VNI 42",
		"192.0.2.2, VNI 42, [10.42.2.0/24]"} {
		if err != nil || !strings.Contains(string(output), want) {
			t.Errorf("no %q in (%v)\n%s", want, err, output)
		}
	}
}

// listenApp listens like a ktsnd that never answers.
func listenApp(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return listener
}
