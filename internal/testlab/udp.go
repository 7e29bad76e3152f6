// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// Namespace is a network namespace in which functions can run.
type Namespace interface {
	Do(action func() error) error
}

// UDP4 returns two sockets: the listener on an address in one namespace, and the talker in another one, connected to
// it.
func UDP4(t testing.TB, from, to Namespace, at netip.AddrPort) (talker, listener *net.UDPConn) {
	t.Helper()
	err := to.Do(func() (err error) {
		listener, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	err = from.Do(func() (err error) {
		talker, err = net.DialUDP("udp4", nil, listener.LocalAddr().(*net.UDPAddr))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { talker.Close() })
	return talker, listener
}

// SendUDP4 sends one datagram, and returns what arrived and its source as the receiver saw it.
func SendUDP4(t testing.TB, from, to Namespace, address netip.Addr, text string) (string, netip.AddrPort) {
	t.Helper()
	talker, listener := UDP4(t, from, to, netip.AddrPortFrom(address, 0))
	if _, err := talker.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2000)
	_ = listener.SetReadDeadline(time.Now().Add(5 * time.Second))
	length, source, err := listener.ReadFromUDPAddrPort(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:length]), source
}
