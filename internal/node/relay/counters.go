// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counters is shared memory with the relay's counters. Its size is sealed, so that a compromised relay can do no more than
// write wrong numbers.
type counters struct {
	file   *os.File
	memory []byte
}

// newCounters creates the memory. gated has a bit for each priority whose gate the node's schedule closes at times. It is the
// initial value for the first relay, which must not send frames of these priorities past ktsnd; the relay updates it later.
func newCounters(gated uint64) (*counters, error) {
	descriptor, err := unix.MemfdCreate("ktsn-relay-counters", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make memory for the relay's counters: %w", err)
	}
	file := os.NewFile(uintptr(descriptor), "counters")
	memory, err := sealed(file, gated)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make memory for the relay's counters: %w", err), file.Close())
	}
	return &counters{file, memory}, nil
}

func sealed(file *os.File, gated uint64) ([]byte, error) {
	if err := file.Truncate(countersBytes); err != nil {
		return nil, err
	}
	if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, gated), atGated); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	return unix.Mmap(int(file.Fd()), 0, countersBytes, unix.PROT_READ, unix.MAP_SHARED)
}

func (c *counters) close() error { return errors.Join(unix.Munmap(c.memory), c.file.Close()) }

// Offsets in the memory in bytes, as in datapath/relay/counters.h.
const (
	countersBytes = 512
	atConnected   = 24
	atTooOld      = 40
	atRead        = 64
	atHanded      = 80
	atBypassed    = 96
	atBackHanded  = 112
	atBackDropped = 120
	atDropped     = 128
	atGated       = 504
	wordBytes     = 8
)

// kinds are the kinds of frames that a relay reads and hands to ktsnd.
var kinds = []string{"timed", "untimed"}

// drops are the reasons for which a relay drops a frame: enum relay_drop.
var drops = []string{
	"lost", "truncated", "offload", "record-short", "record-bits", "record-addresses", "unexpected", "too-long", "source",
	"no-destination", "destinations", "no-room", "no-daemon", "backlog-full",
	"stale", "no-flow", "clock", "record-denied", "descriptor",
}

// read returns how many frames a relay has read, handed to ktsnd and dropped.
func (c *counters) read() map[string]uint64 {
	frames := map[string]uint64{}
	for i, kind := range kinds {
		frames["read-"+kind] = c.value(atRead + i*wordBytes)
		frames["handed-"+kind] = c.value(atHanded + i*wordBytes)
	}
	for i, reason := range drops {
		frames["drop-"+reason] = c.value(atDropped + i*wordBytes)
	}
	return frames
}

// takesUntimed is the bit of `connected` for a ktsnd that takes untimed frames.
const takesUntimed = 1 << 1

// taken reports whether ktsnd takes untimed frames.
func (c *counters) taken() bool { return c.value(atConnected)&takesUntimed != 0 }

// tooOld reports whether the ktsnd that answered last cannot serve relays.
func (c *counters) tooOld() bool { return c.value(atTooOld) != 0 }

// value reads a counter that the relay writes concurrently.
func (c *counters) value(at int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.memory[at])))
}
