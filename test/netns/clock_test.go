// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// goodClock is reported to ktsnd by the test; the machine's clock is not changed.
var goodClock = control.ClockQuality{State: control.ClockSynchronized, ErrorBoundNs: 1000}

// clockFor returns a network's clock requirement and whether the agent considers it met.
func clockFor(t *testing.T, client *control.Client, vni uint32, onLoss control.OnClockLoss, good bool) {
	t.Helper()
	need := &control.ClockNeed{MaxErrorNs: 10_000, OnLoss: onLoss, Good: good}
	if !good {
		need.Reason = "the test says so"
	}
	must(t, client.NetworkClockSet(t.Context(), vni, need))
}

// newClockLab returns a lab whose ktsnd knows that the node's clock is synchronised.
func newClockLab(t *testing.T, options ...string) (*lab, *process.Process, *control.Client) {
	t.Helper()
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, options...)
	must(t, client.ClockSet(t.Context(), goodClock))
	return lab, daemon, client
}

// sender is a program that sends on command.
type sender struct {
	dialogue
	t *testing.T
}

func (l *lab) startSender(t *testing.T) *sender {
	t.Helper()
	return &sender{startDialogue(t, l.PodA, "python3", l.script(t, "clock.py")), t}
}

// command executes a command and returns its reply.
func (s *sender) command(command string, arguments ...any) string {
	s.t.Helper()
	return s.ask(s.t, append([]any{command}, arguments...)...)
}

func (s *sender) expect(want, command string, arguments ...any) {
	s.t.Helper()
	if got := s.command(command, arguments...); got != want {
		s.t.Errorf("%s %v: %s, want %s", command, arguments, got, want)
	}
}

// checkNothingLeaves checks that no message leaves for a while.
func checkNothingLeaves(t *testing.T, client *control.Client) {
	t.Helper()
	const (
		underWay = 20 * time.Millisecond
		still    = 100 * time.Millisecond
	)
	time.Sleep(underWay)
	before := counters(t, client).Sent
	time.Sleep(still)
	if after := counters(t, client).Sent; after != before {
		t.Errorf("%d messages left while their network's clock was lost", after-before)
	}
}

func TestMessagesWaitForClockAndLeaveInOrder(t *testing.T) {
	timing(t)
	for _, strategy := range []string{"tas", "strict-priority"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			lab, daemon, client := newClockLab(t, "--strategy", strategy)
			clockFor(t, client, topology.VNI, control.OnLossHold, true)
			running := lab.startFlow(t, "--lead", "5ms", "--cycle", "1ms")
			var total sum
			awaitTaken(t, client, 100)
			clockFor(t, client, topology.VNI, control.OnLossHold, false)
			checkNothingLeaves(t, client)
			// The successor finds them in the ring and holds them.
			total.add(counters(t, client))
			held := statusOf(t, client).Pending
			_, client = lab.takeOver(t, daemon, "--strategy", strategy)
			checkNothingLeaves(t, client)
			if pending := statusOf(t, client).Pending; pending < held {
				t.Errorf("the successor holds %d messages, its predecessor held %d", pending, held)
			}
			clockFor(t, client, topology.VNI, control.OnLossHold, true)
			awaitTaken(t, client, uint64(held)+200)
			counted := running.end(t, client)
			total.add(counted)
			running.checkNoneLost(t, total)
			inOrder := slices.IsSortedFunc(running.received, func(a, b tsnperf.Received) int { return cmp.Compare(a.Sequence, b.Sequence) })
			if !inOrder {
				t.Error("messages arrived out of the order of their times")
			}
			if counted.LateClock < uint64(held)/2 || counted.ClockLost != 0 {
				t.Errorf("%d messages were held, %d count as late for it, and %d as sent by a clock that was lost", held,
					counted.LateClock, counted.ClockLost)
			}
		})
	}
}

func TestMessageHeldBeyondHorizonIsReported(t *testing.T) {
	content(t)
	lab, _, client := newClockLab(t)
	horizon := int64(200 * time.Millisecond)
	must(t, client.NetworkLimitsSet(t.Context(), control.NetworkLimits{VNI: topology.VNI, Limits: control.GivenLimits{HorizonNs: &horizon}}))
	listener := lab.listenForTexts(t)
	sender := lab.startSender(t)
	sender.expect("ok", "send", 0, "first")
	awaitCounters(t, client, "the first has left", func(c control.Counters) bool { return c.Sent == 1 })
	clockFor(t, client, topology.VNI, control.OnLossHold, false)
	sender.expect("ok", "send", 10, "never")
	began := time.Now()
	sender.expect("missed never", "error")
	if waited := time.Since(began); waited < 150*time.Millisecond {
		t.Errorf("it was dropped after %v", waited)
	}
	sender.expect("ok", "send", 10, "later")
	clockFor(t, client, topology.VNI, control.OnLossHold, true)
	awaitCounters(t, client, "the last has left", func(c control.Counters) bool { return c.Sent == 2 })
	if got := receivedTexts(t, listener); !slices.Equal(got, []string{"first", "later"}) {
		t.Errorf("arrived: %q", got)
	}
	if counted := counters(t, client); counted.DropClock != 1 || counted.Reports != 1 {
		t.Errorf("dropped for the clock: %d, reports: %d", counted.DropClock, counted.Reports)
	}
}

func TestLostClockRefusesMessagesAfterPending(t *testing.T) {
	content(t)
	lab, daemon, client := newClockLab(t)
	listener := lab.listenForTexts(t)
	sender := lab.startSender(t)
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	sender.expect("ok", "send", 300, "waits")
	awaitCounters(t, client, "it waits", func(c control.Counters) bool { return c.Taken == 1 })
	clockFor(t, client, topology.VNI, control.OnLossRefuse, false)
	awaitReply(t, sender, "ENETDOWN")
	daemon, client = lab.takeOver(t, daemon)
	sender.expect("ENETDOWN", "send", 0, "never")
	sender.expect("100", "burst", 100)
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	awaitReply(t, sender, "ok")

	// A restarted ktsnd has no clock quality until the agent sends it.
	clockFor(t, client, topology.VNI, control.OnLossRefuse, false)
	awaitReply(t, sender, "ENETDOWN")
	kill(t, daemon)
	_, client = lab.startDaemon(t)
	awaitReply(t, sender, "ok")
	if got := receivedTexts(t, listener); !slices.Contains(got, "waits") || slices.Contains(got, "never") {
		t.Errorf("arrived: %q", got)
	}
	if counted := counters(t, client); counted.DropClock != 0 {
		t.Errorf("%d were dropped for the clock", counted.DropClock)
	}
}

// awaitReply waits until the sender's calls return the wanted result: ktsnd's loop informs the library a moment later.
func awaitReply(t *testing.T, sender *sender, want string, to ...any) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		got := sender.command("send", append([]any{0, "asked"}, to...)...)
		if got == want {
			return nil
		}
		return fmt.Errorf("the call gives %s, want %s", got, want)
	})
}

func TestMessagesSentByLostClockAreCounted(t *testing.T) {
	content(t)
	lab, _, client := newClockLab(t)
	lab.listenForTexts(t)
	sender := lab.startSender(t)
	clockFor(t, client, topology.VNI, control.OnLossContinue, false)
	sender.expect("ok", "send", 5, "one")
	awaitCounters(t, client, "it has left", func(c control.Counters) bool { return c.Sent == 1 && c.ClockLost == 1 })
	clockFor(t, client, topology.VNI, control.OnLossContinue, true)
	sender.expect("ok", "send", 5, "two")
	awaitCounters(t, client, "it has left", func(c control.Counters) bool { return c.Sent == 2 })
	if lost := counters(t, client).ClockLost; lost != 1 {
		t.Errorf("%d messages count as sent by a clock that was lost", lost)
	}
}

const otherInterface = "tsn1"

// addNetwork attaches the pod to another network with an address for which nobody answers ARP.
func (l *lab) addNetwork(t *testing.T, client *control.Client) netip.Addr {
	t.Helper()
	const name = otherInterface
	remote := netip.MustParseAddr("10.43.2.2")
	ip(t, l.PodA, "link", "add", name, "type", "veth", "peer", "name", "far1")
	ip(t, l.PodA, "link", "set", "far1", "up")
	ip(t, l.PodA, "link", "set", name, "up")
	ip(t, l.PodA, "address", "add", "10.43.1.2/16", "dev", name)
	ip(t, l.PodA, "neighbor", "add", remote.String(), "lladdr", "02:00:0a:2b:02:02", "dev", name, "nud", "permanent")
	must(t, errors.Join(client.EndpointAdd(t.Context(), l.otherEndpoint()), client.PeerAdd(t.Context(), otherPeer(remote))))
	return remote
}

func (l *lab) otherEndpoint() control.Endpoint {
	return control.Endpoint{Identity: identity, Interface: otherInterface, Netns: l.PodA.Path(), VNI: otherVNI}
}

func otherPeer(remote netip.Addr) control.Peer {
	return control.Peer{VNI: otherVNI, Address: topology.NodeAddressB, Subnets: []netip.Prefix{netip.PrefixFrom(remote, 24).Masked()}}
}

func TestOtherNetworkContinuesWhileClockIsLost(t *testing.T) {
	content(t)
	const many = 100 // fewer than fit
	lab, daemon, client := newClockLab(t)
	lab.listenForTexts(t)
	other := lab.addNetwork(t, client)
	sender := lab.startSender(t)
	for _, vni := range []uint32{topology.VNI, otherVNI} {
		clockFor(t, client, vni, control.OnLossRefuse, true)
	}
	sender.expect("ok", "send", 0, "first")
	sender.expect("ok", "send", 0, "first", other)
	clockFor(t, client, topology.VNI, control.OnLossRefuse, false)
	awaitReply(t, sender, "ENETDOWN")
	for range 3 {
		sender.expect("ok", "send", 0, "other", other)
		sender.expect("ENETDOWN", "send", 0, "never")
		// The successor has the same counters.
		daemon, client = lab.takeOver(t, daemon)
	}
	clockFor(t, client, topology.VNI, control.OnLossHold, false)
	awaitReply(t, sender, "ok")
	before := counters(t, client).Sent
	for range many / 10 {
		sender.expect("0", "burst", 5)
		sender.expect("0", "burst", 10, other)
		sender.expect("0", "burst", 10, other, "another")
	}
	awaitCounters(t, client, "the other network's messages have left", func(c control.Counters) bool { return c.Sent-before == 2*many })
	clockFor(t, client, otherVNI, control.OnLossRefuse, false)
	clockFor(t, client, topology.VNI, control.OnLossHold, true)
	awaitReply(t, sender, "ok")
	awaitReply(t, sender, "ENETDOWN", other)
}

// TestMessagesHeldForClockUseCommonBuffers checks that held messages occupy the ring and the socket's buffer, which all
// networks share.
func TestMessagesHeldForClockUseCommonBuffers(t *testing.T) {
	timing(t)
	t.Parallel()
	lab, _, client := newClockLab(t)
	lab.listenForTexts(t)
	other := lab.addNetwork(t, client)
	sender := lab.startSender(t)
	clockFor(t, client, topology.VNI, control.OnLossHold, false)
	const toHeld, full = 278, 512 // messages: of the send buffer, and of the ring
	sender.expect(fmt.Sprint(toHeld, " EAGAIN"), "fill", topology.PodAddressB, "one")
	sender.expect("0 EAGAIN", "fill", other, "one")
	// Another socket has its own buffer.
	sender.expect("0", "burst", 100, other, "two")
	awaitCounters(t, client, "the other network's messages have left", func(c control.Counters) bool { return c.Sent == 100 })
	sender.expect(fmt.Sprint(full-toHeld, " EAGAIN"), "fill", topology.PodAddressB, "three")
	sender.expect("0 EAGAIN", "fill", other, "two")
	clockFor(t, client, topology.VNI, control.OnLossHold, true)
	awaitCounters(t, client, "what was held has left", func(c control.Counters) bool { return c.Sent == 100+full && c.LateClock == full })
	sender.expect("0", "burst", 10, other, "one")
	sender.expect("0", "burst", 10, other, "two")
}

// everyKind is what each kind of call answers while no network refuses messages, and refused while the first one does.
const (
	everyKind    = "sendmsg=ok connected=ok sendmmsg=2 in-part=3 segments=ok frame=ok other=ok"
	checkRefused = "sendmsg=ENETDOWN connected=ENETDOWN sendmmsg=ENETDOWN in-part=1 segments=ENETDOWN frame=ENETDOWN other=ok"
)

func TestCallsFailWhileClockIsLost(t *testing.T) {
	content(t)
	lab, daemon, client := newClockLab(t)
	listener := lab.listenForTexts(t)
	other := lab.addNetwork(t, client)
	sender := lab.startSender(t)
	each := func(want string) {
		t.Helper()
		sender.expect(want, "each", other, topology.PodInterface, interfaceMAC(t, lab.PodB))
	}
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	each(everyKind)
	sender.expect("ok ok ok", "begin")
	clockFor(t, client, topology.VNI, control.OnLossRefuse, false)
	awaitReply(t, sender, "ENETDOWN")
	each(checkRefused)
	// The parts that were taken are dropped with it, also by a call that ends a datagram and returns no error.
	sender.expect("ENETDOWN ENETDOWN ok ok", "end")
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	awaitReply(t, sender, "ok")
	sender.expect("ok ok ok", "begin")
	sender.expect("ok ok ok ok", "end")
	if dropped := counters(t, client).DropClock; dropped != 0 {
		t.Errorf("%d reached ktsnd although they are refused", dropped)
	}

	// A restarted ktsnd uses another bit for the socket's network.
	kill(t, daemon)
	_, client = lab.startDaemon(t)
	must(t, client.EndpointDel(t.Context(), identity, topology.PodInterface))
	must(t, errors.Join(client.EndpointAdd(t.Context(), lab.otherEndpoint()), client.EndpointAdd(t.Context(), lab.endpoint()),
		client.PeerAdd(t.Context(), otherPeer(other)), client.ClockSet(t.Context(), goodClock)))
	clockFor(t, client, topology.VNI, control.OnLossRefuse, false)
	awaitReply(t, sender, "ENETDOWN")
	each(checkRefused)
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	awaitReply(t, sender, "ok")
	each(everyKind)

	got := receivedTexts(t, listener)
	begun := slices.DeleteFunc(slices.Clone(got), func(text string) bool { return !strings.HasPrefix(text, "begun") })
	slices.Sort(begun)
	if !slices.Equal(begun, []string{"begun", "begunended", "begunended"}) {
		t.Errorf("of the joined datagrams %q arrived", begun)
	}
}

func TestBlockedCallFailsWhenClockIsLost(t *testing.T) {
	timing(t)
	t.Parallel()
	const due = 5 * time.Second
	lab, _, client := newClockLab(t)
	lab.listenForTexts(t)
	sender := lab.startSender(t)
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	began := time.Now()
	sender.expect("EAGAIN", "block", due.Milliseconds())
	clockFor(t, client, topology.VNI, control.OnLossRefuse, false)
	sender.expect("ENETDOWN", "woken")
	if took := time.Since(began); took > due/2 {
		t.Errorf("it was refused after %v, when there was space", took)
	}
}

// TestFailedCallMakesNoSystemCall allows the system calls of an ordinary send, which now and then check that ktsnd
// lives and the socket has no error.
func TestFailedCallMakesNoSystemCall(t *testing.T) {
	content(t)
	lab, _, client := newClockLab(t)
	lab.listenForTexts(t)
	sender := lab.startSender(t)
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	sender.expect("ok", "send", 0, "first")
	clockFor(t, client, topology.VNI, control.OnLossRefuse, false)
	awaitReply(t, sender, "ENETDOWN")
	sender.expect("10000 ENETDOWN", "quiet", 10000)
}

func TestSilentClockIsLostAtItsBound(t *testing.T) {
	content(t)
	const (
		bound  = 4_000  // ns
		drift  = 20_000 // ns a second
		toLose = 300 * time.Millisecond
		late   = 500 * time.Millisecond // on a busy machine
	)
	lab, _, client := newClockLab(t)
	lab.listenForTexts(t)
	sender := lab.startSender(t)
	clockFor(t, client, topology.VNI, control.OnLossRefuse, true)
	sender.expect("ok", "send", 0, "first")
	before := statusOf(t, client)
	began := time.Now()
	err := client.ClockSet(t.Context(), control.ClockQuality{State: control.ClockHoldover, ErrorBoundNs: bound, DriftPPB: drift})
	must(t, err)
	reported := time.Now()
	// Not by the control socket, whose requests wake ktsnd up.
	for sender.command("send", 0, "asked") == "ok" {
		if time.Since(reported) > patience {
			t.Fatal("the clock is never lost")
		}
		time.Sleep(time.Millisecond)
	}
	if lost := time.Now(); lost.Before(began.Add(toLose)) || lost.After(reported.Add(toLose+late)) {
		t.Errorf("it was lost after %v, want %v", lost.Sub(began), toLose)
	}
	status := statusOf(t, client)
	if status.Clock.State != control.ClockHoldover || status.Clock.DriftPPB != drift || status.Clock.ErrorBoundNs < 10_000 {
		t.Errorf("the clock is %+v", status.Clock)
	}
	clocks, err := client.NetworkClocks(t.Context())
	if err != nil || len(clocks) != 1 || !clocks[0].Lost || !clocks[0].Good || clocks[0].VNI != topology.VNI {
		t.Errorf("networks: %+v, %v", clocks, err)
	}
	if before.Clock.State != control.ClockSynchronized || before.Clock.ErrorBoundNs != goodClock.ErrorBoundNs {
		t.Errorf("before, the clock was %+v", before.Clock)
	}
	must(t, client.ClockSet(t.Context(), goodClock))
	awaitReply(t, sender, "ok")
	// Without a requirement a network has no clock to lose.
	must(t, client.NetworkClockSet(t.Context(), topology.VNI, nil))
	if clocks, err := client.NetworkClocks(t.Context()); err != nil || len(clocks) != 0 {
		t.Errorf("networks: %+v, %v", clocks, err)
	}
}

// TestCapturedTimedFramesFollowClock checks captured frames: those with a time are held or rejected, those without one
// continue.
func TestCapturedTimedFramesFollowClock(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.All)
	must(t, c.client.ClockSet(t.Context(), goodClock))
	checkEchoes(t, c.PodA, topology.PodAddressB)
	frame := c.validFrame(t)
	c.sendFrame(t, frame)
	awaitCounters(t, c.client, "a frame with a time has left", func(counted control.Counters) bool { return counted.OnTime+counted.Late() == 1 })

	clockFor(t, c.client, topology.VNI, control.OnLossHold, false)
	c.sendFrame(t, frame)
	awaitCounters(t, c.client, "it is taken", func(counted control.Counters) bool { return counted.Taken-counted.Untimed >= 2 })
	checkEchoes(t, c.PodA, topology.PodAddressB)
	if counted := counters(t, c.client); counted.OnTime+counted.Late() != 1 {
		t.Error("a frame left while its network's clock was lost")
	}
	clockFor(t, c.client, topology.VNI, control.OnLossHold, true)
	awaitCounters(t, c.client, "it has left late", func(counted control.Counters) bool { return counted.LateClock == 1 })

	clockFor(t, c.client, topology.VNI, control.OnLossRefuse, false)
	c.checkDropped(t, func() { c.sendFrame(t, frame) })
	checkEchoes(t, c.PodA, topology.PodAddressB)
	clockFor(t, c.client, topology.VNI, control.OnLossRefuse, true)
	before := counters(t, c.client)
	c.sendFrame(t, frame)
	awaitCounters(t, c.client, "frames are taken again", func(counted control.Counters) bool {
		return counted.OnTime+counted.Late() > before.OnTime+before.Late()
	})
	if dropped := counters(t, c.client).DropClock; dropped != 0 {
		t.Errorf("%d frames reached ktsnd although their network refuses them", dropped)
	}
}
