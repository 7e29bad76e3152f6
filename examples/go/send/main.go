// SPDX-License-Identifier: Apache-2.0

// Send sends a UDP datagram in each cycle: send ADDRESS PORT COUNT [CYCLE].
//
// Go programs make system calls themselves, so libktsn.so does not see them. The kernel grants them CLOCK_MONOTONIC
// without privileges; the node captures their datagrams and sends them at their times. A datagram is "KTSN", its number
// (32 bits), and its transmit time in ns of CLOCK_TAI (64 bits), big-endian, as of examples/c.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lead     = time.Millisecond // hand a datagram over this long before its time
	priority = 6                // chooses the traffic class; the highest that needs no privilege
)

func now(clock int32) int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		log.Fatalf("read clock %d: %v", clock, err)
	}
	return now.Nano()
}

// taiMinusMonotonic returns the largest of ten differences: an interruption between the two readings makes it smaller.
func taiMinusMonotonic() int64 {
	offset := int64(math.MinInt64)
	for range 10 {
		tai := now(unix.CLOCK_TAI)
		offset = max(offset, tai-now(unix.CLOCK_MONOTONIC))
	}
	return offset
}

// passes reports whether a later attempt can succeed.
func passes(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) ||
		errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) ||
		errors.Is(err, unix.ECONNREFUSED)
}

// setOptions asks for transmit times, and sets the priority.
func setOptions(_, _ string, connection syscall.RawConn) error {
	txtime := make([]byte, 8) // struct sock_txtime: clock, flags
	binary.NativeEndian.PutUint32(txtime, unix.CLOCK_MONOTONIC)
	var failed error
	if err := connection.Control(func(fd uintptr) {
		failed = errors.Join(unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_TXTIME, string(txtime)),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, priority))
	}); err != nil {
		return err
	}
	return failed
}

// connect waits until the peer has a name and a route leads to it.
func connect(peer string) *net.UDPConn {
	dialer := net.Dialer{Control: setOptions}
	for {
		connection, err := dialer.Dial("udp", peer)
		if err == nil {
			return connection.(*net.UDPConn)
		}
		if !passes(err) {
			log.Fatal(err)
		}
		log.Printf("%v; trying again", err)
		time.Sleep(time.Second)
	}
}

// control returns the control message SCM_TXTIME.
func control(txtime int64) []byte {
	message := make([]byte, unix.CmsgSpace(8))
	binary.NativeEndian.PutUint64(message, uint64(unix.CmsgLen(8))) // struct cmsghdr of 64 bits
	binary.NativeEndian.PutUint32(message[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(message[12:], unix.SCM_TXTIME)
	binary.NativeEndian.PutUint64(message[unix.CmsgLen(0):], uint64(txtime))
	return message
}

// send does not wait: a full send buffer costs this datagram, and not the following cycles as well. With a write deadline,
// the net package would also drop datagrams that the process cannot hand over before it, because it gets no CPU.
func send(connection *net.UDPConn, payload, ancillary []byte) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = unix.Sendmsg(int(fd), payload, ancillary, nil, unix.MSG_DONTWAIT)
		return true // do not try again
	})
	return errors.Join(err, failed)
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: send ADDRESS PORT COUNT [CYCLE]")
	}
	count, err := strconv.Atoi(os.Args[3])
	cycle := time.Millisecond
	if err == nil && len(os.Args) > 4 {
		cycle, err = time.ParseDuration(os.Args[4])
	}
	if err != nil || cycle <= 0 {
		log.Fatalf("COUNT or CYCLE is invalid: %v", err)
	}
	connection := connect(net.JoinHostPort(os.Args[1], os.Args[2]))
	var unsent, late int
	// Whole cycles of CLOCK_TAI, as the windows of a schedule.
	at := ((now(unix.CLOCK_TAI)+int64(lead))/int64(cycle) + 1) * int64(cycle)
	for number := range count {
		payload := binary.BigEndian.AppendUint32([]byte("KTSN"), uint32(number))
		payload = binary.BigEndian.AppendUint64(payload, uint64(at))
		time.Sleep(time.Duration(at - int64(lead) - now(unix.CLOCK_TAI)))
		err := send(connection, payload, control(at-taiMinusMonotonic()))
		switch {
		case err == nil && now(unix.CLOCK_TAI) > at:
			late++
		case err != nil && !passes(err):
			log.Fatal(err)
		case err != nil:
			log.Printf("datagram %d was not sent: %v", number, err)
			unsent++
		}
		at += int64(cycle)
	}
	fmt.Printf("%d datagrams: %d not sent, %d handed over after their time\n", count, unsent, late)
	if err := connection.Close(); err != nil || unsent > 0 {
		os.Exit(1)
	}
}
