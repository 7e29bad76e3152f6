// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"math/rand/v2"
	"testing"
)

const millisecond = 1_000_000

func TestAnExchangeBoundsWhatTheHostIsAhead(t *testing.T) {
	i := Interval{DriftPPB: 100_000}
	i.Narrow(Exchange{AskedRaw: 1000, AnsweredRaw: 1400, ReceivedTAI: 51_100, RepliedTAI: 51_200}, i.DriftPPB)
	if i.Least != 49_799 || i.Most != 50_101 || i.Ahead() != 49_950 || i.Bound() != 151 {
		t.Fatalf("%+v", i)
	}
	i.Advance(1400 + millisecond)
	if i.Bound() != 151+100 {
		t.Errorf("after a millisecond at 100 ppm the bound is %d", i.Bound())
	}
	i.Narrow(Exchange{AskedRaw: millisecond + 2000, AnsweredRaw: millisecond + 2100, ReceivedTAI: millisecond + 52_040, RepliedTAI: millisecond + 52_050}, i.DriftPPB)
	if i.Bound() != 46 || i.Jumps != 0 || i.Exchanges != 2 {
		t.Errorf("%+v", i)
	}
}

func TestAnExchangeThatContradictsIsAJump(t *testing.T) {
	i := Interval{DriftPPB: 100_000}
	i.Narrow(Exchange{AskedRaw: 0, AnsweredRaw: 100, ReceivedTAI: 1000, RepliedTAI: 1000}, i.DriftPPB)
	i.Narrow(Exchange{AskedRaw: 200, AnsweredRaw: 300, ReceivedTAI: 5_000_000, RepliedTAI: 5_000_000}, i.DriftPPB)
	if i.Jumps != 1 || i.Ahead() != 5_000_000-250 {
		t.Errorf("%+v", i)
	}
}

func TestAnExchangeThatCannotBeChangesNothing(t *testing.T) {
	i := Interval{DriftPPB: 100_000}
	i.Narrow(Exchange{AskedRaw: 0, AnsweredRaw: 100, ReceivedTAI: 1000, RepliedTAI: 1000}, i.DriftPPB)
	before := i
	for _, exchange := range []Exchange{
		{AskedRaw: 300, AnsweredRaw: 200, ReceivedTAI: 1, RepliedTAI: 1},
		{AskedRaw: 200, AnsweredRaw: 300, ReceivedTAI: 2, RepliedTAI: 1},
		{AskedRaw: 200, AnsweredRaw: 300, ReceivedTAI: 1, RepliedTAI: 1_000_000},
	} {
		if i.Narrow(exchange, i.DriftPPB); i != before {
			t.Errorf("%+v made %+v", exchange, i)
		}
	}
}

func TestTheBoundLastsUntilItIsTheLimit(t *testing.T) {
	i := Interval{DriftPPB: 50_000}
	i.Narrow(Exchange{AskedRaw: 0, AnsweredRaw: 20_000, ReceivedTAI: 10_000, RepliedTAI: 10_002}, i.DriftPPB)
	lasts := i.Lasts(60_000)
	i.Advance(20_000 + lasts)
	if lasts != 1_000_000_000 || i.Bound() != 60_000 {
		t.Errorf("after %d ns the bound is %d", lasts, i.Bound())
	}
	if got := i.Lasts(i.Bound()); got != 0 {
		t.Errorf("at the limit it lasts %d", got)
	}
	if got := (&Interval{}).Lasts(1); got != 1<<62 {
		t.Errorf("without drift it lasts %d", got)
	}
}

// Delays of any kind and a drift within what is allowed never make the bound a lie.
func TestTheTruthIsAlwaysWithinTheBound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		drift := random.Int64N(400_001) - 200_000 // ppb of the counter
		host := func(raw int64) int64 {
			return 1_700_000_000_000_000_000 + raw + raw/1_000_000_000*drift + raw%1_000_000_000*drift/1_000_000_000
		}
		i := Interval{DriftPPB: 200_001}
		raw := int64(0)
		for range 500 {
			delay := func() int64 { return random.Int64N(1 << random.IntN(22)) }
			e := Exchange{AskedRaw: raw}
			raw += delay()
			e.ReceivedTAI = host(raw)
			raw += delay()
			e.RepliedTAI = host(raw)
			raw += delay()
			e.AnsweredRaw = raw
			i.Narrow(e, i.DriftPPB)
			raw += random.Int64N(300 * millisecond)
			i.Advance(raw)
			if wrong := host(raw) - raw - i.Ahead(); wrong > i.Bound()+2 || wrong < -i.Bound()-2 { // two roundings
				t.Fatalf("at %d the error is %d, the bound %d", raw, wrong, i.Bound())
			}
		}
		if i.Jumps != 0 {
			t.Fatalf("%d jumps at a drift of %d", i.Jumps, drift)
		}
	}
}

// slewed is a host whose clock moves against the counter at a rate that others change.
type slewed struct{ raw, tai, ratePPB int64 }

func (s *slewed) pass(elapsed int64) {
	s.raw += elapsed
	s.tai += elapsed + elapsed/1_000_000_000*s.ratePPB + elapsed%1_000_000_000*s.ratePPB/1_000_000_000
}

// A host whose clock begins to be slewed, within what the kernel does by itself, or has been before a reply by any rate, makes no lie
// of the bound.
func TestTheTruthIsWithinTheBoundWhileTheHostsClockIsSlewed(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		host := slewed{tai: 1_700_000_000_000_000_000}
		var i Interval
		for range 500 {
			delay := func() int64 { return random.Int64N(1 << random.IntN(20)) }
			e := Exchange{AskedRaw: host.raw}
			host.pass(delay())
			e.ReceivedTAI = host.tai
			host.pass(delay())
			e.RepliedTAI = host.tai
			reported := slewPPB + max(host.ratePPB, -host.ratePPB)
			host.pass(delay())
			e.AnsweredRaw = host.raw
			i.Narrow(e, reported)
			// Somebody sets another rate: from the ordinary one by the ordinary limit, from any other one back.
			if host.ratePPB == 0 {
				host.ratePPB = random.Int64N(2*slewPPB+1) - slewPPB
			} else if random.IntN(4) == 0 {
				host.ratePPB = 0
			}
			host.pass(random.Int64N(300 * millisecond))
			i.Advance(host.raw)
			if wrong := host.tai - host.raw - i.Ahead(); wrong > i.Bound()+4 || wrong < -i.Bound()-4 { // roundings
				t.Fatalf("at %d the error is %d, the bound %d", host.raw, wrong, i.Bound())
			}
		}
		if i.Jumps != 0 {
			t.Fatalf("%d jumps", i.Jumps)
		}
	}
}

func TestTheHostSaysHowItsClockMayMove(t *testing.T) {
	if drift := clockDrift(); drift < slewPPB || drift > slewPPB+200_000_000 {
		t.Errorf("it says %d ppb", drift)
	}
}
