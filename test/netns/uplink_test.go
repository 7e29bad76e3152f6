// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// setUplink brings the link between the nodes up or down on node a.
func (l *lab) setUplink(t *testing.T, set func(netlink.Link) error) {
	t.Helper()
	must(t, l.NodeA.Do(func() error {
		link, err := netlink.LinkByName(topology.PhysicalInterface)
		if err != nil {
			return err
		}
		return set(link)
	}))
}

func TestMessagesDueWhileUplinkIsDownAreDropped(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	command := exec.Command(program(t, "ktsn-test-send"), append(connectedTo(atPodB),
		"200000:first", "2000000:while it is down", "4500000:after")...)
	command.Env = lab.preloaded(t)
	arrivals := lab.receive(t, 2, func() {
		must(t, finish(t, start(t, lab.PodA, "ktsn-test-send", command)))
		awaitCounters(t, client, "the first has left", func(counted control.Counters) bool { return counted.Sent == 1 })
		lab.setUplink(t, netlink.LinkSetDown)
		awaitCounters(t, client, "the second was due", func(counted control.Counters) bool { return counted.DropPort > 0 || counted.Sent > 1 })
		lab.setUplink(t, netlink.LinkSetUp)
	})
	if arrivals[0].text != "first" || arrivals[1].text != "after" {
		t.Errorf("arrived: %q and %q, want first and after", arrivals[0].text, arrivals[1].text)
	}
	if count := awaitSettled(t, client); count.DropPort != 1 || count.Sent != 2 {
		t.Errorf("ktsnd sent %d and dropped %d for its port, want 2 and 1", count.Sent, count.DropPort)
	}
}

// flapUplink takes the link between the nodes down and up, on each end in turn.
func (l *lab) flapUplink(t *testing.T, flaps int, down, up time.Duration) {
	t.Helper()
	for i := range flaps {
		node := []*topology.Namespace{l.NodeB, l.NodeA}[i%2]
		ip(t, node, "link", "set", topology.PhysicalInterface, "down")
		time.Sleep(down)
		ip(t, node, "link", "set", topology.PhysicalInterface, "up")
		time.Sleep(up)
	}
}

// TestUplinkFlapSendsNoStaleMessages checks frames in the packet socket's ring between the loss of the carrier and
// ktsnd's notification: the kernel would keep them.
func TestUplinkFlapSendsNoStaleMessages(t *testing.T) {
	timing(t)
	// A kept frame would leave when the carrier is back. A busy kernel may take 100 ms to receive one.
	const down, kept = 400 * time.Millisecond, 300 * time.Millisecond
	lab := newLab(t)
	_, client := lab.startDaemon(t, "--departures", "65536")
	f := lab.startFlow(t, "--cycle", "250us", "--lead", "3ms", "--count", "1000000")
	awaitCounters(t, client, "messages leave", func(counted control.Counters) bool { return counted.Sent > 100 })
	lab.flapUplink(t, 8, down, 100*time.Millisecond)
	counted := f.end(t, client)
	departed := departedAt(t, client)
	seen := map[uint32]bool{}
	for _, message := range f.received {
		at, known := departed[message.Txtime]
		switch age := time.Duration(message.Arrival - at); {
		case !known:
			t.Errorf("message %d arrived and is not among the departures", message.Sequence)
		case age > kept:
			t.Errorf("message %d arrived %v after ktsnd counted it as sent", message.Sequence, age)
		case message.Arrival < message.Txtime:
			t.Errorf("message %d arrived %d ns before its transmit time", message.Sequence, message.Txtime-message.Arrival)
		}
		if seen[message.Sequence] {
			t.Errorf("message %d arrived twice", message.Sequence)
		}
		seen[message.Sequence] = true
	}
	if counted.DropPort+counted.DropStale == 0 || counted.Sent != counted.OnTime+counted.Late() {
		t.Errorf("sent %d, on time %d, late %d, drop-port %d, drop-stale %d: nothing was due without a carrier, or the sum is wrong",
			counted.Sent, counted.OnTime, counted.Late(), counted.DropPort, counted.DropStale)
	}
	accepted := uint64(0)
	for _, message := range f.sent {
		if message.Errno == 0 {
			accepted++
		}
	}
	if counted.Sent+counted.Dropped() != accepted {
		t.Errorf("%d messages were sent and %d dropped, of %d", counted.Sent, counted.Dropped(), accepted)
	}
}

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
	return &sizer{startDialogue(t, l.PodA, "mtu.py", l.script(t, "mtu.py"))}
}

// send sends a message on the program's first socket or another one, and returns the result.
func (s *sizer) send(t *testing.T, which string, size int) string {
	t.Helper()
	return s.ask(t, which, size)
}

// checkLargest sends a message of the largest size and one that is a byte longer.
func (s *sizer) checkLargest(t *testing.T, which string, size int) {
	t.Helper()
	if fits, exceeds := s.send(t, which, size), s.send(t, which, size+1); fits != "ok" || exceeds != "EMSGSIZE" {
		t.Errorf("a message of %d bytes on the %s socket: %s, of one more: %s; want ok and EMSGSIZE", size, which, fits, exceeds)
	}
}

// awaitSize repeats a message until it has the wanted result: ktsnd learns MTUs from the kernel.
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
	sizer.awaitSize(t, "first", high-tunnelHeaderBytes-headerBytes, "ok") // it retries after 100 ms
	sizer.checkLargest(t, "first", high-tunnelHeaderBytes-headerBytes)
}
