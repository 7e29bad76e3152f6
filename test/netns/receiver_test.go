// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// alsoPodAddressB is a second address of pod b.
var alsoPodAddressB = topology.PodAddressB.Next()

// shapedDatagram is what ktsn-test-shapes says of itself in each datagram, and what the receiver saw.
type shapedDatagram struct {
	label string
	// txtimeTAI is 0 for a datagram without a time, port 0 when the sender did not know it.
	txtimeTAI int64
	port      uint16
	to        netip.Addr

	source      netip.AddrPort
	destination netip.Addr
	// stampTAI is the kernel's reading at the arrival; readTAI is ours, later.
	stampTAI, readTAI int64
}

// shapedReceiver takes datagrams on both addresses of pod b.
type shapedReceiver struct {
	mu        sync.Mutex
	datagrams []shapedDatagram
	err       error
}

// addAddress gives pod b its second address.
func (l *lab) addAddress(t *testing.T) {
	t.Helper()
	command := exec.Command("ip", "address", "add", alsoPodAddressB.String()+"/16", "dev", topology.PodInterface)
	if err := finish(t, start(t, l.PodB, "ip", command)); err != nil {
		t.Fatal(err)
	}
}

// listenShaped begins to receive; the test's end ends it.
func (l *lab) listenShaped(t *testing.T) *shapedReceiver {
	t.Helper()
	receiver := &shapedReceiver{}
	for _, address := range []netip.Addr{topology.PodAddressB, alsoPodAddressB} {
		conn := l.listenStamped(t, address)
		var done sync.WaitGroup
		done.Go(func() { receiver.run(conn, address) })
		t.Cleanup(func() {
			conn.Close()
			done.Wait()
		})
	}
	return receiver
}

// listenStamped makes a socket in pod b on which the kernel notes arrivals.
func (l *lab) listenStamped(t *testing.T, address netip.Addr) *net.UDPConn {
	t.Helper()
	conn := listen(t, l.PodB, "udp4", netip.AddrPortFrom(address, listenPort))
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var optionErr error
	err = raw.Control(func(fd uintptr) {
		optionErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil || optionErr != nil {
		t.Fatalf("ask for time stamps: %v, %v", err, optionErr)
	}
	return conn
}

func (r *shapedReceiver) run(conn *net.UDPConn, address netip.Addr) {
	buffer, control := make([]byte, 2000), make([]byte, 256)
	for {
		length, controlLength, _, source, err := conn.ReadMsgUDPAddrPort(buffer, control)
		if err != nil {
			return
		}
		datagram := shapedDatagram{source: source, destination: address, readTAI: clockTAI()}
		datagram.stampTAI, err = stampOf(control[:controlLength])
		if err == nil {
			err = datagram.read(string(buffer[:length]))
		}
		r.mu.Lock()
		if err != nil {
			r.err = fmt.Errorf("datagram %q: %w", buffer[:length], err)
		}
		r.datagrams = append(r.datagrams, datagram)
		r.mu.Unlock()
	}
}

// read takes what the sender says from the text of a datagram.
func (d *shapedDatagram) read(text string) error {
	var to string
	_, err := fmt.Sscan(text, &d.label, &d.txtimeTAI, &d.port, &to)
	if err == nil {
		d.to, err = netip.ParseAddr(to)
	}
	return err
}

func (r *shapedReceiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.datagrams)
}

// take waits until count datagrams have come, at most as long as allowed, and a little longer for such as
// should not come. It returns them in the order of arrival.
func (r *shapedReceiver) take(t *testing.T, count int, allowed time.Duration) []shapedDatagram {
	t.Helper()
	for deadline := time.Now().Add(allowed); r.count() < count && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		t.Error(r.err)
	}
	slices.SortStableFunc(r.datagrams, func(a, b shapedDatagram) int { return int(a.stampTAI - b.stampTAI) })
	taken := r.datagrams
	r.datagrams, r.err = nil, nil
	return taken
}

func clockTAI() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now)
	return now.Nano()
}

// stampOf reads the kernel's stamp, which is of CLOCK_REALTIME, and moves it to CLOCK_TAI.
func stampOf(control []byte) (int64, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for _, message := range messages {
		if message.Header.Type == unix.SCM_TIMESTAMPNS && len(message.Data) == 16 {
			seconds := int64(binary.NativeEndian.Uint64(message.Data))
			nanoseconds := int64(binary.NativeEndian.Uint64(message.Data[8:]))
			return seconds*int64(time.Second) + nanoseconds + taiOffset(), nil
		}
	}
	return 0, fmt.Errorf("it carries no time stamp")
}

// taiOffset is CLOCK_TAI less CLOCK_REALTIME: whole seconds.
func taiOffset() int64 {
	var realtime, tai unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &realtime)
	_ = unix.ClockGettime(unix.CLOCK_TAI, &tai)
	return time.Duration(tai.Nano() - realtime.Nano()).Round(time.Second).Nanoseconds()
}
