// SPDX-License-Identifier: Apache-2.0

// ktsn-test-talker sends what `tsnperf talker` sends, as a static program of Go: its system calls pass every preloaded library.
// Its options are those of tsnperf that tests need; tsnperf's listener reads its messages, and its records are those of a talker.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

var clocks = map[string]int32{"monotonic": unix.CLOCK_MONOTONIC, "realtime": unix.CLOCK_REALTIME, "tai": unix.CLOCK_TAI}

// options describe the messages and their times.
type options struct {
	to, bind netip.AddrPort
	clock    string
	count    int
	size     int
	priority int
	runID    uint
	cpu      int
	// cycle and offset define the transmit times. A message is handed over lead before its time.
	cycle, lead, offset time.Duration
	csv                 string
}

func main() {
	var o options
	flag.TextVar(&o.to, "to", netip.AddrPort{}, "`address` to send to")
	flag.TextVar(&o.bind, "bind", netip.AddrPort{}, "`address` to send from")
	flag.StringVar(&o.clock, "clock", "tai", "of the transmit times: tai, monotonic or realtime")
	flag.IntVar(&o.count, "count", 1000, "messages")
	flag.IntVar(&o.size, "size", 64, "bytes of a message")
	flag.IntVar(&o.priority, "priority", 0, "of the socket")
	flag.IntVar(&o.cpu, "cpu", -1, "processor to run on")
	flag.UintVar(&o.runID, "run-id", 1, "number in each message")
	flag.DurationVar(&o.cycle, "cycle", time.Millisecond, "between two transmit times")
	flag.DurationVar(&o.lead, "lead", 2500*time.Microsecond, "from the send call to the transmit time")
	flag.DurationVar(&o.offset, "offset", 0, "of the transmit times in a cycle")
	flag.StringVar(&o.csv, "csv", "", "`file` for what became of the messages")
	flag.Bool("quiet", true, "say nothing (there is nothing to say)")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "ktsn-test-talker:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	clock, known := clocks[o.clock]
	if !known {
		return fmt.Errorf("--clock %s is none of tai, monotonic, realtime", o.clock)
	}
	if o.size < tsnperf.MinPayload {
		return fmt.Errorf("--size of %d bytes; a message has %d at least", o.size, tsnperf.MinPayload)
	}
	runtime.LockOSThread()
	if o.cpu >= 0 {
		var set unix.CPUSet
		set.Set(o.cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("run on processor %d: %w", o.cpu, err)
		}
	}
	fd, err := open(o, clock)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	sent := talk(o, fd, clock)
	if o.csv == "" {
		return nil
	}
	file, err := os.Create(o.csv)
	if err != nil {
		return err
	}
	if err := tsnperf.WriteTalker(file, sent); err != nil {
		return err
	}
	return file.Close()
}

// open returns a connected socket with transmit times.
func open(o *options, clock int32) (int, error) {
	family := unix.AF_INET
	if o.to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a socket: %w", err)
	}
	if err := testlab.EnableTxtime(fd, clock); err != nil {
		return -1, fmt.Errorf("ask for transmit times of CLOCK_%s: %w", o.clock, err)
	}
	if o.priority != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, o.priority); err != nil {
			return -1, fmt.Errorf("set priority %d: %w", o.priority, err)
		}
	}
	if o.bind.IsValid() {
		if err := unix.Bind(fd, sockaddr(o.bind)); err != nil {
			return -1, fmt.Errorf("bind to %s: %w", o.bind, err)
		}
	}
	if err := unix.Connect(fd, sockaddr(o.to)); err != nil {
		return -1, fmt.Errorf("connect to %s: %w", o.to, err)
	}
	return fd, nil
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
	}
	return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
}

// talk sends until all messages are sent or a signal ends it.
func talk(o *options, fd int, clock int32) []tsnperf.Sent {
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGINT, unix.SIGTERM)
	first := testlab.ClockNow(clock) + o.lead.Nanoseconds() + 10*time.Millisecond.Nanoseconds()
	cycle := o.cycle.Nanoseconds()
	first += cycle - first%cycle + o.offset.Nanoseconds()
	var sent []tsnperf.Sent
	payload := make([]byte, o.size)
	for i := range o.count {
		message := tsnperf.Sent{Sequence: uint32(i), Txtime: first + int64(i)*cycle}
		sleepUntil(clock, message.Txtime-o.lead.Nanoseconds())
		select {
		case <-end:
			return sent
		default:
		}
		message.Wakeup = testlab.ClockNow(clock)
		tsnperf.EncodeMessage(payload, &tsnperf.Message{Clock: uint8(clock), RunID: uint32(o.runID), Sequence: message.Sequence,
			Txtime: message.Txtime, PayloadBytes: uint32(o.size)})
		message.SendStart = testlab.ClockNow(clock)
		message.Errno = int(send(fd, payload, message.Txtime))
		message.SendEnd = testlab.ClockNow(clock)
		sent = append(sent, message)
	}
	return sent
}

func send(fd int, payload []byte, at int64) unix.Errno {
	_, err := unix.SendmsgN(fd, payload, testlab.TxtimeMessage(at), nil, 0)
	var errno unix.Errno
	errors.As(err, &errno)
	return errno
}

func sleepUntil(clock int32, at int64) {
	until := unix.NsecToTimespec(at)
	for unix.ClockNanosleep(clock, unix.TIMER_ABSTIME, &until, nil) == unix.EINTR {
	}
}
