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
	// burst is the number of requests that are answered at once; then each answer is delayed by pause.
	burst = 32
	pause = 10 * time.Millisecond
	// again is the interval between attempts to connect to a virtual machine.
	again = time.Second
)

// Serve answers a guest until the connection ends or ctx is done. It closes the connection.
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

// paced limits the rate of reads, whatever the guest sends.
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

// ServeAt connects to the unix socket of a virtual machine's character device, as QEMU provides it, and answers the guest until ctx is
// done. It reconnects when the machine restarts.
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

// read returns a clock in nanoseconds.
func read(clock int32) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(clock, &now) // cannot fail for existing clocks
	return now.Nano()
}

// aheadOf returns the difference of two clocks, which is a whole number of seconds.
func aheadOf(value, other int32) int64 {
	return (time.Duration(read(value)-read(other)) * time.Nanosecond).Round(time.Second).Nanoseconds()
}
