// SPDX-License-Identifier: Apache-2.0

package results

// ClockError is how far the clocks at both ends of a latency may be wrong: the largest estimates before, during and after it was
// measured. Numbers are nanoseconds.
type ClockError struct {
	// Talker and Listener bound the errors of the clocks of their nodes; null: nobody knows.
	Talker   *int64 `json:"talker"`
	Listener *int64 `json:"listener"`
	// Combined bounds the error of the latency, which is a difference of both clocks; null where that of one of them is not known.
	Combined *int64 `json:"combined"`
	// SameClock tells that both ends read one clock, whose error a difference does not have.
	SameClock bool `json:"same_clock"`
	// Doubt says in a sentence why the latency is not to be believed; empty where nothing speaks against it.
	Doubt string `json:"doubt,omitempty"`
	// AnyClock tells that the user had it measured nevertheless.
	AnyClock bool `json:"any_clock,omitempty"`
}

// OneClock is the error of a latency whose ends read the same clock.
func OneClock() *ClockError {
	zero := func() *int64 { return new(int64) }
	return &ClockError{Talker: zero(), Listener: zero(), Combined: zero(), SameClock: true}
}

// ClockErrorOf is that of two clocks; nil stands for an error that nobody knows.
func ClockErrorOf(talker, listener *int64) *ClockError {
	e := &ClockError{Talker: talker, Listener: listener}
	if talker != nil && listener != nil {
		sum := *talker + *listener
		e.Combined = &sum
	}
	return e
}

// nobodySaid is the doubt about a latency of whose clocks nothing was written down.
const nobodySaid = "nothing is known of the error of its clocks"

// DoubtOf says why a latency with this error is not to be believed; empty where nothing speaks against it.
func (e *ClockError) DoubtOf() string {
	switch {
	case e == nil:
		return nobodySaid
	case e.Doubt == "" && e.Combined == nil:
		return nobodySaid
	}
	return e.Doubt
}

// CombinedNs is the error of the latency; 0 where it is not known, which DoubtOf says.
func (e *ClockError) CombinedNs() int64 {
	if e == nil || e.Combined == nil {
		return 0
	}
	return *e.Combined
}

// Text is the error beside a latency in µs: "0" of one clock, "?" of what nobody knows, and "!" behind an error that is too large.
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

// WorstClock is the error of what several alternations measured: the largest of each end, and not known as soon as one is not.
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

// with is the worse of both, of each end.
func (e *ClockError) with(other *ClockError) *ClockError {
	both := &ClockError{Talker: larger(e.Talker, other.Talker), Listener: larger(e.Listener, other.Listener),
		Combined: larger(e.Combined, other.Combined), SameClock: e.SameClock && other.SameClock, Doubt: e.Doubt,
		AnyClock: e.AnyClock || other.AnyClock}
	if both.Doubt == "" {
		both.Doubt = other.Doubt
	}
	return both
}

// larger is nil as soon as one is.
func larger(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	most := max(*a, *b)
	return &most
}
