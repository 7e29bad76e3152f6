// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
)

// program records the clocks that it was given.
type program struct{ clocks []capture.GuestClock }

func (p *program) Set(clock capture.GuestClock) error {
	p.clocks = append(p.clocks, clock)
	return nil
}

// served is the guest's end of a port whose host is this machine, too.
func served(t *testing.T, limit time.Duration) Port {
	t.Helper()
	guest, host := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, host, limit) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("serving ended with %v", err)
		}
	})
	return guest
}

func newFollower(open func() (Port, error), to ...Program) *Follower {
	f := &Follower{Open: open, Programs: to, DriftPPB: 200_000, Log: slog.New(slog.DiscardHandler)}
	f.interval.DriftPPB = f.DriftPPB
	return f
}

func TestTheHostsTimeIsKnownWithinTheBound(t *testing.T) {
	child := &program{}
	port := served(t, 0)
	f := newFollower(func() (Port, error) { return port, nil }, child)
	for range 5 {
		f.ask()
		if err := f.tell(); err != nil {
			t.Fatal(err)
		}
	}
	// Host and guest have one clock here.
	last := child.clocks[len(child.clocks)-1]
	apart := aheadOf(unix.CLOCK_TAI, unix.CLOCK_REALTIME)
	for name, wrong := range map[string]int64{"CLOCK_TAI": last.AheadNs[0], "CLOCK_REALTIME": last.AheadNs[2] - apart} {
		if wrong > int64(last.BoundNs) || wrong < -int64(last.BoundNs) {
			t.Errorf("of %s it is wrong by %d, and says at most %d", name, wrong, last.BoundNs)
		}
	}
	if now := read(unix.CLOCK_MONOTONIC); int64(last.UntilNs) < now || int64(last.UntilNs) > now+lasting.Nanoseconds() {
		t.Errorf("it lasts until %d, and it is %d", last.UntilNs, now)
	}
}

func TestAboveTheHostsLimitNothingIsKnown(t *testing.T) {
	child := &program{}
	port := served(t, time.Nanosecond)
	f := newFollower(func() (Port, error) { return port, nil }, child)
	f.ask()
	if err := f.tell(); err != nil || child.clocks[0].UntilNs != 0 || child.clocks[0].BoundNs == 0 {
		t.Errorf("%+v, %v", child.clocks, err)
	}
	f.Limit = time.Hour
	if got := f.limit(); got != 1 {
		t.Errorf("the limit is %d, and should be the stricter one", got)
	}
}

func TestNothingIsKnownFromTheMomentTheGuestsClockIsSet(t *testing.T) {
	child := &program{}
	port := served(t, 0)
	f := newFollower(func() (Port, error) { return port, nil }, child)
	f.ask()
	// It is set between the look at the clocks and the writing.
	sets, clock := f.setsSoFar(), f.clock()
	f.forget()
	if err := f.set(clock, sets); err != nil || len(child.clocks) != 1 || child.clocks[0] != (capture.GuestClock{}) {
		t.Errorf("%+v, %v", child.clocks, err)
	}
	if err := f.tell(); err != nil || len(child.clocks) != 2 || child.clocks[1].UntilNs == 0 {
		t.Errorf("the next look tells %+v, %v", child.clocks, err)
	}
}

func TestThatNobodySetsTheGuestsClockIsSaidOnce(t *testing.T) {
	var output bytes.Buffer
	f := newFollower(nil)
	f.Log = slog.New(slog.NewTextHandler(&output, nil))
	failure := errors.New("no socket")
	f.Discipline = func(Sample) error { return failure }
	f.discipline(Sample{})
	f.discipline(Sample{})
	if count := bytes.Count(output.Bytes(), []byte("no socket")); count != 1 {
		t.Errorf("it was said %d times: %s", count, output.String())
	}
	failure = nil
	if f.discipline(Sample{}); !bytes.Contains(output.Bytes(), []byte("is set by the host's again")) {
		t.Errorf("it says %s", output.String())
	}
}

func TestWithoutAHostNothingIsKnown(t *testing.T) {
	child := &program{}
	f := newFollower(func() (Port, error) { return nil, errors.New("no port") }, child)
	f.ask()
	if err := f.tell(); err != nil || child.clocks[0] != (capture.GuestClock{}) {
		t.Errorf("%+v, %v", child.clocks, err)
	}
}

// Old bytes in a port, and replies that came too late, are skipped.
func TestAReplyIsFoundAmongOtherBytes(t *testing.T) {
	var bytesOf = func(message any) []byte {
		all, err := binary.Append(nil, binary.LittleEndian, message)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	guest, host := net.Pipe()
	defer host.Close()
	go func() {
		var request Request
		if binary.Read(host, binary.LittleEndian, &request) != nil {
			return
		}
		late := Reply{Magic: replyMagic, Number: request.Number - 1, ReceivedTAI: 7, RepliedTAI: 8}
		now := read(unix.CLOCK_TAI)
		right := Reply{Magic: replyMagic, Number: request.Number, ReceivedTAI: now, RepliedTAI: now}
		_, _ = host.Write(append(append([]byte("KTR"), bytesOf(&late)...), bytesOf(&right)...))
	}()
	f := newFollower(nil)
	f.port, f.from = guest, stream{bufio.NewReader(guest)}
	if err := f.exchangeOnce(); err != nil || f.interval.Exchanges != 1 {
		t.Errorf("%+v, %v", f.interval, err)
	}
}

func TestAGuestThatAsksWithoutEndIsAnsweredSlowly(t *testing.T) {
	port := served(t, 0)
	began := time.Now()
	const asked = burst + 10
	for number := range uint32(asked) {
		if err := write(port, &Request{Magic: requestMagic, Number: number}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(port, make([]byte, binary.Size(Reply{}))); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < (asked-burst-1)*pause {
		t.Errorf("%d answers took %v", asked, took)
	}
}

// reads gives bytes that are no request, and counts how often it is asked.
type reads struct{ count int }

func (r *reads) Read(into []byte) (int, error) {
	r.count++
	return len(into), nil
}

func TestAGuestThatSendsRubbishIsReadSlowly(t *testing.T) {
	from := &reads{}
	slow := &paced{Reader: from, since: time.Now()}
	began := time.Now()
	for range burst + 10 {
		if _, err := slow.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 9*pause || from.count != burst+10 {
		t.Errorf("%d reads took %v", from.count, took)
	}
}

func TestChronydGetsAStructureOfItsKind(t *testing.T) {
	got := encode(Sample{At: time.Unix(5, 7000), Offset: -1500 * time.Millisecond})
	want := bytes.Join([][]byte{
		binary.NativeEndian.AppendUint64(nil, 5), binary.NativeEndian.AppendUint64(nil, 7), binary.NativeEndian.AppendUint64(nil, math.Float64bits(-1.5)),
		make([]byte, 12), binary.NativeEndian.AppendUint32(nil, sampleMagic),
	}, nil)
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
