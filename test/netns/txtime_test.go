// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

// txtimeOptions of ktsnd make it what the cases of a setup go through.
var txtimeOptions = map[txtime.Setup][]string{
	txtime.Any:         nil,
	txtime.ETF:         {"--strategy", "etf"},
	txtime.ETFSlow:     {"--strategy", "etf", "--link-speed", "1Mbit"},
	txtime.ETFDeadline: {"--strategy", "etf-deadline"},
}

// casesOf returns the cases of a setup.
func casesOf(setup txtime.Setup) []txtime.Case {
	var cases []txtime.Case
	for _, test := range txtime.Cases {
		if test.Setup == setup {
			cases = append(cases, test)
		}
	}
	return cases
}

const (
	// textBytes of a message say which it is.
	textBytes = 22
	// afterTheLast nothing more is expected.
	afterTheLast = 100 * time.Millisecond
)

// caseReceiver is the receiver in pod b.
var caseReceiver = txtime.Receiver{IPv4: topology.PodAddressB, IPv6: podAddress6B, Port: listenPort,
	Interface: topology.PodInterface}

// runCase runs a case in pod a and returns its facts.
func (l *lab) runCase(t *testing.T, program string, test txtime.Case, environment []string) txtime.Facts {
	t.Helper()
	arrived := l.listenForCase(t, test)
	command := exec.Command(program, test.Arguments(caseReceiver)...)
	command.Env = environment
	output := l.outputOf(t, patience, command)
	return txtime.FactsOf(test, output, arrived())
}

// listenForCase listens in pod b until the returned function is called, which returns the received texts.
func (l *lab) listenForCase(t *testing.T, test txtime.Case) func() []string {
	t.Helper()
	if test.Family.Packet() {
		fd := listenPacket(t, l.PodB)
		return func() []string { return packetTexts(t, fd) }
	}
	address := topology.PodAddressB
	if test.Family == txtime.IPv6 {
		address = podAddress6B
	}
	listener := listen(t, l.PodB, "udp", netip.AddrPortFrom(address, listenPort))
	return func() []string { return receivedTexts(t, listener) }
}

// packetTexts returns the texts of received frames, as receivedTexts does for datagrams.
func packetTexts(t *testing.T, fd int) []string {
	t.Helper()
	const headerBytes = 14
	var all []string
	for {
		frame := receiveFrame(t, fd, afterTheLast)
		if frame == nil {
			return all
		}
		text := frame[headerBytes:]
		all = append(all, strings.TrimRight(string(text[:min(len(text), textBytes)]), "\x00"))
	}
}

// outputOf runs a command in pod a with a timeout and returns its output.
func (l *lab) outputOf(t *testing.T, limit time.Duration, command *exec.Cmd) string {
	t.Helper()
	timer := time.AfterFunc(limit, func() {
		if command.Process != nil {
			_ = command.Process.Kill()
		}
	})
	defer timer.Stop()
	var output []byte
	if err := l.PodA.Do(func() (err error) { output, err = command.CombinedOutput(); return err }); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

func (l *lab) listenForTexts(t *testing.T) *net.UDPConn {
	t.Helper()
	return listen(t, l.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, listenPort))
}

// receivedTexts returns the received texts, some time after the last was sent, and closes the listener.
func receivedTexts(t *testing.T, listener *net.UDPConn) []string {
	t.Helper()
	defer listener.Close()
	var all []string
	buffer := make([]byte, 2000)
	for {
		_ = listener.SetReadDeadline(time.Now().Add(afterTheLast))
		n, _, err := listener.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if waiting(t, listener) {
				continue
			}
			return all
		}
		must(t, err)
		all = append(all, string(buffer[:min(n, textBytes)]))
	}
}

// waiting reports whether a datagram is available. It uses no deadline, since a passed one prevents reading.
func waiting(t *testing.T, listener *net.UDPConn) bool {
	t.Helper()
	raw, err := listener.SyscallConn()
	must(t, err)
	there := false
	must(t, raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		there = err == nil
	}))
	return there
}

func TestTxtimeMatchesKernel(t *testing.T) {
	timing(t)
	t.Parallel()
	for _, setup := range txtime.Setups {
		t.Run(string(setup), func(t *testing.T) { compareCases(t, program(t, "ktsn-test-txtime"), setup) })
	}
}

func TestTxtimeMatchesKernelWithMusl(t *testing.T) {
	timing(t)
	t.Parallel()
	compareCases(t, compileWithMusl(t, "txtime", "txtime/*.c", "-pthread"), txtime.ETF)
}

// compareCases runs the cases of a setup through libktsn and compares with the recorded results of the kernel.
func compareCases(t *testing.T, application string, setup txtime.Setup) {
	t.Helper()
	lab, client := newLab6(t, txtimeOptions[setup]...)
	recorded := txtime.Kernel()
	for _, test := range casesOf(setup) {
		t.Run(test.ID(), func(t *testing.T) {
			for _, complaint := range lab.compareCase(t, application, test, recorded[test.ID()]) {
				t.Error(complaint)
			}
		})
	}
	if now := awaitSettled(t, client); now.ReportsLost > 0 {
		t.Errorf("%d reports were lost", now.ReportsLost)
	}
}

// compareCase returns the differences between libktsn and the kernel.
func (l *lab) compareCase(t *testing.T, application string, test txtime.Case, recorded txtime.Facts) []string {
	t.Helper()
	return testlab.Undisturbed(t, testlab.Stopped, func() []string {
		return txtime.Compare(l.runCase(t, application, test, l.preloaded(t)), recorded, txtime.Differences[test.ID()])
	})
}

// TestSocketOptionsMatchKernel compares results with and without libktsn on this machine's kernel. Without etf only the
// cases that need none run.
func TestSocketOptionsMatchKernel(t *testing.T) {
	content(t)
	lab := newLabWithPass(t)
	lab.startDaemon6(t)
	sender := program(t, "ktsn-test-txtime")
	for _, test := range casesOf(txtime.Any) {
		t.Run(test.ID(), func(t *testing.T) {
			facts := lab.runCase(t, sender, test, lab.preloaded(t))
			for _, complaint := range txtime.Compare(facts, lab.runCase(t, sender, test, nil), nil) {
				t.Error(complaint)
			}
		})
	}
}

// TestRejectedSocketsGetError checks that without a listener the second message after the first reply fails, as with
// this machine's kernel.
func TestRejectedSocketsGetError(t *testing.T) {
	timing(t)
	lab := newLabWithPass(t)
	lab.startDaemon6(t)
	sender := program(t, "ktsn-test-txtime")
	for _, family := range []txtime.Family{txtime.IPv4, txtime.IPv6, txtime.Mapped} {
		test := txtime.Case{Name: "refused", Setup: txtime.Any, Family: family}
		t.Run(test.ID(), func(t *testing.T) {
			run := func(environment []string) txtime.Facts {
				command := exec.Command(sender, test.Arguments(caseReceiver)...)
				command.Env = environment
				return txtime.FactsOf(test, lab.outputOf(t, patience, command), nil)
			}
			// The answer must arrive before the program reads it.
			complaints := testlab.Undisturbed(t, testlab.Stopped, func() []string {
				got, want := run(lab.preloaded(t)), run(nil)
				if !slices.Contains(want, "second = ECONNREFUSED") {
					return []string{fmt.Sprintf("the kernel itself reports %q", want)}
				}
				return txtime.Compare(got, want, nil)
			})
			for _, complaint := range complaints {
				t.Error(complaint)
			}
		})
	}
}
