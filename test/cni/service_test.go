// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// ktsnAlone runs a command of ktsn that needs no ktsnd and returns its output.
func (n *node) ktsnAlone(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := outputOf(t, n, exec.Command(program(t, "ktsn"), append(arguments, "--state-dir", filepath.Join(n.dir, "state"))...))
	must(t, err)
	return out
}

// service is a program on the node that receives datagrams.
type service struct{ *net.UDPConn }

func (n *node) serve(t *testing.T) *service { return serveIn(t, n.Namespace) }

func (p *pod) serve(t *testing.T) *service { return serveIn(t, p.Namespace) }

func serveIn(t *testing.T, where *topology.Namespace) *service {
	t.Helper()
	s := &service{}
	must(t, where.Do(func() (err error) {
		s.UDPConn, err = net.ListenUDP("udp4", &net.UDPAddr{})
		return err
	}))
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *service) port() uint16 { return uint16(s.LocalAddr().(*net.UDPAddr).Port) }

// receives reports whether a text arrives before another one, which must arrive.
func (s *service) receives(t *testing.T, text, before string) bool {
	t.Helper()
	must(t, s.SetReadDeadline(time.Now().Add(patience)))
	received, buffer := false, make([]byte, 1500)
	for {
		n, err := s.Read(buffer)
		if err != nil {
			t.Fatalf("%q has not arrived: %v", before, err)
		}
		received = received || string(buffer[:n]) == text
		if string(buffer[:n]) == before {
			return received
		}
	}
}

// sendText sends one datagram from the current thread's namespace.
func sendText(to netip.AddrPort, text string) error {
	conn, err := net.Dial("udp", to.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(text))
	return err
}

// sendBy sends a datagram over an interface that is not that of the route, and waits until it is sent or ARP has
// failed.
func sendBy(name string, to netip.Addr, port uint16, text string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			big := uint32(link.Attrs().Index)
			big = big<<24 | big>>24 | big<<8&0xff0000 | big>>8&0xff00
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_UNICAST_IF, int(int32(big)))
		})
	}}
	conn, err := dialer.DialContext(context.Background(), "udp4", netip.AddrPortFrom(to, port).String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		entries, err := netlink.NeighList(link.Attrs().Index, unix.AF_INET)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.IP.Equal(to.AsSlice()) && entry.State&netlink.NUD_INCOMPLETE == 0 {
				return nil
			}
		}
	}
	return nil
}

// knowsNeighbor reports whether the pod has resolved a hardware address on the network.
func (p *pod) knowsNeighbor(t *testing.T, address netip.Addr) bool {
	t.Helper()
	known := false
	on(t, p.Namespace, podIf, func(link netlink.Link) error {
		entries, err := netlink.NeighList(link.Attrs().Index, unix.AF_INET)
		for _, entry := range entries {
			known = known || entry.IP.Equal(address.AsSlice()) && len(entry.HardwareAddr) > 0
		}
		return err
	})
	return known
}

func (p *pod) forgetNeighbors(t *testing.T) {
	t.Helper()
	on(t, p.Namespace, podIf, func(link netlink.Link) error {
		entries, err := netlink.NeighList(link.Attrs().Index, unix.AF_INET)
		for _, entry := range entries {
			if err := netlink.NeighDel(&entry); err != nil {
				return err
			}
		}
		return err
	})
}
