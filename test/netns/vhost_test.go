// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// More indices of relayed.Dropped.
const (
	dropRecordBits   = 4
	dropRecordDenied = 17
	dropDescriptor   = 18
)

// guestRig replaces pod a's programs by a virtual machine without the machine: DPDK's virtio-user device is the other
// end of vhost-user. It has the hardware address of the pod's interface.
type guestRig struct {
	*relayRig
	relayProgram, guestProgram string
	// listens means that the front end listens and the relay connects.
	listens bool
	pairs   int
	options []string
	// flood are the front end's arguments for a flood. If nil, it waits for frames to send.
	flood []string
	// CPUs on which they run, "" for any.
	relayCPU, guestCPU string
	path               string
	link               *os.File
	guest              dialogue
	// lines are the unread lines of the guest's output.
	lines chan string
}

func newGuestRig(t *testing.T, pairs int, listens bool, options ...string) *guestRig {
	t.Helper()
	rig := &guestRig{
		relayRig: newRelayRig(t), pairs: pairs, listens: listens, options: options,
		relayProgram: publicCopy(t, "ktsn-relay-vhost"), guestProgram: publicCopy(t, "ktsn-test-guest"),
	}
	rig.link = ownFile(t, dupFile(t, listenFrames(t, rig.PodA, unix.ETH_P_ALL)), "link")
	sockets := publicDir(t)
	must(t, os.Chmod(sockets, 0o777))
	rig.path = filepath.Join(sockets, "vhost.sock")
	return rig
}

// newServedGuest returns a rig whose front end is connected and served by ktsnd.
func newServedGuest(t *testing.T, pairs int, listens bool, options ...string) (*guestRig, *process.Process, *control.Client) {
	t.Helper()
	rig := newGuestRig(t, pairs, listens, options...)
	daemon, client := rig.startDaemon(t)
	rig.startRelay(t)
	rig.startGuest(t)
	return rig, daemon, client
}

// dupFile duplicates a descriptor that is closed elsewhere.
func dupFile(t *testing.T, fd int) int {
	t.Helper()
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	return other
}

// on returns a command that runs on one CPU.
func on(cpu, name string, arguments []string) *exec.Cmd {
	if cpu == "" {
		return exec.Command(name, arguments...)
	}
	return exec.Command("taskset", append([]string{"-c", cpu, name}, arguments...)...)
}

// startRelay starts a relay without privileges.
func (r *guestRig) startRelay(t *testing.T) {
	t.Helper()
	var arguments []string
	for i, name := range []string{"packet", "link", "socket-dir", "counters"} {
		arguments = append(arguments, "--"+name+"-fd", strconv.Itoa(3+i))
	}
	arguments = append(arguments, "--socket-name", filepath.Base(r.socket), "--vhost-socket", r.path)
	if r.listens {
		arguments = append(arguments, "--connect")
	} else {
		_ = os.Remove(r.path) // so that the next socket is this relay's
	}
	command := asNobody(on(r.relayCPU, r.relayProgram, append(arguments, r.options...)))
	command.ExtraFiles = []*os.File{r.packet, r.link, r.folder, r.counters}
	command.Dir = "/"
	r.relay = start(t, r.NodeA, "ktsn-relay-vhost", command)
}

// startGuest starts the front end and waits until it is connected.
func (r *guestRig) startGuest(t *testing.T) {
	t.Helper()
	role := "connect"
	if r.listens {
		role = "listen"
	} else {
		r.awaitSocket(t)
	}
	command := asNobody(on(r.guestCPU, r.guestProgram, append([]string{r.path, strconv.Itoa(r.pairs), role}, r.flood...)))
	r.guest = startDialogue(t, r.NodeA, "ktsn-test-guest", command)
	lines := make(chan string, 1000)
	r.lines = lines
	scanner := r.guest.stdout
	go func() {
		defer close(lines)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	if len(r.flood) == 0 {
		r.awaitLine(t, "ready")
		r.awaitLine(t, "up")
	}
}

func (r *guestRig) awaitSocket(t *testing.T) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		if _, err := os.Stat(r.path); err == nil {
			return nil
		}
		return fmt.Errorf("the relay does not listen; its log: %s", r.relay.Stderr())
	})
}

// line returns the guest's next line of output, "" if there is none.
func (r *guestRig) line(wait time.Duration) string {
	select {
	case line := <-r.lines:
		return line
	case <-time.After(wait):
		return ""
	}
}

func (r *guestRig) awaitLine(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		line := r.line(time.Until(deadline))
		if line == want {
			return
		}
		if line == "" {
			t.Fatalf("the guest never reports %q; its log: %s\nthe relay's log: %s", want, r.guest.Stderr(), r.relay.Stderr())
		}
	}
}

// send sends a frame from the guest.
func (r *guestRig) send(t *testing.T, pair int, frame []byte) {
	t.Helper()
	if _, err := fmt.Fprintf(r.guest.stdin, "%d %x\n", pair, frame); err != nil {
		t.Fatal(err)
	}
}

// receiveFromRing waits for the guest's next received frame of that EtherType.
func (r *guestRig) receiveFromRing(t *testing.T, etherType uint16) (pair int, frame []byte) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		number, text, _ := strings.Cut(r.line(time.Until(deadline)), " ")
		if number == "" {
			t.Fatalf("no frame reaches the guest; the relay's log: %s, and counted %+v", r.relay.Stderr(), r.count(t))
		}
		frame, err := hex.DecodeString(text)
		if err == nil && len(frame) > 14 && bytes.Contains(frame[12:18], binary.BigEndian.AppendUint16(nil, etherType)) {
			pair, _ = strconv.Atoi(number)
			return pair, frame
		}
	}
}

// withVLANTag adds a priority tag (VLAN 0) to a frame.
func withVLANTag(frame []byte, priority byte) []byte {
	return slices.Concat(frame[:12], []byte{0x81, 0x00, priority << 5, 0}, frame[12:])
}

// both are the roles at the socket.
var both = map[string]bool{"the relay listens": false, "the front end listens": true}

func TestVhostFramesLeaveOnTime(t *testing.T) {
	timing(t)
	for name, listens := range both {
		t.Run(name, func(t *testing.T) {
			rig, _, client := newServedGuest(t, 4, listens, "--records")
			there := listenFrames(t, rig.PodB, carriedEtherType)
			base := testlab.ClockNow(unix.CLOCK_TAI) + int64(300*time.Millisecond)
			const frames = 40
			for i := range frames {
				// The last leaves first.
				at := base + int64((frames-i)*int(5*time.Millisecond))
				rig.send(t, i%rig.pairs, withRecord(rig.frame(rig.podA, strconv.FormatInt(at, 10)), at))
			}
			var last int64
			for range frames {
				text := arrivedText(t, there)
				at, err := strconv.ParseInt(text, 10, 64)
				if err != nil || at < last {
					t.Fatalf("%q arrives after %d", text, last)
				}
				if now := testlab.ClockNow(unix.CLOCK_TAI); now < at {
					t.Errorf("a frame arrives %d ns before its time", at-now)
				}
				last = at
			}
			awaitSent(t, client, frames)
			if counted := counters(t, client); counted.Sent != frames || counted.LateTaken != 0 {
				t.Errorf("ktsnd counted %+v", counted)
			}
			if counted := rig.count(t); counted.HandedTimed != frames || counted.drops() != 0 {
				t.Errorf("the relay counted %+v", counted)
			}
		})
	}
}

// TestVhostFirstFrameLeavesAtOnce checks that the relay reads the queues after enabling notifications: otherwise each
// frame would wait for the next one.
func TestVhostFirstFrameLeavesAtOnce(t *testing.T) {
	timing(t)
	rig, _, _ := newServedGuest(t, 2, false)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	var took []time.Duration
	for i := range 60 {
		time.Sleep(time.Duration(i) * 200 * time.Microsecond)
		begin := time.Now()
		rig.send(t, i%rig.pairs, rig.frame(rig.podA, strconv.Itoa(i)))
		expectText(t, there, strconv.Itoa(i))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	// Queues are polled every 100 ms in any case.
	if median, p90 := took[30], took[54]; p90 > 30*time.Millisecond {
		t.Errorf("frames take %v in the median, p90 %v", median, p90)
	}
}

func TestVhostFrameClass(t *testing.T) {
	timing(t)
	// Classes of priorities (traffic-class-map). A record has 3.
	const bestEffort, three, four, five = 1, 3, 4, 5
	for name, test := range map[string]struct {
		options []string
		pair    int
		tag     bool // of priority 4
		timed   bool
		class   int
	}{
		"by record":                   {[]string{"--records"}, 5, true, true, three},
		"by record, without one":      {[]string{"--records"}, 5, true, false, bestEffort},
		"by tag":                      {[]string{"--records", "--class", "pcp"}, 5, true, true, four},
		"by tag, without a time":      {[]string{"--class", "pcp"}, 5, true, false, four},
		"by tag, without one":         {[]string{"--class", "pcp"}, 5, false, false, bestEffort},
		"by queue":                    {[]string{"--records", "--class", "queue"}, 5, true, true, five},
		"by queue, without a time":    {[]string{"--class", "queue"}, 5, false, false, five},
		"by queue, the first of them": {[]string{"--class", "queue"}, 0, true, false, bestEffort},
	} {
		t.Run(name, func(t *testing.T) {
			rig, _, client := newServedGuest(t, 6, false, test.options...)
			frame := rig.frame(rig.podA, "in a class")
			if test.tag {
				frame = withVLANTag(frame, 4)
			}
			if test.timed {
				frame = withRecord(frame, testlab.ClockNow(unix.CLOCK_TAI)+int64(50*time.Millisecond))
			}
			rig.send(t, test.pair, frame)
			awaitSent(t, client, 1)
			for class, counted := range statusOf(t, client).Classes {
				if (counted.Sent == 1) != (class == test.class) {
					t.Errorf("%d of class %d left, want one of %d", counted.Sent, class, test.class)
				}
			}
		})
	}
}

func TestVhostFramesReachGuest(t *testing.T) {
	timing(t)
	rig, _, _ := newServedGuest(t, 4, false)
	send := frameSocket(t, rig.PodB, topology.PodInterface, 0)
	to := func(destination []byte, text string) []byte {
		return fmt.Appendf(binary.BigEndian.AppendUint16(slices.Concat(destination, rig.podB), carriedEtherType), "%-46s", text)
	}
	broadcast := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for name, test := range map[string]struct {
		frame []byte
		pair  int
	}{
		"to its own address":               {to(rig.podA, "unicast"), 0},
		"to all":                           {to(broadcast, "broadcast"), 0},
		"with a tag":                       {withVLANTag(to(rig.podA, "tagged"), 2), 2},
		"with a tag for a pair it has not": {withVLANTag(to(rig.podA, "tagged higher"), 6), 0},
	} {
		if _, err := unix.Write(send, test.frame); err != nil {
			t.Fatal(err)
		}
		pair, frame := rig.receiveFromRing(t, carriedEtherType)
		if pair != test.pair || !bytes.HasPrefix(frame, test.frame) {
			t.Errorf("%s: in pair %d there comes %x, want %d and %x", name, pair, frame, test.pair, test.frame)
		}
	}
	counted := rig.count(t)
	if counted.BackHanded < 4 || counted.BackRead != counted.BackHanded+counted.BackDropped {
		t.Errorf("the relay counted %+v", counted)
	}
}

func TestVhostFrontEndReconnects(t *testing.T) {
	timing(t)
	for name, listens := range both {
		t.Run(name, func(t *testing.T) {
			rig := newGuestRig(t, 2, listens, "--records")
			_, client := rig.startDaemon(t)
			rig.startRelay(t)
			there := listenFrames(t, rig.PodB, carriedEtherType)
			for i := range 3 {
				rig.startGuest(t)
				text := strconv.Itoa(i)
				rig.send(t, 1, withRecord(rig.frame(rig.podA, text), testlab.ClockNow(unix.CLOCK_TAI)+int64(50*time.Millisecond)))
				expectText(t, there, text)
				kill(t, rig.guest.Process)
			}
			awaitSent(t, client, 3)
			if counted := rig.count(t); counted.HandedTimed != 3 || counted.drops() != 0 || counted.Relays != 1 {
				t.Errorf("the relay counted %+v", counted)
			}
		})
	}
}

func TestVhostGuestSurvivesRelayKill(t *testing.T) {
	timing(t)
	rig, _, client := newServedGuest(t, 2, true, "--records")
	there := listenFrames(t, rig.PodB, carriedEtherType)
	for i := range 3 {
		text := strconv.Itoa(i)
		rig.send(t, i%2, withRecord(rig.frame(rig.podA, text), testlab.ClockNow(unix.CLOCK_TAI)+int64(50*time.Millisecond)))
		expectText(t, there, text)
		kill(t, rig.relay)
		rig.awaitLine(t, "down")
		rig.startRelay(t)
		rig.awaitLine(t, "up")
	}
	awaitSent(t, client, 3)
	if counted := rig.count(t); counted.HandedTimed != 3 || counted.drops() != 0 || counted.Relays != 4 {
		t.Errorf("the relays counted %+v", counted)
	}
}

func TestVhostGuestSurvivesKtsndKill(t *testing.T) {
	timing(t)
	rig, daemon, _ := newServedGuest(t, 2, false, "--records")
	there := listenFrames(t, rig.PodB, carriedEtherType)
	rig.send(t, 0, withRecord(rig.frame(rig.podA, "before"), testlab.ClockNow(unix.CLOCK_TAI)))
	expectText(t, there, "before")
	at := testlab.ClockNow(unix.CLOCK_TAI) + int64(1500*time.Millisecond)
	rig.send(t, 0, withRecord(rig.frame(rig.podA, "in the ring"), at))
	rig.awaitCount(t, "both are handed over", func(c relayed) bool { return c.HandedTimed == 2 })
	kill(t, daemon)
	rig.awaitCount(t, "the end is noticed", func(c relayed) bool { return c.Connected == 0 })
	rig.send(t, 1, withRecord(rig.frame(rig.podA, "while it is away"), at+int64(50*time.Millisecond)))
	rig.send(t, 1, rig.frame(rig.podA, "by the kernel"))
	expectText(t, there, "by the kernel")
	_, client := rig.startDaemon(t)
	for _, expected := range []string{"in the ring", "while it is away"} {
		expectText(t, there, expected)
		if now := testlab.ClockNow(unix.CLOCK_TAI); now < at {
			t.Errorf("it arrives %d ns before its time", at-now)
		}
	}
	counted := rig.awaitCount(t, "the ring is handed back", func(c relayed) bool { return c.HandedBack >= 1 })
	if counted.HandedTimed != 3 || counted.Bypassed != 1 || counted.drops() != 0 {
		t.Errorf("the relay counted %+v", counted)
	}
	awaitSent(t, client, 2)
}

func TestVhostForgedFramesAreDropped(t *testing.T) {
	content(t)
	rig := newGuestRig(t, 2, false, "--records")
	_, client := rig.startDaemon(t)
	limited := rig.endpoint()
	limited.Sources = &control.Sources{Addresses: []netip.Prefix{netip.PrefixFrom(topology.PodAddressA, 32)}}
	must(t, client.EndpointAdd(t.Context(), limited))
	rig.startRelay(t)
	rig.startGuest(t)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	stranger := []byte{2, 9, 9, 9, 9, 9}
	bits := withRecord(rig.frame(rig.podA, "bits"), testlab.ClockNow(unix.CLOCK_TAI))
	bits[15] |= 0x80
	rig.send(t, 0, withRecord(rig.frame(stranger, "forged"), testlab.ClockNow(unix.CLOCK_TAI)))
	rig.send(t, 0, rig.frame(stranger, "forged"))
	rig.send(t, 1, bits)
	// An IPv4 header with a foreign address, and a priority that is not granted.
	foreign := rig.frame(rig.podA, "")
	copy(foreign[12:], []byte{0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253, 0, 0, 10, 99, 99, 99, 10, 42, 2, 2})
	rig.send(t, 0, foreign)
	rig.send(t, 0, withRecord(foreign, testlab.ClockNow(unix.CLOCK_TAI)))
	high := withRecord(rig.frame(rig.podA, "high"), testlab.ClockNow(unix.CLOCK_TAI))
	high[15] = 7
	rig.send(t, 0, high)
	rig.send(t, 1, withRecord(rig.frame(rig.podA, "in a year"), testlab.ClockNow(unix.CLOCK_TAI)+int64(365*24*time.Hour)))
	rig.send(t, 1, rig.frame(rig.podA, "own"))
	expectText(t, there, "own")
	rig.awaitCount(t, "what is forged is dropped", func(c relayed) bool {
		return c.Dropped[dropSource] == 2 && c.Dropped[dropRecordBits] == 1 && c.drops() == 3
	})
	awaitCounters(t, client, "what is far ahead is dropped", func(c control.Counters) bool { return c.DropHorizon == 1 })
	awaitCounters(t, client, "what is not the endpoint's is dropped", func(c control.Counters) bool { return c.DropSource == 3 })
	if text := receiveFrame(t, there, 100*time.Millisecond); text != nil {
		t.Errorf("%q arrives", text)
	}
}

func TestVhostRecordsNeedPermission(t *testing.T) {
	content(t)
	rig, _, _ := newServedGuest(t, 2, false)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	// Also a frame with a class and without a time.
	const what, untimed = 15, 0x36
	classed := withRecord(rig.frame(rig.podA, "with a class"), 0)
	classed[what] = untimed
	rig.send(t, 0, withRecord(rig.frame(rig.podA, "with a record"), testlab.ClockNow(unix.CLOCK_TAI)))
	rig.send(t, 0, classed)
	rig.send(t, 0, rig.frame(rig.podA, "without"))
	expectText(t, there, "without")
	rig.awaitCount(t, "both are dropped", func(c relayed) bool { return c.Dropped[dropRecordDenied] == 2 && c.drops() == 2 })
}

func TestVhostIdleGuestCostsNothing(t *testing.T) {
	timing(t)
	rig, _, _ := newServedGuest(t, 8, false)
	rig.awaitCount(t, "ktsnd takes both kinds", func(c relayed) bool { return c.Connected == connected|connectedU })
	time.Sleep(500 * time.Millisecond)
	const span = 5 * time.Second
	before := cpuTime(t, rig.relay.PID())
	time.Sleep(span)
	share := (cpuTime(t, rig.relay.PID()) - before).Seconds() / span.Seconds()
	t.Logf("an idle guest costs %.5f of a core", share)
	if share > 0.005 {
		t.Errorf("an idle guest costs %.4f of a core", share)
	}
}

func TestVhostRelayEndsOnRequest(t *testing.T) {
	content(t)
	rig := newGuestRig(t, 1, false)
	rig.startRelay(t)
	rig.startGuest(t)
	must(t, syscall.Kill(rig.relay.PID(), syscall.SIGTERM))
	if err := finish(t, rig.relay); err != nil {
		t.Error(err)
	}
	rig.awaitLine(t, "down")
}

// TestVhostRelayFromCommandLine checks that the relay of `ktsn vm relay` serves a front end with the printed arguments,
// and so does the relay that is started after the first has ended.
func TestVhostRelayFromCommandLine(t *testing.T) {
	timing(t)
	rig := newGuestRig(t, 2, true)
	_, client := rig.startDaemon(t)
	var output bytes.Buffer
	command := exec.Command(program(t, "ktsn"), "vm", "relay", "--netns", rig.PodA.Path(), "--interface", topology.PodInterface, "--socket", rig.socket,
		"--vhost-socket", rig.path, "--queues", strconv.Itoa(rig.pairs), "--vcpus", "2", "--class", "queue", "--records",
		"--relay-binary", rig.relayProgram, "--relay-user", strconv.Itoa(nobody))
	command.Stdout = &output
	attach := start(t, rig.NodeA, "ktsn vm relay", command)
	rig.relay = attach
	rig.startGuest(t)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	for i := range 2 {
		text := strconv.Itoa(i)
		rig.send(t, 1, withRecord(rig.frame(rig.podA, text), testlab.ClockNow(unix.CLOCK_TAI)+int64(50*time.Millisecond)))
		expectText(t, there, text)
		if i == 0 {
			killChild(t, attach.PID())
			rig.awaitLine(t, "down")
			rig.awaitLine(t, "up")
		}
	}
	awaitSent(t, client, 2)
	if err := attach.Stop(patience); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"mac=" + net.HardwareAddr(rig.podA).String() + ",mq=on", "path='" + rig.path + "' mode='server'", "queues=2"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, output.String())
		}
	}
}

// killChild kills the only child of a process.
func killChild(t *testing.T, pid int) {
	t.Helper()
	children, err := process.Children(pid)
	if err != nil || len(children) == 0 {
		t.Fatalf("there is no relay: %v", err)
	}
	must(t, syscall.Kill(children[0], syscall.SIGKILL))
}
