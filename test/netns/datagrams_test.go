// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

// datagramCases are prefixes of the cases of ktsn-test-txtime about the datagrams that calls send. This machine's
// kernel is the reference.
func datagramCases(t *testing.T, kinds ...string) []string {
	t.Helper()
	output, err := exec.Command(program(t, "ktsn-test-txtime"), "--list").Output()
	must(t, err)
	return slices.DeleteFunc(strings.Fields(string(output)), func(name string) bool {
		return !slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(name, kind) })
	})
}

// datagrams receives until the returned function is called, which returns the length and content of each datagram.
func datagrams(conn *net.UDPConn) (arrived func() []string) {
	var all []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1<<16)
		for {
			n, _, err := conn.ReadFromUDPAddrPort(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				all = append(all, fmt.Sprintf("%d bytes, %08x", n, crc32.ChecksumIEEE(buffer[:n])))
			}
		}
	}()
	return func() []string {
		_ = conn.SetReadDeadline(time.Now().Add(afterTheLast))
		<-done
		return all
	}
}

// sendDatagrams runs the cases and returns their output and the datagrams that arrived in pod b.
func (l *lab) sendDatagrams(t *testing.T, family txtime.Family, cases, environment []string) (answers, came []string) {
	t.Helper()
	address := topology.PodAddressB
	if family == txtime.IPv6 {
		address = podAddress6B
	}
	conn := listen(t, l.PodB, "udp", netip.AddrPortFrom(address, listenPort))
	defer conn.Close()
	arrived := datagrams(conn)
	arguments := txtime.Case{Name: cases[0], Family: family}.Arguments(caseReceiver)
	command := exec.Command(program(t, "ktsn-test-txtime"), append(arguments, cases[1:]...)...)
	command.Env = environment
	output := l.outputOf(t, 2*patience, command) // all cases in one run
	return strings.Split(strings.TrimSpace(output), "\n"), arrived()
}

// differences compares two lists line by line and returns the first few differences: a missing line shifts all others.
func differences(what string, got, want []string) []string {
	const enough = 5
	var complaints []string
	for i := range max(len(got), len(want)) {
		if len(complaints) == enough {
			break
		}
		ours, theirs := txtime.Nothing, txtime.Nothing
		if i < len(got) {
			ours = got[i]
		}
		if i < len(want) {
			theirs = want[i]
		}
		if ours != theirs {
			complaints = append(complaints, fmt.Sprintf("%s %d: %q, the kernel's: %q", what, i, ours, theirs))
		}
	}
	return complaints
}

// TestSegmentationOffloadMatchesKernel checks that UDP_SEGMENT, UDP_CORK and MSG_MORE produce the kernel's datagrams
// and results.
func TestSegmentationOffloadMatchesKernel(t *testing.T) {
	timing(t)
	t.Parallel()
	// The kernel's datagrams are received too.
	lab := newLabWithPass(t)
	client := lab.startDaemon6(t)
	cases := datagramCases(t, "segment-", "cork-")
	for _, family := range []txtime.Family{txtime.IPv4, txtime.IPv6, txtime.Mapped} {
		t.Run(txtime.Case{Name: "datagrams", Family: family}.ID(), func(t *testing.T) {
			for _, complaint := range testlab.Undisturbed(t, testlab.Stopped, func() []string {
				wantSaid, want := lab.sendDatagrams(t, family, cases, nil)
				gotSaid, got := lab.sendDatagrams(t, family, cases, lab.preloaded(t))
				return append(differences("said", gotSaid, wantSaid), differences("datagram", got, want)...)
			}) {
				t.Error(complaint)
			}
		})
	}
	if now := awaitSettled(t, client); now.Sent < 100 {
		t.Errorf("ktsnd has sent %d messages", now.Sent)
	}
}
