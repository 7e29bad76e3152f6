// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// virtioHeaderBytes is the size of the header before each frame in a tap of QEMU.
const virtioHeaderBytes = 10

// machineEnemy is a sender in the place of QEMU: no driver has checked its frames.
type machineEnemy struct {
	*captured
	tap *os.File
	mac net.HardwareAddr
}

func (c *captured) machineEnemy(t *testing.T, m *virtualMachine) *machineEnemy {
	t.Helper()
	return &machineEnemy{c, c.openMachineTap(t, m), parseMAC(t, m.Address)}
}

func (e *machineEnemy) send(frame []byte) { writeTap(e.tap, make([]byte, virtioHeaderBytes), frame) }

// honest returns a valid frame from the machine to pod b.
func (e *machineEnemy) honest(t *testing.T) *framing {
	t.Helper()
	f := e.validFrame(t)
	f.source, f.from = e.mac, neighborAddress
	return f
}

// writeTap writes a frame. The kernel rejects some, which equals a drop.
func writeTap(tap *os.File, header, frame []byte) { _, _ = tap.Write(slices.Concat(header, frame)) }

// openMachineTap opens a queue of a machine's tap like QEMU, the first call the first queue.
func (c *captured) openMachineTap(t *testing.T, m *virtualMachine) *os.File {
	t.Helper()
	fd, flags := -1, uint16(unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_VNET_HDR)
	if m.Queues > 1 {
		flags |= unix.IFF_MULTI_QUEUE
	}
	must(t, c.NodeA.Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return err
		}
		request, err := unix.NewIfreq(m.Tap)
		if err != nil {
			return err
		}
		request.SetUint16(flags)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}))
	return ownFile(t, fd, m.Tap)
}

// forgedArrives sends a forged frame and reports whether pod b gets it. It sends another one if the bridge forwarded
// the frame because ktsnd had no CPU for 50 ms.
func (e *machineEnemy) forgedArrives(t *testing.T, change func(*framing)) bool {
	t.Helper()
	return testlab.EventuallyValue(t, patience, 0, func() (bool, error) {
		passed := e.port(t, machineIdentity).Passed
		forged := e.honest(t)
		forged.inside = fmt.Appendf(nil, "lie %d", testlab.ClockNow(unix.CLOCK_TAI))
		change(forged)
		there := listenFrames(t, e.PodB, unix.ETH_P_ALL)
		e.send(forged.frame(t, testlab.ClockNow(unix.CLOCK_TAI)+soon.Nanoseconds()))
		came := payloadArrives(t, there, forged.inside)
		if port := e.port(t, machineIdentity); port.Passed == passed || port.Mode != capture.All {
			return came, nil
		}
		return false, errors.New("the bridge continues to forward frames")
	})
}

func payloadArrives(t *testing.T, there int, payload []byte) bool {
	t.Helper()
	for until := time.Now().Add(3 * soon); time.Now().Before(until); {
		if frame := receiveFrame(t, there, soon); bytes.Contains(frame, payload) {
			return true
		}
	}
	return false
}

// TestGuestsSpoofNoMoreThanPods checks that a machine can spoof nothing with a record, and nothing at all if everything
// is captured (TestForgedFramesAreDropped checks the same of pods).
func TestGuestsSpoofNoMoreThanPods(t *testing.T) {
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCaptured(t, mode)
			m := c.attachMachine(t)
			c.awaitRelay(t, machineIdentity)
			e := c.machineEnemy(t, m)
			for name, change := range forgeries {
				if forged := e.honest(t); mode != capture.All {
					if change(forged); forged.record == nil {
						continue
					}
				}
				t.Run(name, func(t *testing.T) {
					before := c.droppedOfAll(t)
					got := e.forgedArrives(t, change)
					if counted := c.droppedOfAll(t) - before; got || counted == 0 {
						t.Errorf("it arrives: %v; %d are counted as dropped", got, counted)
					}
				})
			}
			e.checkMachineServed(t)
			c.checkServed(t)
		})
	}
}

// droppedOfAll returns the dropped frames of all pods and machines of the node.
func (c *captured) droppedOfAll(t *testing.T) uint64 {
	t.Helper()
	return relayDrops(t, c.relays) + counters(t, c.client).Dropped()
}

// checkMachineServed checks that a frame of the machine with a record leaves on time.
func (e *machineEnemy) checkMachineServed(t *testing.T) {
	t.Helper()
	tap := e.openTap(t, 100)
	at := testlab.ClockNow(unix.CLOCK_TAI) + soon.Nanoseconds()
	honest := e.honest(t)
	honest.record = &ownRecord{version: 1}
	e.send(honest.frame(t, at))
	if seen := awaitMarks(t, tap, 1); len(seen) != 1 || seen[0].wireTAI < at {
		t.Errorf("an honest frame of the machine for %d: %+v", at, seen)
	}
}

// TestGuestsForgedRecordsAreDropped sends arbitrary records and prefixes: ktsnd and the relay continue, and no frame
// that was taken for a record leaves early.
func TestGuestsForgedRecordsAreDropped(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	m := c.attachMachine(t)
	c.awaitRelay(t, machineIdentity)
	e := c.machineEnemy(t, m)
	frame := func(at int64, record *ownRecord) []byte {
		f := e.honest(t)
		f.record = record
		return f.frame(t, at)
	}
	relays, daemon := c.relayPIDs(t), c.daemon.PID()
	tap := c.openTap(t, 10_000)
	for what := range 256 {
		e.send(frame(testlab.ClockNow(unix.CLOCK_TAI)+soon.Nanoseconds(), &ownRecord{version: 1, what: uint8(what)}))
	}
	// The largest time is invalid, because it cannot be converted to another clock.
	tooFarAhead := func(counted control.Counters) uint64 { return counted.DropHorizon + counted.DropInvalid }
	before := tooFarAhead(counters(t, c.client))
	for _, at := range []int64{math.MaxInt64, testlab.ClockNow(unix.CLOCK_TAI) + int64(365*24*time.Hour)} {
		e.send(frame(at, &ownRecord{version: 1}))
	}
	for _, at := range []int64{math.MinInt64, -1, 0, 1} { // long ago
		e.send(frame(at, &ownRecord{version: 1}))
	}
	whole := frame(0, &ownRecord{version: 1})
	for cut := range whole {
		e.send(whole[:cut])
	}
	inner := frame(testlab.ClockNow(unix.CLOCK_TAI), &ownRecord{version: 1})
	e.send(withRecord(inner, testlab.ClockNow(unix.CLOCK_TAI)+soon.Nanoseconds()))
	e.send(withVLANTag(inner, 5))
	e.send(withVLANTag(withVLANTag(inner, 5), 3))
	time.Sleep(2 * soon)
	awaitCounters(t, c.client, "what is too far ahead is dropped", func(counted control.Counters) bool { return tooFarAhead(counted) >= before+2 })
	seen := awaitMarks(t, tap, 0)
	for _, message := range seen {
		if early := message.txtime - message.wireTAI; early > 0 && early < int64(time.Hour) {
			t.Errorf("a frame left %v early: %x", time.Duration(early), message.frame.Head)
		}
	}
	if got := c.relayPIDs(t); !slices.Equal(got, relays) || c.daemon.PID() != daemon {
		t.Errorf("the relays were %v and are %v; they say: %s", relays, got, c.relays.Stderr())
	}
	e.checkMachineServed(t)
	c.checkServed(t)
}

// TestGuestsFalseOffloadsAreDropped sends false checksum and segmentation offsets in a driver's header.
func TestGuestsFalseOffloadsAreDropped(t *testing.T) {
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCaptured(t, mode)
			m := c.attachMachine(t)
			c.awaitRelay(t, machineIdentity)
			e := c.machineEnemy(t, m)
			f := e.honest(t)
			f.payloadBytes = 1400
			relays := c.relayPIDs(t)
			for _, record := range []*ownRecord{nil, {version: 1}} {
				f.record = record
				for flags := range uint8(4) {
					for _, kind := range []uint8{0, 1, 3, 4, 5, 0x80, 0x81, 0xff} {
						for _, lengths := range [][4]uint16{{}, {14, 100, 34, 6}, {0xffff, 1, 0, 0}, {54, 8, 0xffff, 0xffff}, {34, 0, 34, 6}, {62, 1400, 1480, 16}} {
							header := []byte{flags, kind}
							for _, length := range lengths {
								header = binary.NativeEndian.AppendUint16(header, length)
							}
							writeTap(e.tap, header, f.frame(t, testlab.ClockNow(unix.CLOCK_TAI)))
						}
					}
				}
			}
			if got := c.relayPIDs(t); !slices.Equal(got, relays) {
				t.Errorf("the relays were %v and are %v; they say: %s", relays, got, c.relays.Stderr())
			}
			c.awaitQuiet(t)
			e.checkMachineServed(t)
			c.checkServed(t)
		})
	}
}

// TestGuestsRecordsWithoutCaptureAreIgnored checks that without capture the bridge forwards a record as part of an
// ordinary frame.
func TestGuestsRecordsWithoutCaptureAreIgnored(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	side := c.wiring.A.Another("", nil, neighborAddress)
	side.Capture(capture.None)
	m := c.attachMachineAs(t, machineName, side)
	e := c.machineEnemy(t, m)
	before := counters(t, c.client)
	there := listenFrames(t, c.PodB, etherType)
	f := e.honest(t)
	f.record = &ownRecord{version: 1, what: 7}
	record := f.frame(t, testlab.ClockNow(unix.CLOCK_TAI)+soon.Nanoseconds())
	e.send(record)
	if got := receiveFrame(t, there, patience); !bytes.Equal(got, record) {
		t.Errorf("%x arrives, and %x was sent", got, record)
	}
	if after := counters(t, c.client); after.Taken != before.Taken {
		t.Errorf("ktsnd took %d frames", after.Taken-before.Taken)
	}
	c.checkServed(t)
}
