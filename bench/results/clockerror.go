// SPDX-License-Identifier: Apache-2.0

package results

// ClockError is the possible error of the clocks at both ends of a latency: the largest estimates before, during and
// after the measurement, in nanoseconds.
type ClockError struct {
	// Talker and Listener bound the errors of their nodes' clocks; null: unknown.
	Talker   *int64 `json:"talker"`
	Listener *int64 `json:"listener"`
	// Combined bounds the error of the latency, which is a difference of both clocks; null if one of them is unknown.
	Combined *int64 `json:"combined"`
	// SameClock: both ends read one clock, whose error cancels out.
	SameClock bool `json:"same_clock"`
	// Doubt is why the latency cannot be trusted, "" if it can.
	Doubt string `json:"doubt,omitempty"`
	// AnyClock: the user had it measured anyway.
	AnyClock bool `json:"any_clock,omitempty"`
}

// OneClock returns the error of a latency whose ends read the same clock.
func OneClock() *ClockError {
	zero := func() *int64 { return new(int64) }
	return &ClockError{Talker: zero(), Listener: zero(), Combined: zero(), SameClock: true}
}

// ClockErrorOf returns the error of two clocks; nil stands for an unknown error.
func ClockErrorOf(talker, listener *int64) *ClockError {
	e := &ClockError{Talker: talker, Listener: listener}
	if talker != nil && listener != nil {
		sum := *talker + *listener
		e.Combined = &sum
	}
	return e
}

// nobodySaid is the doubt about a latency without information about the clocks.
const nobodySaid = "nothing is known of the error of its clocks"

// DoubtOf returns why a latency with this error cannot be trusted, "" if it can.
func (e *ClockError) DoubtOf() string {
	switch {
	case e == nil:
		return nobodySaid
	case e.Doubt == "" && e.Combined == nil:
		return nobodySaid
	}
	return e.Doubt
}

// CombinedNs returns the error of the latency; 0 if it is unknown, which DoubtOf reports.
func (e *ClockError) CombinedNs() int64 {
	if e == nil || e.Combined == nil {
		return 0
	}
	return *e.Combined
}

// Text formats the error in µs: "0" for one clock, "?" if it is unknown, and a trailing "!" if it is too large.
func (e *ClockError) Text() string {
	switch {
	case e == nil || e.Combined == nil:
		return "?"
	case e.Doubt != "":
		return Micros(*e.Combined) + "!"
	case e.SameClock:
		return "0"
	}
	return Micros(*e.Combined)
}

// WorstClock returns the error of several alternations: the largest of each end, and unknown if one is.
func WorstClock(alternations []Alternation) *ClockError {
	var worst *ClockError
	for i := range alternations {
		clockError := alternations[i].ClockError
		if clockError == nil {
			return nil
		}
		if worst == nil {
			first := *clockError
			worst = &first
			continue
		}
		worst = worst.with(clockError)
	}
	return worst
}

// with returns the larger errors of both, for each end.
func (e *ClockError) with(other *ClockError) *ClockError {
	both := &ClockError{Talker: larger(e.Talker, other.Talker), Listener: larger(e.Listener, other.Listener),
		Combined: larger(e.Combined, other.Combined), SameClock: e.SameClock && other.SameClock, Doubt: e.Doubt,
		AnyClock: e.AnyClock || other.AnyClock}
	if both.Doubt == "" {
		both.Doubt = other.Doubt
	}
	return both
}

// larger is nil if one is nil.
func larger(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	most := max(*a, *b)
	return &most
}
