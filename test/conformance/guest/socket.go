// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

const (
	port = 7788
	// sendBytes suffice for all messages that wait at a time.
	sendBytes = 64 << 20

	// struct sock_txtime and its flags, linux/net_tstamp.h.
	txtimeDeadlineMode = 1
	txtimeReportErrors = 2

	// linux/errqueue.h.
	originTxTime    = 6
	codeInvalid     = 1
	codeMissed      = 2
	extendedErrSize = 16
)

var (
	source      = [4]byte{192, 0, 2, 1}
	destination = [4]byte{192, 0, 2, 2}
)

// sender is an ordinary application's socket.
type sender struct {
	fd    int
	timed bool
}

func openSender(what *scenario.Scenario) (*sender, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	opened := &sender{fd, what.Timed()}
	// With IP_RECVERR the kernel reports messages that the qdisc drops.
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBytes),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1))
	if opened.timed {
		err = errors.Join(err, opened.setTxTime(what.Strategy == scenario.ETFDeadline))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare socket: %w", err), unix.Close(fd))
	}
	return opened, nil
}

func (s *sender) close() error { return unix.Close(s.fd) }

func (s *sender) setTxTime(deadline bool) error {
	option := make([]byte, 8)
	binary.NativeEndian.PutUint32(option, unix.CLOCK_TAI)
	flags := uint32(txtimeReportErrors)
	if deadline {
		flags |= txtimeDeadlineMode
	}
	binary.NativeEndian.PutUint32(option[4:], flags)
	return unix.SetsockoptString(s.fd, unix.SOL_SOCKET, unix.SO_TXTIME, string(option))
}

// send sends a message. refused reports whether the qdisc dropped it at once.
func (s *sender) send(message scenario.Message, start int64) (refused bool, err error) {
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_PRIORITY, message.Priority); err != nil {
		return false, fmt.Errorf("set SO_PRIORITY: %w", err)
	}
	payload := make([]byte, message.PayloadBytes)
	binary.BigEndian.PutUint32(payload, message.ID)
	var control []byte
	if s.timed {
		control = txtimeControl(start + *message.TransmitTime)
	}
	err = unix.Sendmsg(s.fd, payload, control, &unix.SockaddrInet4{Port: port, Addr: destination}, 0)
	if errors.Is(err, unix.ENOBUFS) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("send message %d: %w", message.ID, err)
	}
	return false, nil
}

// txtimeControl returns a control message with SCM_TXTIME.
func txtimeControl(taiNanoseconds int64) []byte {
	control := make([]byte, unix.CmsgSpace(8))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	header.Level, header.Type = unix.SOL_SOCKET, unix.SCM_TXTIME
	header.SetLen(unix.CmsgLen(8))
	binary.NativeEndian.PutUint64(control[unix.CmsgLen(0):], uint64(taiNanoseconds))
	return control
}

// reported reads the error queue.
func (s *sender) reported() ([]scenario.Reported, error) {
	reported := []scenario.Reported{}
	for {
		packet, control := make([]byte, headBytes), make([]byte, 512)
		n, controlBytes, _, _, err := unix.Recvmsg(s.fd, packet, control, unix.MSG_ERRQUEUE)
		if errors.Is(err, unix.EAGAIN) {
			return reported, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read error queue: %w", err)
		}
		reason, err := reasonOf(control[:controlBytes])
		if err != nil {
			return nil, fmt.Errorf("read error queue: %w", err)
		}
		id, err := messageID(packet[:n])
		if err != nil {
			return nil, fmt.Errorf("read error queue: %w", err)
		}
		reported = append(reported, scenario.Reported{ID: id, Reason: reason})
	}
}

// reasonOf reads a struct sock_extended_err.
func reasonOf(control []byte) (scenario.Reason, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return "", err
	}
	for _, message := range messages {
		const originAt, codeAt = 4, 6
		if message.Header.Type != unix.IP_RECVERR || len(message.Data) < extendedErrSize ||
			message.Data[originAt] != originTxTime {
			continue
		}
		switch message.Data[codeAt] {
		case codeMissed:
			return scenario.Missed, nil
		case codeInvalid:
			return scenario.TxTime, nil
		}
	}
	return "", fmt.Errorf("no reason that we know: % x", control)
}
