// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// burst requests are answered at once; a guest that goes on asking gets an answer each pause.
	burst = 32
	pause = 10 * time.Millisecond
	// again is when to look for a virtual machine that is not there.
	again = time.Second
)

// Serve answers a guest until the connection or ctx ends, which closes the connection.
func Serve(ctx context.Context, connection io.ReadWriteCloser, limit time.Duration) error {
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	from := stream{bufio.NewReader(&paced{Reader: connection, since: time.Now()})}
	for asked, since := 0, time.Now(); ; asked++ {
		var request Request
		if err := from.next(requestMagic, &request); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		reply := Reply{Magic: replyMagic, Number: request.Number, ReceivedTAI: read(unix.CLOCK_TAI), DriftPPB: clockDrift(), LimitNs: limit.Nanoseconds()}
		reply.AheadOfUTC = aheadOf(unix.CLOCK_TAI, unix.CLOCK_REALTIME)
		reply.RepliedTAI = read(unix.CLOCK_TAI)
		if err := write(connection, &reply); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		switch {
		case time.Since(since) > burst*pause:
			asked, since = 0, time.Now()
		case asked >= burst:
			time.Sleep(pause)
		}
	}
}

// paced makes a guest wait that sends without end, whatever it sends.
type paced struct {
	io.Reader
	reads int
	since time.Time
}

func (p *paced) Read(into []byte) (int, error) {
	switch {
	case time.Since(p.since) > burst*pause:
		p.reads, p.since = 0, time.Now()
	case p.reads >= burst:
		time.Sleep(pause)
	}
	p.reads++
	return p.Reader.Read(into)
}

// ServeAt answers the guest whose virtual machine listens at a unix socket, as QEMU does for a character device, until ctx ends.
// The machine may come and go.
func ServeAt(ctx context.Context, socket string, limit time.Duration, log *slog.Logger) error {
	absent := false
	for ctx.Err() == nil {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			log.Info("the virtual machine is there", "socket", socket)
			err = Serve(ctx, connection, limit)
			log.Info("the virtual machine has gone", "socket", socket, "error", err)
		} else if !absent {
			log.Info("waiting for the virtual machine", "socket", socket, "error", err)
		}
		absent = true
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
	return nil
}

// read is a clock in nanoseconds.
func read(clock int32) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(clock, &now) // no error for clocks that there are
	return now.Nano()
}

// aheadOf is one clock less another, both set in whole seconds apart.
func aheadOf(value, other int32) int64 {
	return (time.Duration(read(value)-read(other)) * time.Nanosecond).Round(time.Second).Nanoseconds()
}
