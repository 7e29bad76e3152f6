// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/topology"
	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

// txtimeOptions of ktsnd make it what the cases of a setup go through.
var txtimeOptions = map[txtime.Setup][]string{
	txtime.Any:         nil,
	txtime.ETF:         {"--strategy", "etf", "--late-after", "50ms"},
	txtime.ETFSlow:     {"--strategy", "etf", "--link-speed", "1Mbit"},
	txtime.ETFDeadline: {"--strategy", "etf-deadline", "--late-after", "50ms"},
}

// casesOf are the cases of a setup.
func casesOf(setup txtime.Setup) []txtime.Case {
	var cases []txtime.Case
	for _, one := range txtime.Cases {
		if one.Setup == setup {
			cases = append(cases, one)
		}
	}
	return cases
}

// runCase runs one in pod a and returns its facts.
func (l *lab) runCase(t *testing.T, program string, one txtime.Case, environment []string) txtime.Facts {
	t.Helper()
	listener := l.listenForTexts(t)
	arguments := []string{topology.PodAddressB.String(), strconv.Itoa(listenPort), one.Name}
	if one.Setup == txtime.ETFDeadline {
		arguments = append([]string{"--deadline"}, arguments...)
	}
	command := exec.Command(program, arguments...)
	command.Env = environment
	var output []byte
	err := l.PodA.Do(func() (err error) {
		output, err = runFor(patience, command)
		return err
	})
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return txtime.FactsOf(one, string(output), texts(t, listener))
}

// runFor runs a command for so long at most, and returns all that it says.
func runFor(limit time.Duration, command *exec.Cmd) ([]byte, error) {
	timer := time.AfterFunc(limit, func() {
		if command.Process != nil {
			_ = command.Process.Kill()
		}
	})
	defer timer.Stop()
	return command.CombinedOutput()
}

func (l *lab) listenForTexts(t *testing.T) *net.UDPConn {
	t.Helper()
	var listener *net.UDPConn
	err := l.PodB.Do(func() (err error) {
		address := netip.AddrPortFrom(topology.PodAddressB, listenPort)
		listener, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(address))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// texts are what has arrived, a little later than the last was sent, and ends the listener.
func texts(t *testing.T, listener *net.UDPConn) []string {
	t.Helper()
	defer listener.Close()
	const textBytes, after = 22, 100 * time.Millisecond
	var all []string
	buffer := make([]byte, 2000)
	_ = listener.SetReadDeadline(time.Now().Add(after))
	for {
		n, _, err := listener.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(buffer[:min(n, textBytes)]))
	}
}

func TestApplicationsCannotTellFromTheKernel(t *testing.T) {
	for _, setup := range txtime.Setups {
		t.Run(string(setup), func(t *testing.T) { compareCases(t, program(t, "ktsn-test-txtime"), setup) })
	}
}

func TestApplicationsOfMuslCannotTellEither(t *testing.T) {
	compareCases(t, compileWithMusl(t, "txtime", "txtime/*.c", "-pthread"), txtime.ETF)
}

// compareCases runs the cases of a setup through libktsn and compares with what the kernel answered.
func compareCases(t *testing.T, application string, setup txtime.Setup) {
	t.Helper()
	lab := newLab(t)
	_, client := lab.startDaemon(t, txtimeOptions[setup]...)
	recorded := txtime.Kernel()
	for _, one := range casesOf(setup) {
		t.Run(one.Name, func(t *testing.T) {
			for _, complaint := range lab.compareCase(t, application, one, recorded[one.ID()]) {
				t.Error(complaint)
			}
		})
	}
	if now := settled(t, client); now.ReportsLost > 0 {
		t.Errorf("%d reports were lost", now.ReportsLost)
	}
}

// compareCase returns what libktsn answers otherwise than the kernel did. The cases are about milliseconds: one during which
// the machine was stopped is run again.
func (l *lab) compareCase(t *testing.T, application string, one txtime.Case, recorded txtime.Facts) []string {
	t.Helper()
	const attempts = 10
	for attempt := 1; ; attempt++ {
		var facts txtime.Facts
		lost := stops(t, func() { facts = l.runCase(t, application, one, l.preloaded(t)) })
		complaints := txtime.Compare(facts, recorded, txtime.Differences[one.ID()])
		if len(complaints) == 0 || lost < stopped || attempt == attempts {
			return complaints
		}
		t.Logf("the machine was stopped for %v; again: %q", lost, complaints)
	}
}

// The kernel of this machine says what it says, with libktsn or without: where it has no etf, in the cases that need
// none.
func TestOptionsAreThoseOfThisKernel(t *testing.T) {
	lab := newLab(t)
	sender := program(t, "ktsn-test-txtime")
	lab.startDaemon(t)
	for _, one := range casesOf(txtime.Any) {
		t.Run(one.Name, func(t *testing.T) {
			facts := lab.runCase(t, sender, one, lab.preloaded(t))
			for _, complaint := range txtime.Compare(facts, lab.runCase(t, sender, one, nil), nil) {
				t.Error(complaint)
			}
		})
	}
}
