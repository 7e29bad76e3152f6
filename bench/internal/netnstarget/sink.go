// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// sink is a UDP socket that discards everything on arrival: without it each unwanted message would cause an ICMP
// answer.
type sink struct {
	socket  *net.UDPConn
	address netip.AddrPort
}

func openSink(where *topology.Namespace, address netip.Addr) (*sink, error) {
	var socket *net.UDPConn
	err := where.Do(func() (err error) {
		socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a socket for the messages beside: %w", err)
	}
	if err := discardAll(socket); err != nil {
		return nil, errors.Join(fmt.Errorf("discard the messages beside: %w", err), socket.Close())
	}
	return &sink{socket, socket.LocalAddr().(*net.UDPAddr).AddrPort()}, nil
}

// discardAll attaches a filter that accepts nothing.
func discardAll(socket syscall.Conn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program)
	})
	return errors.Join(err, refused)
}

func (s *sink) close() {
	_ = s.socket.Close() // nothing was written to it
}
