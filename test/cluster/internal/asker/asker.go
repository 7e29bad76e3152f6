// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Asker sends one numbered request after the other, without waiting for answers.
type Asker struct {
	// Name is the server. Asker looks it up in the file Hosts before each request.
	Name, Hosts string
	Port        uint16
	// IPv6 selects the name's IPv6 address.
	IPv6  bool
	Cycle time.Duration
	// Patience is how long Asker waits for an answer.
	Patience time.Duration

	mu      sync.Mutex
	pending map[uint64]Row
}

// Run sends requests until ctx ends. It writes a row for each once it is answered or lost.
func (a *Asker) Run(ctx context.Context, out io.Writer) error {
	network := "udp4"
	if a.IPv6 {
		network = "udp6"
	}
	socket, err := net.ListenUDP(network, nil)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer socket.Close()
	a.pending = map[uint64]Row{}
	var hearing sync.WaitGroup
	hearing.Go(func() { a.hear(socket, out) })
	ticks := time.NewTicker(a.Cycle)
	defer ticks.Stop()
	for number := uint64(1); ; number++ {
		select {
		case <-ctx.Done():
			socket.Close()
			hearing.Wait()
			return a.lose(out, time.Now())
		case <-ticks.C:
		}
		a.ask(socket, number)
		if err := a.lose(out, time.Now().Add(-a.Patience)); err != nil {
			return err
		}
	}
}

// ask sends a request. A request that cannot be sent is lost.
func (a *Asker) ask(socket *net.UDPConn, number uint64) {
	row := Row{Number: number, Sent: time.Now()}
	to, known := lookUp(a.Hosts, a.Name, !a.IPv6)
	row.Peer = to
	a.mu.Lock()
	a.pending[number] = row
	a.mu.Unlock()
	if known {
		// Ignore the error: it may be about an earlier request. Lost requests are found by their missing answers.
		_, _ = socket.WriteToUDPAddrPort([]byte("echo "+strconv.FormatUint(number, 10)), netip.AddrPortFrom(to, a.Port))
	}
}

// hear notes answers until the socket is closed.
func (a *Asker) hear(socket *net.UDPConn, out io.Writer) {
	buffer := make([]byte, 256)
	for {
		length, err := socket.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		now := time.Now()
		number, err := strconv.ParseUint(strings.TrimSpace(string(buffer[:length])), 10, 64)
		if err != nil {
			continue
		}
		a.mu.Lock()
		if row, waited := a.pending[number]; waited {
			delete(a.pending, number)
			row.Answered = now
			_ = row.write(out) // who asks notices it as well
		}
		a.mu.Unlock()
	}
}

// lose writes rows for unanswered requests that were sent before a time.
func (a *Asker) lose(out io.Writer, before time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for number, row := range a.pending {
		if row.Sent.Before(before) {
			delete(a.pending, number)
			if err := row.write(out); err != nil {
				return err
			}
		}
	}
	return nil
}
