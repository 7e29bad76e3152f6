// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
)

const (
	// tick is the interval between updates, exchanges the number of exchanges in each.
	tick      = 100 * time.Millisecond
	exchanges = 2
	// answerPatience is the timeout of a reply.
	answerPatience = 500 * time.Millisecond
	// lasting limits how long a result is valid: a killed follower cannot detect that a clock was set.
	lasting = time.Second
)

// Port is the guest's end of the virtio port.
type Port interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// Program writes times into records; a capture.Guest.
type Program interface {
	Set(capture.GuestClock) error
}

// Sample is the host's CLOCK_REALTIME less the guest's, when the guest's was At.
type Sample struct {
	At     time.Time
	Offset time.Duration
}

// Follower keeps what the host's clock is ahead of the guest's.
type Follower struct {
	// Open opens the port.
	Open func() (Port, error)
	// Programs get the result.
	Programs []Program
	// DriftPPB is the maximum drift of the guest's counter against the host's; the host reports the drift of its clock.
	DriftPPB int64
	// Limit is the bound above which nothing with a transmit time is sent; 0 uses the host's limit only.
	Limit time.Duration
	// Discipline gets the error of the guest's clock; it may be nil.
	Discipline func(Sample) error
	Log        *slog.Logger

	port     Port
	from     stream
	number   uint32
	interval Interval
	host     Reply // the last
	slews    [3]slew
	failed   string
	unsure   bool
	// undisciplined is the last reported error of Discipline.
	undisciplined string

	// mu is held while programs are updated. sets counts how often the guest's clock was set.
	mu   sync.Mutex
	sets uint64
}

// slew is the movement of a clock against the counter.
type slew struct {
	known                bool
	apart, raw, movedPPB int64
}

// clocks are the clocks of records, in the order of enum ktsn_record_clock.
var clocks = [3]int32{unix.CLOCK_TAI, unix.CLOCK_MONOTONIC, unix.CLOCK_REALTIME}

// Run follows the host's clock until ctx is done. If the host does not answer it retries; meanwhile the bound grows.
func (f *Follower) Run(ctx context.Context) error {
	f.interval.DriftPPB = f.DriftPPB
	set, err := watchSets(ctx, f.forget)
	if err != nil {
		return fmt.Errorf("watch the guest's clock: %w", err)
	}
	defer f.close()
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		f.ask()
		if err := f.tell(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		case <-set:
			f.slews = [3]slew{}
		}
	}
}

// forget invalidates the programs' clock at once: the guest's clock was set, and the host may not be answering.
func (f *Follower) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sets++
	for _, program := range f.Programs {
		_ = program.Set(capture.GuestClock{}) // tell says it
	}
}

func (f *Follower) setsSoFar() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sets
}

// ask makes exchanges. It logs an error once.
func (f *Follower) ask() {
	err := f.exchange()
	if err == nil {
		if f.failed != "" {
			f.Log.Info("the host answers again")
		}
		f.failed = ""
		return
	}
	f.close()
	if f.failed != err.Error() {
		f.Log.Warn("cannot read the host's time", "error", err)
	}
	f.failed = err.Error()
}

func (f *Follower) exchange() error {
	if f.port == nil {
		port, err := f.Open()
		if err != nil {
			return err
		}
		f.port, f.from = port, stream{bufio.NewReader(port)}
	}
	for range exchanges {
		if err := f.exchangeOnce(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Follower) exchangeOnce() error {
	f.number++
	if err := f.port.SetDeadline(time.Now().Add(answerPatience)); err != nil {
		return err
	}
	exchange := Exchange{AskedRaw: read(unix.CLOCK_MONOTONIC_RAW)}
	if err := write(f.port, &Request{Magic: requestMagic, Number: f.number}); err != nil {
		return err
	}
	var reply Reply
	for reply.Number != f.number { // others are replies that came too late
		if err := f.from.next(replyMagic, &reply); err != nil {
			return err
		}
	}
	exchange.AnsweredRaw, exchange.ReceivedTAI, exchange.RepliedTAI = read(unix.CLOCK_MONOTONIC_RAW), reply.ReceivedTAI, reply.RepliedTAI
	jumps := f.interval.Jumps
	f.interval.Narrow(exchange, f.DriftPPB+max(0, reply.DriftPPB))
	if f.interval.Jumps != jumps {
		f.Log.Warn("the host's clock was set, or this machine stood still")
	}
	f.host = reply
	return nil
}

func (f *Follower) close() {
	if f.port != nil {
		_ = f.port.Close() // it is only read from
	}
	f.port = nil
}

// limit returns the stricter of both limits, 0 for none.
func (f *Follower) limit() int64 {
	local, hosts := f.Limit.Nanoseconds(), f.host.LimitNs
	if local == 0 || (hosts > 0 && hosts < local) {
		return hosts
	}
	return local
}

// tell updates the programs.
func (f *Follower) tell() error {
	sets := f.setsSoFar()
	clock := f.clock()
	if err := f.set(clock, sets); err != nil {
		return err
	}
	if unsure := clock.UntilNs == 0; unsure != f.unsure {
		f.unsure = unsure
		if unsure {
			f.Log.Warn("the host's time is not known well enough: datagrams with a transmit time are dropped", "bound", time.Duration(clock.BoundNs))
		} else {
			f.Log.Info("the host's time is known", "bound", time.Duration(clock.BoundNs))
		}
	}
	if f.Discipline != nil && clock.UntilNs != 0 {
		f.discipline(Sample{At: time.Now(), Offset: time.Duration(clock.AheadNs[2] - f.host.AheadOfUTC)})
	}
	return nil
}

// set writes the clock into the programs, unless the guest's clock was set meanwhile; then the next update writes it.
func (f *Follower) set(clock capture.GuestClock, sets uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sets != sets {
		return nil
	}
	var all error
	for _, program := range f.Programs {
		all = errors.Join(all, program.Set(clock))
	}
	return all
}

// discipline passes a sample on. It logs an error once.
func (f *Follower) discipline(sample Sample) {
	failed := ""
	if err := f.Discipline(sample); err != nil {
		failed = err.Error()
	}
	switch {
	case failed != "" && failed != f.undisciplined:
		f.Log.Warn("nobody takes what this machine's clock is wrong by, and so nobody sets it", "error", failed)
	case failed == "" && f.undisciplined != "":
		f.Log.Info("this machine's clock is set by the host's again")
	}
	f.undisciplined = failed
}

// clock returns the current result. UntilNs is 0 if the bound exceeds the limit.
func (f *Follower) clock() capture.GuestClock {
	var clock capture.GuestClock
	if f.interval.Exchanges == 0 {
		return clock
	}
	var width, slewed int64
	clock.AtNs = uint64(read(unix.CLOCK_MONOTONIC)) // before the looks: the time that they take counts as growth
	for i, id := range clocks {
		looked := lookAt(id)
		f.interval.Advance(looked.after)
		apart := looked.before + looked.width()/2 - looked.now
		clock.AheadNs[i] = f.interval.Ahead() + apart
		width, slewed = max(width, (looked.width()+1)/2), max(slewed, f.slews[i].ratePPB(apart, looked.after))
	}
	// Both clocks may move against the counter from now on: the bound must stay valid until the next update, however late that is.
	grows := f.interval
	grows.DriftPPB += slewed
	bound := grows.Bound() + width
	clock.BoundNs, clock.DriftPPB = uint64(bound), uint64(grows.DriftPPB)
	lasts := lasting.Nanoseconds()
	if limit := f.limit(); limit > 0 {
		lasts = min(lasts, grows.Lasts(limit-width))
	}
	if lasts > 0 {
		clock.UntilNs = clock.AtNs + uint64(lasts)
	}
	return clock
}

// look is a reading of a clock between two of the counter.
type look struct{ before, now, after int64 }

func (l look) width() int64 { return l.after - l.before }

const (
	// looks limits the attempts for one reading, narrow is the width in ns at which it is good enough. If the machine is paused between two
	// instructions, the reading is wide.
	looks  = 8
	narrow = 20_000
)

// lookAt returns the narrowest of several readings of a clock.
func lookAt(id int32) (best look) {
	for i := range looks {
		sample := look{read(unix.CLOCK_MONOTONIC_RAW), read(id), read(unix.CLOCK_MONOTONIC_RAW)}
		if i == 0 || sample.width() < best.width() {
			best = sample
		}
		if best.width() <= narrow {
			break
		}
	}
	return best
}

// ratePPB returns how fast the clock may move against the counter from now on: twice the last rate, but at least the slew that the kernel
// may start at any time. Readings closer than half a tick are too close to measure the rate.
func (s *slew) ratePPB(apart, raw int64) int64 {
	elapsed := raw - s.raw
	if s.known && elapsed < tick.Nanoseconds()/2 {
		return max(2*s.movedPPB, slewPPB)
	}
	if s.known {
		s.movedPPB = int64(float64(max(apart-s.apart, s.apart-apart)) / float64(elapsed) * 1e9)
	}
	s.known, s.apart, s.raw = true, apart, raw
	return max(2*s.movedPPB, slewPPB)
}
