// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// markBytes is the size of the word, the number and the transmit time, as datapath/tests/programs/captured writes them.
const markBytes = 16

// plan contains the options of send.
type plan struct {
	to           netip.AddrPort
	count, bytes int
	cycle, lead  time.Duration
	offset       time.Duration
	priority     int
	clock        int32
	device       string
	silent       bool
}

func (p *plan) parse(arguments []string) error {
	flags := flag.NewFlagSet("send", flag.ExitOnError)
	to := flags.String("to", "", "address and port")
	flags.IntVar(&p.count, "count", 1, "datagrams")
	flags.IntVar(&p.bytes, "bytes", markBytes, "of payload")
	flags.DurationVar(&p.cycle, "cycle", 10*time.Millisecond, "from one transmit time to the next")
	flags.DurationVar(&p.lead, "lead", 100*time.Millisecond, "from handing over to the transmit time")
	flags.DurationVar(&p.offset, "offset", 0, "of the transmit times in the cycle")
	flags.IntVar(&p.priority, "priority", 0, "of the socket")
	flags.StringVar(&p.device, "device", "", "bind the socket to it")
	flags.BoolVar(&p.silent, "untimed", false, "ask for no transmit times, but send at them")
	clock := flags.String("clock", "tai", "tai, monotonic or realtime")
	_ = flags.Parse(arguments) // it ends the program
	var known bool
	if p.clock, known = map[string]int32{"tai": unix.CLOCK_TAI, "monotonic": unix.CLOCK_MONOTONIC, "realtime": unix.CLOCK_REALTIME}[*clock]; !known {
		return fmt.Errorf("no clock is called %q", *clock)
	}
	var err error
	p.to, err = netip.ParseAddrPort(*to)
	return err
}

// send sends datagrams with their number and transmit time periodically, each a lead before its time.
func send(arguments []string) error {
	var p plan
	if err := p.parse(arguments); err != nil {
		return err
	}
	fd, err := p.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	cycle := p.cycle.Nanoseconds()
	first := (testlab.ClockNow(p.clock)+p.lead.Nanoseconds())/cycle*cycle + 2*cycle + p.offset.Nanoseconds()
	for number := range p.count {
		at := first + int64(number)*cycle
		if err := p.sendOne(fd, number, at); err != nil {
			return fmt.Errorf("message %d: %w", number, err)
		}
	}
	return nil
}

func (p *plan) open() (int, error) {
	family := unix.AF_INET
	if p.to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if p.device != "" {
		err = unix.BindToDevice(fd, p.device)
	}
	if err == nil && p.priority > 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, p.priority)
	}
	if err == nil && !p.silent {
		err = testlab.EnableTxtime(fd, p.clock)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func (p *plan) sendOne(fd, number int, at int64) error {
	if wait := at - p.lead.Nanoseconds() - testlab.ClockNow(p.clock); wait > 0 {
		time.Sleep(time.Duration(wait))
	}
	payload := make([]byte, max(p.bytes, markBytes))
	copy(payload, "KTSN")
	binary.BigEndian.PutUint32(payload[4:], uint32(number))
	binary.BigEndian.PutUint64(payload[8:], uint64(at))
	var control []byte
	if !p.silent {
		control = testlab.TxtimeMessage(at)
	}
	_, err := unix.SendmsgN(fd, payload, control, p.address(), 0)
	return err
}

func (p *plan) address() unix.Sockaddr {
	port := int(p.to.Port())
	if p.to.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: p.to.Addr().As4(), Port: port}
	}
	return &unix.SockaddrInet6{Addr: p.to.Addr().As16(), Port: port}
}
