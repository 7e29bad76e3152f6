// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	relayTap = "tap-relay"
	// recordEtherType and the layout of a record are those of datapath/capture/record.h.
	recordEtherType = 0x88b5
	recordVersion   = 1
	// carriedEtherType is the EtherType of these tests' frames, for local experiments like the record's but different.
	carriedEtherType = 0x88b6
)

// relayed are the counters of datapath/relay/counters.h.
type relayed struct {
	Magic, Version, Relays, Connected, Protocol, TooOld, Backlog, HandedBack uint64
	ReadTimed, ReadUntimed, HandedTimed, HandedUntimed                       uint64
	Bypassed, BackRead, BackHanded, BackDropped                              uint64
	Dropped                                                                  [47]uint64
	Gated                                                                    uint64
}

// Indices of Dropped.
const (
	dropSource = 8
	connected  = 1 << 0
	connectedU = 1 << 1
)

func (r relayed) drops() (all uint64) {
	for _, count := range r.Dropped {
		all += count
	}
	return all
}

// relayRig is the agent's environment of a relay of pod a.
type relayRig struct {
	*lab
	packet   *os.File
	folder   *os.File
	counters *os.File
	// podA and podB are the addresses of frames.
	podA, podB []byte
	relay      *process.Process
}

func newRelayRig(t *testing.T) *relayRig {
	t.Helper()
	rig := &relayRig{lab: newLab(t)}
	rig.podA, rig.podB = interfaceMAC(t, rig.PodA), interfaceMAC(t, rig.PodB)
	rig.packet = ownFile(t, frameSocket(t, rig.PodA, topology.PodInterface, 0), "packet socket")
	rig.folder = opened(t, rig.dir, unix.O_PATH|unix.O_DIRECTORY)
	fd, err := unix.MemfdCreate("counters", unix.MFD_CLOEXEC)
	must(t, err)
	rig.counters = ownFile(t, fd, "counters")
	must(t, rig.counters.Truncate(int64(binary.Size(relayed{}))))
	return rig
}

// captureRig is the environment of a relay of captured frames. The test sends to the tap in the place of the kernel's redirection.
type captureRig struct {
	*relayRig
	program string
	tap     *os.File
	inject  int
	// heartbeat is the map, heartbeatFD the relay's descriptor of it.
	heartbeat   *ebpf.Map
	heartbeatFD *os.File
}

func newCaptureRig(t *testing.T) *captureRig {
	t.Helper()
	rig := &captureRig{relayRig: newRelayRig(t), program: publicCopy(t, "ktsn-relay")}
	rig.openTap(t)
	var err error
	rig.heartbeat, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(binary.Size(heartbeatEntry{})), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	must(t, err)
	t.Cleanup(func() { rig.heartbeat.Close() })
	fd, err := unix.Dup(rig.heartbeat.FD())
	must(t, err)
	rig.heartbeatFD = ownFile(t, fd, "heartbeat")
	return rig
}

// ownFile returns a file that is closed at the end of the test.
func ownFile(t *testing.T, fd int, name string) *os.File {
	t.Helper()
	file := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { file.Close() })
	return file
}

func opened(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	must(t, err)
	return ownFile(t, fd, path)
}

// openTap creates the relay's tap without a bridge and a socket that sends frames to it.
func (r *captureRig) openTap(t *testing.T) {
	t.Helper()
	must(t, r.NodeA.Do(func() error {
		r.tap = opened(t, "/dev/net/tun", unix.O_RDWR)
		request, err := unix.NewIfreq(relayTap)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		return unix.IoctlIfreq(int(r.tap.Fd()), unix.TUNSETIFF, request)
	}))
	ip(t, r.NodeA, "link", "set", relayTap, "addrgenmode", "none")
	// Its queue has room for all frames of a test without a relay.
	ip(t, r.NodeA, "link", "set", relayTap, "up", "mtu", "1524", "txqueuelen", "4000")
	r.inject = frameSocket(t, r.NodeA, relayTap, 0)
}

// startRelay starts a relay of all frames, without privileges.
func (r *captureRig) startRelay(t *testing.T) {
	t.Helper()
	files := []*os.File{r.tap, r.packet, r.folder, r.counters, r.heartbeatFD}
	var arguments []string
	for i, name := range []string{"source", "packet", "socket-dir", "counters", "heartbeat"} {
		arguments = append(arguments, "--"+name+"-fd", strconv.Itoa(3+i))
	}
	arguments = append(arguments, "--socket-name", filepath.Base(r.socket), "--all")
	command := asNobody(exec.Command(r.program, arguments...))
	command.ExtraFiles = files
	r.relay = start(t, r.NodeA, "ktsn-relay", command)
}

func (r *relayRig) count(t *testing.T) relayed {
	t.Helper()
	var counted relayed
	must(t, binary.Read(io.NewSectionReader(r.counters, 0, 512), binary.NativeEndian, &counted))
	return counted
}

// awaitCount waits until the relay's counters satisfy a condition.
func (r *relayRig) awaitCount(t *testing.T, what string, condition func(relayed) bool) relayed {
	t.Helper()
	return testlab.EventuallyValue(t, patience, time.Millisecond, func() (relayed, error) {
		counted := r.count(t)
		if condition(counted) {
			return counted, nil
		}
		return relayed{}, fmt.Errorf("%s never: %+v\nthe relay's log: %s", what, counted, r.relay.Stderr())
	})
}

func (r *relayRig) frame(source []byte, text string) []byte {
	return fmt.Appendf(binary.BigEndian.AppendUint16(append(bytes.Clone(r.podB), source...), carriedEtherType), "%-46s", text)
}

// withRecord prepends a record with a time and a priority to a frame.
func withRecord(frame []byte, txtimeTAI int64) []byte {
	const priority = 3
	record := binary.BigEndian.AppendUint16(bytes.Clone(frame[:12]), recordEtherType)
	record = append(record, recordVersion, priority)
	return append(binary.BigEndian.AppendUint64(record, uint64(txtimeTAI)), frame...)
}

// capture sends a frame to the relay's tap.
func (r *captureRig) capture(t *testing.T, frame []byte) {
	t.Helper()
	for {
		_, err := unix.Write(r.inject, frame)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
}

// arrivedText waits for the next frame at pod b and returns its text.
func arrivedText(t *testing.T, fd int) string {
	t.Helper()
	frame := receiveFrame(t, fd, patience)
	if frame == nil {
		t.Fatal("no frame arrives")
	}
	return string(bytes.TrimRight(frame[14:], " \x00"))
}

// expectText checks the text of the next frame at pod b.
func expectText(t *testing.T, fd int, want string) {
	t.Helper()
	if text := arrivedText(t, fd); text != want {
		t.Errorf("%q arrives, want %q", text, want)
	}
}

// heartbeatEntry is struct ktsn_capture_heartbeat.
type heartbeatEntry struct{ AtNs, Gated uint64 }

func (r *captureRig) lastHeartbeat(t *testing.T) (last heartbeatEntry) {
	t.Helper()
	must(t, r.heartbeat.Lookup(uint32(0), &last))
	return last
}

func (r *captureRig) lastBeat(t *testing.T) (ns uint64) {
	t.Helper()
	return r.lastHeartbeat(t).AtNs
}

// awaitHeartbeat waits until the heartbeat differs from the given one.
func (r *captureRig) awaitHeartbeat(t *testing.T, than uint64) uint64 {
	t.Helper()
	return testlab.EventuallyValue(t, patience, time.Millisecond, func() (uint64, error) {
		if beat := r.lastBeat(t); beat != than {
			return beat, nil
		}
		return 0, fmt.Errorf("the heartbeat is not renewed; the relay's log: %s", r.relay.Stderr())
	})
}

func TestRelayOfAllFramesRenewsHeartbeat(t *testing.T) {
	content(t)
	rig := newCaptureRig(t)
	daemon, client := rig.startDaemon(t)
	rig.startRelay(t)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	first := rig.awaitHeartbeat(t, 0)
	rig.awaitHeartbeat(t, first)
	if gated := rig.lastHeartbeat(t).Gated; gated != 0 {
		t.Errorf("without a schedule the gates %#x close", gated)
	}
	rig.capture(t, rig.frame(rig.podA, "without a time"))
	expectText(t, there, "without a time")
	awaitCounters(t, client, "it left as untimed", func(c control.Counters) bool { return c.Untimed == 1 })
	must(t, client.ScheduleSet(t.Context(), threeWindows()))
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		if rig.lastHeartbeat(t).Gated != 0xffff {
			return fmt.Errorf("the gates that close are %#x", rig.lastHeartbeat(t).Gated)
		}
		return nil
	})
	kill(t, daemon)
	rig.awaitCount(t, "the end is noticed", func(c relayed) bool { return c.Connected == 0 })
	// A round that began before may still renew it. Afterwards nothing does.
	time.Sleep(100 * time.Millisecond)
	last := rig.lastBeat(t)
	time.Sleep(100 * time.Millisecond)
	if beat := rig.lastBeat(t); beat != last {
		t.Errorf("it is renewed without ktsnd: %d, before %d", beat, last)
	}
	rig.startDaemon(t)
	rig.awaitHeartbeat(t, last)
	rig.capture(t, rig.frame(rig.podA, "again"))
	expectText(t, there, "again")
	counted := rig.awaitCount(t, "both connections are there again", func(c relayed) bool { return c.Connected == connected|connectedU })
	if counted.drops() != 0 {
		t.Errorf("the relay counted %+v", counted)
	}
}

// Values of datapath/ring/app_protocol.h in a request for a ring.
const (
	appMagic        = 0x6e73746b
	appVersion      = 6
	appHello        = 1
	appUntimed      = 1
	appRequestBytes = 72
	appReplyBytes   = 40
)

// clientOf connects to pod a's application socket from a network namespace.
func (l *lab) clientOf(t *testing.T, from *topology.Namespace) int {
	t.Helper()
	var fd int
	must(t, from.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrUnix{Name: l.socket})
	}))
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// helloWith requests a ring and returns ktsnd's error, ECONNRESET if it does not answer.
func helloWith(t *testing.T, fd int, flags byte) error {
	t.Helper()
	request := binary.NativeEndian.AppendUint32(nil, appMagic)
	request = binary.NativeEndian.AppendUint16(request, appVersion)
	request = binary.NativeEndian.AppendUint16(request, appHello)
	request = append(request, 0, 0, 0, 0, 0, flags)
	if _, err := unix.Write(fd, append(request, make([]byte, appRequestBytes-len(request))...)); err != nil {
		return unix.ECONNRESET
	}
	reply := make([]byte, appReplyBytes)
	count, err := unix.Read(fd, reply)
	if err != nil || count != appReplyBytes {
		return unix.ECONNRESET
	}
	if status := int32(binary.NativeEndian.Uint32(reply[8:])); status != 0 {
		return syscall.Errno(-status)
	}
	return nil
}

// connectionsUse uses up the connections of pod a and returns their number.
func (l *lab) connectionsUse(t *testing.T) (used int) {
	t.Helper()
	for {
		// The first answer comes when ktsnd has decided on the connection.
		if err := helloWith(t, l.clientOf(t, l.PodA), 0); errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EMFILE) {
			return used
		}
		used++
	}
}

func TestOnlyRelayGetsUntimedRing(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	if err := helloWith(t, lab.clientOf(t, lab.PodA), appUntimed); !errors.Is(err, unix.EPERM) {
		t.Errorf("a program of the pod: %v", err)
	}
	if err := helloWith(t, lab.clientOf(t, lab.PodA), 0); err != nil {
		t.Errorf("a program of the pod, with a timed ring: %v", err)
	}
	if err := helloWith(t, lab.clientOf(t, lab.NodeA), appUntimed); err != nil {
		t.Errorf("a program of the node: %v", err)
	}
}

func TestRelayConnectionIsReserved(t *testing.T) {
	content(t)
	rig := newCaptureRig(t)
	daemon, _ := rig.startDaemon(t, "--pod-processes", "8")
	if used := rig.connectionsUse(t); used != 8 {
		t.Fatalf("it gets %d connections", used)
	}
	there := listenFrames(t, rig.PodB, carriedEtherType)
	// The successor knows the owner of each connection.
	for _, when := range []string{"at first", "with the successor"} {
		rig.startRelay(t)
		rig.awaitHeartbeat(t, rig.lastBeat(t))
		rig.capture(t, rig.frame(rig.podA, when))
		expectText(t, there, when)
		if when != "at first" {
			return
		}
		rig.takeOver(t, daemon, "--pod-processes", "8")
		if used := rig.connectionsUse(t); used != 0 {
			t.Errorf("it gets %d connections more", used)
		}
		kill(t, rig.relay)
	}
}

func TestRelayFramesContinueDuringReplace(t *testing.T) {
	content(t)
	rig := newCaptureRig(t)
	before, client := rig.startDaemon(t)
	rig.startRelay(t)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	rig.awaitHeartbeat(t, 0)
	rig.capture(t, rig.frame(rig.podA, "untimed, before"))
	expectText(t, there, "untimed, before")
	// A ktsnd is ready long before that.
	at := testlab.ClockNow(unix.CLOCK_TAI) + int64(5*time.Second)
	rig.capture(t, withRecord(rig.frame(rig.podA, "timed"), at))
	awaitCounters(t, client, "both are taken", func(c control.Counters) bool { return c.Taken == 2 })
	_, client = rig.takeOver(t, before)
	rig.capture(t, rig.frame(rig.podA, "untimed, after"))
	for _, expected := range []string{"untimed, after", "timed"} {
		expectText(t, there, expected)
	}
	if now := testlab.ClockNow(unix.CLOCK_TAI); now < at {
		t.Errorf("it arrives %d ns before its time", at-now)
	}
	awaitCounters(t, client, "each as what it is", func(c control.Counters) bool { return c.Untimed == 1 && c.Sent == 2 })
	// The heartbeat shows that the successor treats the ring as untimed.
	beat := rig.lastBeat(t)
	rig.awaitHeartbeat(t, beat)
	if counted := rig.count(t); counted.Connected != connected|connectedU || counted.HandedBack != 0 || counted.drops() != 0 {
		t.Errorf("the relay noticed it: %+v", counted)
	}
}
