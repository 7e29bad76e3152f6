// SPDX-License-Identifier: Apache-2.0

// Package chrony asks chronyd how far its clock is from true time, as `chronyc tracking` does.
package chrony

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/facebook/time/ntp/chrony"
	"golang.org/x/sys/unix"
)

// Tracking is what chronyd says of its clock.
type Tracking struct {
	// Synchronized tells whether it has a source; Reference names it.
	Synchronized bool
	Reference    string
	// Offset is the last correction that is still being made, or was found by the last measurement, whichever is larger.
	Offset time.Duration
	// RootDelay and RootDispersion are to and at the source of all time, now.
	RootDelay, RootDispersion time.Duration
	// SkewPPB is the error of the rate; Updated when the source was last heard, in the time of CLOCK_REALTIME.
	SkewPPB int64
	Updated time.Time
}

// patience is how long an answer may take. chronyd answers at once.
const patience = 300 * time.Millisecond

// leapUnsynchronized is the leap status of a chronyd without a source.
const leapUnsynchronized = 3

// Ask asks the chronyd at address: the path of its socket, or host:port of its command port.
func Ask(ctx context.Context, address string) (tracking *Tracking, err error) {
	connection, remove, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer remove()
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("ask chronyd: %w", err)
	}
	defer func() {
		if caught := recover(); caught != nil {
			tracking, err = nil, fmt.Errorf("undecodable answer of chronyd at %s: %v", address, caught)
		}
	}()
	client := chrony.Client{Connection: connection, Sequence: uint32(os.Getpid())} //nolint:gosec // any number does
	answer, err := client.Communicate(chrony.NewTrackingPacket())
	if err != nil {
		return nil, fmt.Errorf("ask chronyd at %s: %w", address, err)
	}
	reply, isTracking := answer.(*chrony.ReplyTracking)
	if !isTracking {
		return nil, fmt.Errorf("chronyd at %s answered something else than was asked", address)
	}
	return read(reply), nil
}

// dial connects to chronyd. Its socket wants one to answer to that its user may write to; chronyd's folder is for those, as chronyc does.
func dial(ctx context.Context, address string) (net.Conn, func(), error) {
	var dialer net.Dialer
	if !filepath.IsAbs(address) {
		connection, err := dialer.DialContext(ctx, "udp", address)
		if err != nil {
			return nil, nil, fmt.Errorf("connect to chronyd: %w", err)
		}
		return connection, func() {}, nil
	}
	if _, err := os.Stat(address); err != nil {
		return nil, nil, fmt.Errorf("connect to chronyd: %w", err)
	}
	removeOld(filepath.Dir(address))
	// Not the process's ID: another goroutine may ask too, and a process of another PID namespace may have the same ID.
	local := filepath.Join(filepath.Dir(address), socketPrefix+rand.Text()[:8]+".sock")
	connection, err := net.DialUnix("unixgram", &net.UnixAddr{Name: local, Net: "unixgram"}, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		_ = os.Remove(local)
		return nil, nil, fmt.Errorf("connect to chronyd: %w", err)
	}
	remove := func() { _ = os.Remove(local) }
	if err := open(local); err != nil {
		connection.Close()
		remove()
		return nil, nil, fmt.Errorf("connect to chronyd: %w", err)
	}
	return connection, remove, nil
}

// socketPrefix begins the names of our sockets in chronyd's folder.
const socketPrefix = "ktsn-"

// removeOld removes our sockets whose processes were killed. Connecting to one that a process has open fails too, because it is connected
// to chronyd, but not with ECONNREFUSED.
func removeOld(folder string) {
	names, _ := filepath.Glob(filepath.Join(folder, socketPrefix+"*.sock"))
	for _, name := range names {
		connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
		switch {
		case err == nil:
			connection.Close()
		case errors.Is(err, unix.ECONNREFUSED):
			_ = os.Remove(name)
		}
	}
}

// open lets chronyd, which is another user, write to our socket; its folder keeps everybody else out. But the folder is that user's, who
// may have put something else in our socket's place meanwhile: the mode of that stays.
func open(local string) error {
	fd, err := unix.Open(local, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("find the socket for its answer: %w", err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("look at the socket for its answer: %w", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK || int(stat.Uid) != os.Geteuid() || stat.Nlink != 1 {
		return fmt.Errorf("somebody replaced the socket for its answer, %s", local)
	}
	const everybody = 0o666
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), everybody)
}

func read(reply *chrony.ReplyTracking) *Tracking {
	t := &Tracking{
		Synchronized:   reply.LeapStatus != leapUnsynchronized && reply.RefID != 0,
		Reference:      reply.IPAddr.String(),
		Offset:         larger(seconds(reply.CurrentCorrection), seconds(reply.LastOffset)),
		RootDelay:      seconds(reply.RootDelay).Abs(),
		RootDispersion: seconds(reply.RootDispersion).Abs(),
		SkewPPB:        int64(math.Min(math.Abs(reply.SkewPPM)*1000, math.MaxInt32)),
		Updated:        reply.RefTime,
	}
	if reply.IPAddr == nil || reply.IPAddr.IsUnspecified() {
		t.Reference = chrony.RefidToString(reply.RefID)
	}
	return t
}

func larger(a, b time.Duration) time.Duration {
	if a.Abs() > b.Abs() {
		return a
	}
	return b
}

// seconds converts what came over a socket, whatever it is.
func seconds(value float64) time.Duration {
	const most = 1e9 // 30 years
	switch {
	case math.IsNaN(value) || value > most:
		return most * time.Second
	case value < -most:
		return -most * time.Second
	}
	return time.Duration(value * float64(time.Second))
}
