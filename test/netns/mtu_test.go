// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
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
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		said := s.send(t, which, size)
		if said == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a message of %d bytes on the %s socket: %s, want %s", size, which, said, want)
		}
	}
}

// sizes are those of the messages that arrive in pod b.
func (l *lab) sizes(t *testing.T) <-chan int {
	t.Helper()
	listener := l.listenStamped(t, topology.PodAddressB)
	arrived := make(chan int, 10000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buffer := make([]byte, 65536); ; {
			count, err := listener.Read(buffer)
			if err != nil {
				return
			}
			arrived <- count
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return arrived
}

// checkArrive sends messages of two sizes on the first socket, of which the longer is accepted and must not arrive, but be
// counted.
func (s *sizer) checkArrive(t *testing.T, client *control.Client, arrived <-chan int, fits, exceeds int) {
	t.Helper()
	for len(arrived) > 0 {
		<-arrived
	}
	before := counters(t, client).DropInvalid
	for _, size := range []int{exceeds, fits} {
		if said := s.send(t, "first", size); said != "ok" {
			t.Errorf("a message of %d bytes: %s", size, said)
		}
	}
	await(t, client, "one was dropped", func(counted control.Counters) bool { return counted.DropInvalid == before+1 })
	select {
	case size := <-arrived:
		if size != fits {
			t.Errorf("a message of %d bytes arrived, want the one of %d", size, fits)
		}
	case <-time.After(patience):
		t.Error("nothing arrived")
	}
}

func TestAPodsInterfaceIsFollowedWhileAProgramRuns(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	setMTU := func(bytes int) { ip(t, lab.PodA, "link", "set", topology.PodInterface, "mtu", strconv.Itoa(bytes)) }
	const low, high = 1300, 1450
	setMTU(low)
	_, client := lab.startDaemon(t)
	arrived := lab.sizes(t)
	sizer := lab.startSizer(t)
	sizer.checkLargest(t, "first", low-headerBytes)

	setMTU(high)
	sizer.awaitSize(t, "first", high-headerBytes, "ok")
	sizer.checkLargest(t, "first", high-headerBytes)

	setMTU(low)
	sizer.awaitSize(t, "another", low-headerBytes+1, "EMSGSIZE")
	sizer.checkLargest(t, "another", low-headerBytes)
	sizer.awaitDropped(t, client, high-headerBytes)
	sizer.checkArrive(t, client, arrived, low-headerBytes, high-headerBytes)
}

// awaitDropped waits until ktsnd drops messages of that size on the first socket.
func (s *sizer) awaitDropped(t *testing.T, client *control.Client, size int) {
	t.Helper()
	before := counters(t, client).DropInvalid
	await(t, client, "a message was dropped", func(counted control.Counters) bool {
		if counted.DropInvalid > before {
			return true
		}
		s.send(t, "first", size)
		time.Sleep(20 * time.Millisecond)
		return false
	})
	awaitStatus(t, client, "what was sent before has left", func(status *control.Status) bool { return status.Pending == 0 })
	time.Sleep(50 * time.Millisecond) // what has left arrives
}

func TestTheUplinksMTUIsFollowedUpToWhatItWasWhileAProgramRuns(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	setMTU := func(bytes int) {
		ip(t, lab.NodeA, "link", "set", topology.PhysicalInterface, "mtu", strconv.Itoa(bytes))
	}
	ip(t, lab.PodA, "link", "set", topology.PodInterface, "mtu", "1600")
	const low, high, higher = 1400, 1500, 1600
	_, client := lab.startDaemon(t)
	arrived := lab.sizes(t)
	sizer := lab.startSizer(t)
	sizer.checkLargest(t, "first", high-tunnelHeaderBytes-headerBytes)

	setMTU(low)
	sizer.awaitSize(t, "another", low-tunnelHeaderBytes-headerBytes+1, "EMSGSIZE")
	sizer.checkLargest(t, "another", low-tunnelHeaderBytes-headerBytes)
	sizer.awaitDropped(t, client, high-tunnelHeaderBytes-headerBytes)
	sizer.checkArrive(t, client, arrived, low-tunnelHeaderBytes-headerBytes, high-tunnelHeaderBytes-headerBytes)

	setMTU(higher)
	sizer.awaitSize(t, "another", high-tunnelHeaderBytes-headerBytes, "ok")
	sizer.checkLargest(t, "another", high-tunnelHeaderBytes-headerBytes)
	sizer.checkLargest(t, "first", high-tunnelHeaderBytes-headerBytes)
}
