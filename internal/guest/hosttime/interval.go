// SPDX-License-Identifier: Apache-2.0

package hosttime

import "math/bits"

// Exchange is one question and its answer: the guest's counter (CLOCK_MONOTONIC_RAW) before it asked and after the answer came,
// and the host's clock in between, all in nanoseconds.
type Exchange struct {
	AskedRaw, AnsweredRaw   int64
	ReceivedTAI, RepliedTAI int64
}

// Interval is what the host's clock may be ahead of the guest's counter.
type Interval struct {
	// DriftPPB is by how many billionths the host's clock may move against the counter.
	DriftPPB int64
	// Least and Most are at the counter At. Before the first exchange Exchanges is 0.
	Least, Most, At int64
	// Exchanges counts those that narrowed it, Jumps those that contradicted it: one of both clocks was set, or the machine stood
	// still.
	Exchanges, Jumps uint64
}

// Advance widens it to what it may be at a later counter.
func (i *Interval) Advance(raw int64) {
	if raw <= i.At {
		return
	}
	grown := i.drift(raw - i.At)
	i.Least, i.Most, i.At = i.Least-grown, i.Most+grown, raw
}

// drift is by how much both may move apart in a time, rounded up.
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

// Narrow takes an exchange into account, from which on the drift may be another one. Since the last exchange it was the one or the
// other. One that cannot be, whose readings are not in order, changes nothing but that.
func (i *Interval) Narrow(exchange Exchange, driftPPB int64) {
	i.DriftPPB = max(i.DriftPPB, driftPPB)
	i.narrow(exchange)
	i.DriftPPB = driftPPB
}

func (i *Interval) narrow(exchange Exchange) {
	least, most := exchange.RepliedTAI-exchange.AnsweredRaw, exchange.ReceivedTAI-exchange.AskedRaw
	// Both were true at some moment of the exchange.
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

// Ahead is the middle, Bound half the width, rounded up.
func (i *Interval) Ahead() int64 { return i.Least + (i.Most-i.Least)/2 }

// Bound is how far Ahead may be from the truth.
func (i *Interval) Bound() int64 { return (i.Most - i.Least + 1) / 2 }

// Lasts is for how long the bound stays below a limit without another exchange.
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
