// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// TestBenchEncryptedDepartures measures (make bench) when encrypted and unencrypted frames reach the other end of the
// link. One ktsnd each sends them by turns, and node b's kernel stamps them.
func TestBenchEncryptedDepartures(t *testing.T) {
	const rounds, count = 6, 1000
	for _, size := range []int{64, 1300} {
		late := map[control.Encryption][]int64{}
		for range rounds {
			for _, encryption := range []control.Encryption{control.EncryptionNone, control.EncryptionRequired} {
				late[encryption] = append(late[encryption], departuresOf(t, encryption, size, count)...)
			}
		}
		clear50, clear99 := percentiles(late[control.EncryptionNone])
		sealed50, sealed99 := percentiles(late[control.EncryptionRequired])
		fmt.Printf("%4d bytes, at the link's end after the time: clear p50 %6.2f p99 %8.1f µs, encrypted p50 %6.2f p99 %8.1f µs, p50 %.3f\n",
			size, clear50, clear99, sealed50, sealed99, sealed50/clear50)
	}
}

// departuresOf sends messages in its own lab and returns the lateness of each.
func departuresOf(t *testing.T, encryption control.Encryption, size, count int) (late []int64) {
	t.Helper()
	lab := newLab(t)
	_, client := lab.startEncrypting(t, makeAssociations(1, 1))
	must(t, client.SetNetworkEncryption(t.Context(), topology.VNI, encryption))
	wire := lab.startStamping(t)
	running := lab.startFlow(t, "--cycle", "1ms", "--lead", "5ms", "--size", strconv.Itoa(size), "--count", strconv.Itoa(count))
	awaitSent(t, client, uint64(count))
	must(t, finish(t, running.talker))
	stamps := wire()
	departures, overwritten, err := client.Departures(t.Context(), 0)
	if err != nil || overwritten != 0 || len(departures) != len(stamps) {
		t.Fatalf("%d departures, and %d frames arrived: %v", len(departures), len(stamps), err)
	}
	for i, departure := range departures {
		late = append(late, stamps[i]-departure.RequestedTAI)
	}
	return late
}

// startStamping records the kernel's stamps (CLOCK_TAI) of messages at node b. The returned function ends it.
func (l *lab) startStamping(t *testing.T) func() []int64 {
	t.Helper()
	d := &decrypter{last: map[uint32]uint32{}}
	must(t, l.NodeB.Do(d.open))
	t.Cleanup(func() { unix.Close(d.fd) })
	must(t, unix.SetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	time.Sleep(100 * time.Millisecond) // the kernel enables stamps with a delay
	return func() (stamps []int64) {
		frame, control := make([]byte, 2048), make([]byte, 128)
		for {
			n, controlBytes, _, _, err := unix.Recvmsg(d.fd, frame, control, unix.MSG_DONTWAIT)
			if err != nil {
				return stamps
			}
			if isMessage(frame[:n]) {
				stamp, err := stampOf(control[:controlBytes])
				must(t, err)
				stamps = append(stamps, stamp)
			}
		}
	}
}

// isMessage reports whether ktsnd sent a frame on the link.
func isMessage(frame []byte) bool {
	if frame[etherAt+9] == protoESP {
		return true
	}
	content := frame[etherAt+ipBytes:]
	return frame[etherAt+9] == unix.IPPROTO_UDP && len(content) > innerTypeAt+2 && binary.BigEndian.Uint16(content[2:]) == topology.VXLANPort &&
		binary.BigEndian.Uint16(content[innerTypeAt:]) == unix.ETH_P_IP
}
