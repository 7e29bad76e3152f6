// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

const (
	// headBytes of a frame contain everything of interest: its headers and the number at the beginning of the message.
	headBytes = 96
	// idAt is the offset of the message's number in a frame: after Ethernet, IPv4 and UDP.
	idAt = 14 + 20 + 8
	// captureBytes suffice for all frames of a scenario, which are up to 64 KiB long.
	captureBytes = 256 << 20
)

// capture captures the frames that leave a device, in the order in which the qdisc passes them to it.
//
// The priority code point of a tagged frame would be in the tag at offset 14.
type capture struct {
	fd int
}

func openCapture() (*capture, error) {
	link, err := net.InterfaceByName(deviceName)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("capture: open socket: %w", err)
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBytes),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bits.ReverseBytes16(unix.ETH_P_ALL), Ifindex: link.Index}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture: %w", err), unix.Close(fd))
	}
	return &capture{fd}, nil
}

func (c *capture) close() error { return unix.Close(c.fd) }

// departures returns the frames so far. Every frame is a message; anything else is an error.
func (c *capture) departures(start int64) ([]scenario.Departure, error) {
	departures := []scenario.Departure{}
	for {
		frame, at, err := c.read()
		if errors.Is(err, unix.EAGAIN) {
			return departures, c.complete()
		}
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		id, err := messageID(frame)
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		departures = append(departures, scenario.Departure{ID: id, At: at - start})
	}
}

// read returns the beginning of a frame and the time at which it left, in nanoseconds of CLOCK_TAI.
func (c *capture) read() ([]byte, int64, error) {
	frame, control := make([]byte, headBytes), make([]byte, 128)
	n, controlBytes, _, _, err := unix.Recvmsg(c.fd, frame, control, 0)
	if err != nil {
		return nil, 0, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:controlBytes])
	if err != nil {
		return nil, 0, err
	}
	for _, message := range messages {
		if message.Header.Level == unix.SOL_SOCKET && message.Header.Type == unix.SCM_TIMESTAMPNS &&
			len(message.Data) >= 16 {
			at := time.Unix(int64(binary.NativeEndian.Uint64(message.Data)),
				int64(binary.NativeEndian.Uint64(message.Data[8:])))
			return frame[:n], at.UnixNano() + taiOffset, nil
		}
	}
	return nil, 0, errors.New("a frame has no time stamp")
}

// complete fails if frames were lost.
func (c *capture) complete() error {
	statistics, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return fmt.Errorf("capture: read statistics: %w", err)
	}
	if statistics.Drops > 0 {
		return fmt.Errorf("capture: %d frames were lost", statistics.Drops)
	}
	return nil
}

// messageID returns the number of the message in a frame.
func messageID(frame []byte) (uint32, error) {
	if len(frame) < idAt+4 || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP || frame[23] != unix.IPPROTO_UDP ||
		binary.BigEndian.Uint16(frame[36:]) != port {
		return 0, fmt.Errorf("a frame that is no message of ours: % x", frame)
	}
	return binary.BigEndian.Uint32(frame[idAt:]), nil
}
