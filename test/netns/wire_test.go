// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

// tap receives all frames that arrive in a pod.
func tap(t *testing.T, pod *topology.Namespace) int {
	t.Helper()
	fd := listenFrames(t, pod, unix.ETH_P_ALL)
	timeout := unix.NsecToTimeval((50 * time.Millisecond).Nanoseconds())
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	return fd
}

// headers returns the headers of datagrams. Identifications are compared only with earlier ones of the socket; a
// datagram that must not be fragmented may have any (RFC 6864).
type headers struct{ seen map[string]bool }

func (h *headers) of(frame []byte) (string, bool) {
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	udp, ok := packet.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || udp.DstPort != listenPort {
		return "", false
	}
	text := fmt.Sprintf("%q, checksum %t", udp.Payload, udp.Checksum != 0)
	ipv4, ok := packet.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	if !ok {
		return text, true
	}
	text += fmt.Sprintf(", flags %v", ipv4.Flags)
	if ipv4.Flags&layers.IPv4DontFragment == 0 {
		id := fmt.Sprint(udp.SrcPort, " ", ipv4.Id)
		text += fmt.Sprintf(", id seen before %t", h.seen[id])
		h.seen[id] = true
	}
	return text, true
}

// captureAll receives frames until the returned function is called, which returns them.
func captureAll(fd int) (came func() []string) {
	var all []string
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		headers := headers{seen: map[string]bool{}}
		buffer := make([]byte, 1<<16)
		for {
			n, err := unix.Read(fd, buffer)
			if err == nil {
				if text, ok := headers.of(buffer[:n]); ok {
					all = append(all, text)
				}
				continue
			}
			select {
			case <-stop:
				return
			default:
				if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
					return
				}
			}
		}
	}()
	return func() []string {
		time.Sleep(afterTheLast)
		close(stop)
		<-done
		return all
	}
}

// tapHeaders runs the cases and returns their output and the headers of their datagrams in pod b.
func (l *lab) tapHeaders(t *testing.T, family txtime.Family, cases, environment []string) (answers, came []string) {
	t.Helper()
	arrived := captureAll(tap(t, l.PodB))
	answers, _ = l.sendDatagrams(t, family, cases, environment)
	return answers, arrived()
}

// TestHeadersFollowSocketOptions checks that SO_NO_CHECK, UDP_NO_CHECK6_TX and IP_MTU_DISCOVER change the same headers
// as in the kernel, as soon as they are set.
func TestHeadersFollowSocketOptions(t *testing.T) {
	timing(t)
	t.Parallel()
	lab := newLabWithPass(t)
	client := lab.startDaemon6(t)
	cases := datagramCases(t, "wire-")
	for _, family := range []txtime.Family{txtime.IPv4, txtime.IPv6, txtime.Mapped} {
		t.Run(txtime.Case{Name: "headers", Family: family}.ID(), func(t *testing.T) {
			for _, complaint := range testlab.Undisturbed(t, testlab.Stopped, func() []string {
				wantSaid, want := lab.tapHeaders(t, family, cases, nil)
				gotSaid, got := lab.tapHeaders(t, family, cases, lab.preloaded(t))
				if len(want) < 2*len(cases) {
					t.Fatalf("the tap saw %d of the kernel's datagrams", len(want))
				}
				return append(differences("said", gotSaid, wantSaid), differences("datagram", got, want)...)
			}) {
				t.Error(complaint)
			}
		})
	}
	if now := awaitSettled(t, client); now.Sent < 100 {
		t.Errorf("ktsnd has sent %d messages", now.Sent)
	}
}
