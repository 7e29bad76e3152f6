// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
)

const (
	// ListenPort is the listener's port.
	ListenPort = 7788
	// talkerPort is the source port of the first of several talkers; the others follow.
	talkerPort = 7800
	// RunGrace is how much longer than its messages a run may take before it counts as stuck.
	RunGrace = 30 * time.Second
	// GuestGrace is added for a run in virtual machines on a busy host.
	GuestGrace = time.Minute
	// idleTimeout ends the listener when messages are missing.
	idleTimeout = 2 * time.Second
	// firstTimeout ends it when none arrived at all.
	firstTimeout = 10 * time.Second
	// companionSlack is how much longer than the measured messages a companion may have to send.
	guestIdleTimeout  = 5 * time.Second
	guestFirstTimeout = 20 * time.Second
	// guestStart is the time from the start of a talker in a virtual machine to its first message.
	guestStart     = time.Second
	companionSlack = 2 * time.Second
	// endlessFlood is more messages than any run needs: floods are ended by a signal.
	endlessFlood = 10_000_000
	// framesPerMillisecond is more than one processor can send.
	framesPerMillisecond = 300
)

// NotPinned is the value for a processor that was not chosen.
const NotPinned = -1

// Talkers are the talkers of a run, distinguished from each other and from other runs; next numbers the first.
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

// MeasuredTalker returns the arguments of a measured talker.
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

// GuestTalker returns additional arguments of a talker in a virtual machine.
func GuestTalker() []string { return []string{"--start", "+" + Nanoseconds(guestStart)} }

// GuestListener returns the arguments of the listener in a virtual machine. It sleeps, because it shares its processors
// with the talker's host.
func GuestListener(r engine.Run, runID uint32, at netip.Addr) []string {
	return []string{"listener", "--block", "--bind", netip.AddrPortFrom(at, ListenPort).String(), "--count", strconv.Itoa(r.Messages),
		"--run-id", strconv.FormatUint(uint64(runID), 10), "--idle-timeout", Nanoseconds(guestIdleTimeout),
		"--first-timeout", Nanoseconds(guestFirstTimeout)}
}

// Spin returns the arguments of a talker that busy-waits before each send, with a SCHED_FIFO priority; 0: ordinary
// scheduling.
func Spin(spin time.Duration, fifo int) []string {
	arguments := []string{"--spin", Nanoseconds(spin)}
	if fifo > 0 {
		arguments = append(arguments, "--fifo", strconv.Itoa(fifo))
	}
	return arguments
}

// Listener returns the arguments of the listener of a run.
func Listener(r engine.Run, talkers []Talker, at netip.Addr, cpu int) []string {
	arguments := []string{"listener", "--poll", "--quiet",
		"--bind", netip.AddrPortFrom(at, ListenPort).String(),
		"--count", strconv.Itoa(r.Messages * r.Talkers),
		"--idle-timeout", Nanoseconds(idleTimeout), "--first-timeout", Nanoseconds(firstTimeout)}
	if len(talkers) == 1 { // several are distinguished by their ports
		arguments = append(arguments, "--run-id", strconv.FormatUint(uint64(talkers[0].RunID), 10))
	}
	return append(arguments, CPU(cpu)...)
}

// CompanionTalker returns the arguments of a companion.
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

// Records returns the arguments for the run ID of a talker's messages and its output.
func Records(runID uint32, file string) []string {
	return []string{"--run-id", strconv.FormatUint(uint64(runID), 10), "--csv", file}
}

// messages is the number of a companion's messages; it is stopped before.
func (c *Companion) messages(r engine.Run) int {
	if c.Flood {
		return endlessFlood
	}
	return int((r.Duration()+companionSlack)/c.Cycle) + 1
}

// MostFrames is the largest number of its frames on the link during a run.
func (c *Companion) MostFrames(r engine.Run) int {
	if c.Flood {
		return int((r.Duration()+companionSlack)/time.Millisecond) * framesPerMillisecond
	}
	return c.messages(r)
}

// CPU returns the arguments that pin a program.
func CPU(cpu int) []string {
	if cpu == NotPinned {
		return nil
	}
	return []string{"--cpu", strconv.Itoa(cpu)}
}

// Nanoseconds formats a duration for tsnperf.
func Nanoseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Nanoseconds(), 10) + "ns"
}
