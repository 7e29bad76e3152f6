// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
)

const (
	// ListenPort is where the listener waits, on whichever address.
	ListenPort = 7788
	// talkerPort is where the first of several talkers sends from; the others follow.
	talkerPort = 7800
	// RunGrace is what a run may take beyond its messages before it counts as stuck.
	RunGrace = 30 * time.Second
	// GuestGrace is what a run in virtual machines may take more, on a busy host.
	GuestGrace = time.Minute
	// idleTimeout ends the listener when messages are missing.
	idleTimeout = 2 * time.Second
	// firstTimeout ends it when none came at all.
	firstTimeout = 10 * time.Second
	// companionSlack is how much longer than the measured messages a companion may have to go on.
	// guestIdleTimeout and guestFirstTimeout are those in a virtual machine, which is slow.
	guestIdleTimeout  = 5 * time.Second
	guestFirstTimeout = 20 * time.Second
	// guestStart is how long after its start the first message of a talker in a virtual machine is due.
	guestStart     = time.Second
	companionSlack = 2 * time.Second
	// endlessFlood is more messages than any run has room for: who floods is told when to end.
	endlessFlood = 10_000_000
	// framesPerMillisecond is more than one processor puts on the link.
	framesPerMillisecond = 300
)

// NotPinned stands for a processor that was not chosen.
const NotPinned = -1

// Talkers are those of a run, told from each other and from those of other runs; next numbers the first.
func Talkers(r engine.Run, next uint32) []Talker {
	all := make([]Talker, r.Talkers)
	for i := range all {
		all[i].RunID = next + uint32(i)
		if r.Talkers > 1 {
			all[i].Port = talkerPort + uint16(i)
		}
	}
	return all
}

// MeasuredTalker is what a talker is told that is measured.
func MeasuredTalker(r engine.Run, number int, to netip.Addr) []string {
	arguments := []string{
		"--to", netip.AddrPortFrom(to, ListenPort).String(),
		"--cycle", Nanoseconds(r.Cycle()),
		"--size", strconv.Itoa(r.PayloadBytes),
		"--count", strconv.Itoa(r.Messages),
		"--lead", Nanoseconds(LeadAmong(r))}
	if offset := OffsetOf(r, number); offset != 0 {
		arguments = append(arguments, "--offset", Nanoseconds(offset))
	}
	if priority := PriorityOf(r); priority != 0 {
		arguments = append(arguments, "--priority", strconv.Itoa(priority))
	}
	return arguments
}

// GuestTalker is what a talker in a virtual machine is told besides.
func GuestTalker() []string { return []string{"--start", "+" + Nanoseconds(guestStart)} }

// GuestListener is what the listener in a virtual machine is told. It sleeps, for its processors are the talker's host's, too.
func GuestListener(r engine.Run, runID uint32, at netip.Addr) []string {
	return []string{"listener", "--block", "--bind", netip.AddrPortFrom(at, ListenPort).String(), "--count", strconv.Itoa(r.Messages),
		"--run-id", strconv.FormatUint(uint64(runID), 10), "--idle-timeout", Nanoseconds(guestIdleTimeout),
		"--first-timeout", Nanoseconds(guestFirstTimeout)}
}

// Spin is what a talker is told that is awake so long before each send, with that priority of SCHED_FIFO; 0: ordinary scheduling.
func Spin(spin time.Duration, fifo int) []string {
	arguments := []string{"--spin", Nanoseconds(spin)}
	if fifo > 0 {
		arguments = append(arguments, "--fifo", strconv.Itoa(fifo))
	}
	return arguments
}

// Listener is what the listener of a run is told.
func Listener(r engine.Run, talkers []Talker, at netip.Addr, cpu int) []string {
	arguments := []string{"listener", "--poll", "--quiet",
		"--bind", netip.AddrPortFrom(at, ListenPort).String(),
		"--count", strconv.Itoa(r.Messages * r.Talkers),
		"--idle-timeout", Nanoseconds(idleTimeout), "--first-timeout", Nanoseconds(firstTimeout)}
	if len(talkers) == 1 { // several are told from each other, and from others, by their ports
		arguments = append(arguments, "--run-id", strconv.FormatUint(uint64(talkers[0].RunID), 10))
	}
	return append(arguments, CPU(cpu)...)
}

// CompanionTalker is what a companion is told.
func CompanionTalker(r engine.Run, c *Companion, to netip.AddrPort) []string {
	arguments := []string{
		"--to", to.String(),
		"--cycle", Nanoseconds(c.Cycle), "--offset", Nanoseconds(c.Offset),
		"--size", strconv.Itoa(c.PayloadBytes),
		"--count", strconv.Itoa(c.messages(r)),
		"--priority", strconv.Itoa(c.Priority),
		"--lead", Nanoseconds(LeadOf(r.Workload, r.Cycle(), r.Window))}
	if c.Flood {
		arguments = append(arguments, "--flood")
	}
	return arguments
}

// Records says by which number a talker's messages are known, and where it writes what became of them.
func Records(runID uint32, file string) []string {
	return []string{"--run-id", strconv.FormatUint(uint64(runID), 10), "--csv", file}
}

// messages is how many a companion is asked to send; it is stopped before.
func (c *Companion) messages(r engine.Run) int {
	if c.Flood {
		return endlessFlood
	}
	return int((r.Duration()+companionSlack)/c.Cycle) + 1
}

// MostFrames is how many of its frames can be on the link during a run.
func (c *Companion) MostFrames(r engine.Run) int {
	if c.Flood {
		return int((r.Duration()+companionSlack)/time.Millisecond) * framesPerMillisecond
	}
	return c.messages(r)
}

// CPU pins a program.
func CPU(cpu int) []string {
	if cpu == NotPinned {
		return nil
	}
	return []string{"--cpu", strconv.Itoa(cpu)}
}

// Nanoseconds writes a duration as tsnperf reads it.
func Nanoseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Nanoseconds(), 10) + "ns"
}
