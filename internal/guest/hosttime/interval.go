// SPDX-License-Identifier: Apache-2.0

package hosttime

import "math/bits"

// Exchange is a request and its reply: the guest's counter (CLOCK_MONOTONIC_RAW) before the request and after the reply, and the host's
// clock in between, all in nanoseconds.
type Exchange struct {
	AskedRaw, AnsweredRaw   int64
	ReceivedTAI, RepliedTAI int64
}

// Interval bounds how far the host's clock is ahead of the guest's counter.
type Interval struct {
	// DriftPPB is the maximum drift of the host's clock against the counter.
	DriftPPB int64
	// Least and Most are the bounds when the counter is At.
	Least, Most, At int64
	// Exchanges counts valid exchanges, Jumps those that contradicted the interval: a clock was set, or the machine was paused.
	Exchanges, Jumps uint64
}

// Advance widens the interval to a later counter.
func (i *Interval) Advance(raw int64) {
	if raw <= i.At {
		return
	}
	grown := i.drift(raw - i.At)
	i.Least, i.Most, i.At = i.Least-grown, i.Most+grown, raw
}

// drift returns the maximum drift in a time, rounded up.
func (i *Interval) drift(elapsed int64) int64 {
	high, low := bits.Mul64(uint64(elapsed), uint64(i.DriftPPB))
	if high >= 1e9 {
		return 1 << 62
	}
	quotient, remainder := bits.Div64(high, low, 1e9)
	if remainder > 0 {
		quotient++
	}
	return int64(quotient)
}

// Narrow applies an exchange and sets the drift from then on; for the time since the last exchange the larger drift counts. An exchange
// whose readings are not in order only sets the drift.
func (i *Interval) Narrow(exchange Exchange, driftPPB int64) {
	i.DriftPPB = max(i.DriftPPB, driftPPB)
	i.narrow(exchange)
	i.DriftPPB = driftPPB
}

func (i *Interval) narrow(exchange Exchange) {
	least, most := exchange.RepliedTAI-exchange.AnsweredRaw, exchange.ReceivedTAI-exchange.AskedRaw
	// Both bounds were valid at some time during the exchange.
	during := i.drift(max(exchange.AnsweredRaw-exchange.AskedRaw, 0))
	least, most = least-during, most+during
	if exchange.AnsweredRaw < exchange.AskedRaw || exchange.RepliedTAI < exchange.ReceivedTAI || least > most {
		return
	}
	i.Advance(exchange.AnsweredRaw)
	switch {
	case i.Exchanges == 0:
		i.Least, i.Most = least, most
	case least > i.Most || most < i.Least:
		i.Least, i.Most = least, most
		i.Jumps++
	default:
		i.Least, i.Most = max(least, i.Least), min(most, i.Most)
	}
	i.Exchanges++
}

// Ahead returns the middle of the interval.
func (i *Interval) Ahead() int64 { return i.Least + (i.Most-i.Least)/2 }

// Bound returns the maximum error of Ahead: half the width, rounded up.
func (i *Interval) Bound() int64 { return (i.Most - i.Least + 1) / 2 }

// Lasts returns how long the bound stays below a limit without another exchange.
func (i *Interval) Lasts(limit int64) int64 {
	left := limit - i.Bound()
	if left <= 0 {
		return 0
	}
	if i.DriftPPB == 0 {
		return 1 << 62
	}
	high, low := bits.Mul64(uint64(left), 1e9)
	if high >= uint64(i.DriftPPB) {
		return 1 << 62
	}
	quotient, _ := bits.Div64(high, low, uint64(i.DriftPPB))
	return int64(min(quotient, 1<<62))
}
