// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Between a link's MTU and the payload of its datagrams: IPv4 and UDP headers, and around them the tunnel's.
const (
	headerBytes       = 28
	tunnelHeaderBytes = 50
)

// sizer is a run of testdata/mtu.py in pod a.
type sizer struct{ dialogue }

func (l *lab) startSizer(t *testing.T) *sizer {
	t.Helper()
	listener := l.listenStamped(t, topology.PodAddressB) // without one, the next call returns ECONNREFUSED
	t.Cleanup(func() { listener.Close() })
	command := exec.Command(python(t), "testdata/mtu.py", topology.PodAddressB.String(), strconv.Itoa(listenPort))
	command.Env = l.preloaded(t)
	return &sizer{startDialogue(t, l.PodA, "mtu.py", command)}
}

// send says how it went with a message on the program's first socket, or on another.
func (s *sizer) send(t *testing.T, which string, size int) string {
	t.Helper()
	if _, err := fmt.Fprintln(s.stdin, which, size); err != nil {
		t.Fatalf("%v; it says %s", err, s.Stderr())
	}
	if !s.stdout.Scan() {
		t.Fatalf("it says nothing more; %s", s.Stderr())
	}
	return s.stdout.Text()
}

// checkLargest sends a message of the largest size, and one that is longer by a byte.
func (s *sizer) checkLargest(t *testing.T, which string, size int) {
	t.Helper()
	if fits, exceeds := s.send(t, which, size), s.send(t, which, size+1); fits != "ok" || exceeds != "EMSGSIZE" {
		t.Errorf("a message of %d bytes on the %s socket: %s, of one more: %s; want ok and EMSGSIZE", size, which, fits, exceeds)
	}
}

// awaitSize repeats a message until it is answered so: ktsnd hears of MTUs from the kernel.
func (s *sizer) awaitSize(t *testing.T, which string, size int, want string) {
	t.Helper()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		answer := s.send(t, which, size)
		if answer == want {
			return nil
		}
		return fmt.Errorf("a message of %d bytes on the %s socket: %s, want %s", size, which, answer, want)
	})
}

func TestInterfaceMTUIsFollowed(t *testing.T) {
	content(t)
	lab := newLab(t)
	setMTU := func(bytes int) { ip(t, lab.PodA, "link", "set", topology.PodInterface, "mtu", strconv.Itoa(bytes)) }
	const low, high = 1300, 1450
	setMTU(low)
	lab.startDaemon(t)
	sizer := lab.startSizer(t)
	sizer.checkLargest(t, "first", low-headerBytes)

	setMTU(high)
	sizer.awaitSize(t, "first", high-headerBytes, "ok")
	sizer.checkLargest(t, "first", high-headerBytes)

	setMTU(low)
	sizer.awaitSize(t, "first", low-headerBytes+1, "EMSGSIZE")
	sizer.checkLargest(t, "first", low-headerBytes)
	sizer.checkLargest(t, "another", low-headerBytes)
	if mtu := sizer.send(t, "option", 0); mtu != strconv.Itoa(low) {
		t.Errorf("IP_MTU is %s, want %d", mtu, low)
	}
}

func TestUplinkMTUIsFollowedUpToStartValue(t *testing.T) {
	content(t)
	lab := newLab(t)
	setMTU := func(bytes int) {
		ip(t, lab.NodeA, "link", "set", topology.PhysicalInterface, "mtu", strconv.Itoa(bytes))
	}
	ip(t, lab.PodA, "link", "set", topology.PodInterface, "mtu", "1600")
	const low, high, higher = 1400, 1500, 1600
	lab.startDaemon(t)
	sizer := lab.startSizer(t)
	sizer.checkLargest(t, "first", high-tunnelHeaderBytes-headerBytes)

	setMTU(low)
	sizer.awaitSize(t, "first", low-tunnelHeaderBytes-headerBytes+1, "EMSGSIZE")
	sizer.checkLargest(t, "first", low-tunnelHeaderBytes-headerBytes)
	sizer.checkLargest(t, "another", low-tunnelHeaderBytes-headerBytes)

	setMTU(higher)
	sizer.awaitSize(t, "another", high-tunnelHeaderBytes-headerBytes, "ok")
	sizer.checkLargest(t, "another", high-tunnelHeaderBytes-headerBytes)
	sizer.awaitSize(t, "first", high-tunnelHeaderBytes-headerBytes, "ok") // it asks again after 100 ms
	sizer.checkLargest(t, "first", high-tunnelHeaderBytes-headerBytes)
}
