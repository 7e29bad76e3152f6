// SPDX-License-Identifier: Apache-2.0

// Package wanlink delays frames between two interfaces of a network namespace, as a long line does: each frame is sent
// after the delay, in order. It replaces sch_netem, which not all kernels have. Frames that arrive while one of the
// interfaces is down are lost.
package wanlink

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

const (
	// maxFrame is the largest Ethernet frame; no segments are joined, because offloads are off.
	maxFrame = 9216
	// inFlight is the number of frames on the line in each direction; more are lost. It is 20 ms of 1.2 Gbit/s in
	// frames of 1500 bytes.
	inFlight = 2000
)

type frame struct {
	leaves time.Time
	bytes  []byte
}

// Run connects two interfaces of a network namespace until one of their sockets fails. It calls ready once frames are
// taken.
func Run(namespace, first, second string, delay time.Duration, ready func()) error {
	var sockets [2]int
	err := ns.WithNetNSPath(namespace, func(ns.NetNS) (err error) {
		if sockets[0], err = open(first); err != nil {
			return err
		}
		sockets[1], err = open(second)
		return err
	})
	if err != nil {
		return err // the program ends, and what is open with it
	}
	ready()
	failed := make(chan error, len(sockets))
	go func() { failed <- carry(sockets[0], sockets[1], delay) }()
	go func() { failed <- carry(sockets[1], sockets[0], delay) }()
	return fmt.Errorf("carry frames between %s and %s: %w", first, second, <-failed)
}

// open returns a socket for all frames that an interface receives, but none that it sends.
func open(name string) (int, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	const protocol = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network byte order
	// No protocol until the socket is bound, so that it gets no frames of other interfaces.
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	err = unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	if err == nil {
		err = unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Index})
	}
	if err != nil {
		unix.Close(socket)
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	return socket, nil
}

// carry sends the frames from one socket to the other, after the delay.
func carry(from, to int, delay time.Duration) error {
	line := make(chan frame, inFlight)
	defer close(line)
	go func() {
		for f := range line {
			time.Sleep(time.Until(f.leaves))
			_, _ = unix.Write(to, f.bytes) // fails while the interface is down: the frame is lost
		}
	}()
	for {
		bytes := make([]byte, maxFrame)
		size, err := unix.Read(from, bytes)
		if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EINTR) {
			continue // it waits for the next frame, when the interface is up again
		}
		if err != nil {
			return err
		}
		select {
		case line <- frame{time.Now().Add(delay), bytes[:size]}:
		default: // as at a full queue, it is lost
		}
	}
}
