// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// arrived identifies a message by sender, number and time.
type arrived struct {
	from    netip.AddrPort
	message tsnperf.Message
}

// counter is a socket in pod b that counts received messages.
type counter struct {
	conn *net.UDPConn

	lock sync.Mutex
	// messages counts the receptions of each message of tsnperf.
	messages map[arrived]int
}

func (l *lab) startCounter(t *testing.T) *counter {
	t.Helper()
	started := &counter{conn: listen(t, l.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, hostilePort)), messages: map[arrived]int{}}
	raw, err := started.conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 16<<20)
		})
	}
	must(t, err)
	t.Cleanup(func() { started.conn.Close() })
	go started.run()
	return started
}

func (c *counter) run() {
	buffer := make([]byte, 2048)
	for {
		length, from, err := c.conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		message, err := tsnperf.DecodeMessage(buffer[:length])
		c.lock.Lock()
		if err == nil {
			c.messages[arrived{from, message}]++
		}
		c.lock.Unlock()
	}
}

// since returns the number of different messages due at a time or later, and of duplicates.
func (c *counter) since(tai int64) (different, again int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for arrival, times := range c.messages {
		if arrival.message.Txtime >= tai {
			different++
			again += times - 1
		}
	}
	return different, again
}

// awaitArrivals waits until count different messages have arrived, and a little longer.
func (c *counter) awaitArrivals(t *testing.T, count int) {
	t.Helper()
	c.awaitSince(t, math.MinInt64, count)
}

// awaitSince is awaitArrivals for messages due at a time or later.
func (c *counter) awaitSince(t *testing.T, tai int64, count int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if different, _ := c.since(tai); different >= count {
			break
		}
	}
	time.Sleep(50 * time.Millisecond)
	different, again := c.since(tai)
	if different != count {
		t.Errorf("%d messages arrived, want %d", different, count)
	}
	if again != 0 {
		t.Errorf("%d messages arrived again", again)
	}
}
