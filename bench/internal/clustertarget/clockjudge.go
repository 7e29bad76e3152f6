// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// estimate is the possible error of a node's clock during a measurement.
type estimate struct {
	node string
	// worst is the largest of all readings, or an unknown one.
	worst reading
	// stepped: the clock was set meanwhile.
	stepped bool
	// follows are the clock's sources meanwhile, and tai the offsets of its CLOCK_TAI, as far as they are known.
	follows, tai []string
}

func newEstimate(node string, now reading) estimate {
	e := estimate{node: node, worst: now}
	e.note(now)
	return e
}

// note records the clock's source in another reading.
func (e *estimate) note(now reading) {
	e.follows, e.tai = noted(e.follows, now.follows), noted(e.tai, now.tai)
}

func noted(all []string, note string) []string {
	if note == "" || slices.Contains(all, note) {
		return all
	}
	return append(all, note)
}

// add adds a reading.
func (e *estimate) add(now reading) {
	if e.worst.known() && (!now.known() || now.bound > e.worst.bound) {
		e.worst = now
	}
}

// bound is nil if it is unknown.
func (e *estimate) bound() *int64 {
	if !e.worst.known() {
		return nil
	}
	ns := e.worst.bound.Nanoseconds()
	return &ns
}

// differing returns why the difference of two clocks is unknown although their errors are known, for example because
// they follow different sources; "" if it is known.
func differing(talker, listener *estimate) string {
	if a, b := strings.Join(talker.tai, " and "), strings.Join(listener.tai, " and "); a != b && a != "" && b != "" {
		return fmt.Sprintf("CLOCK_TAI of node %s is %s s ahead of UTC, and that of node %s %s s, so that they are whole seconds apart; have who keeps "+
			"the clocks set the same offset (chronyd: leapsectz)", talker.node, a, listener.node, b)
	}
	if a, b := strings.Join(talker.follows, " and "), strings.Join(listener.follows, " and "); a != "" && b != "" && (a != b || len(talker.follows) > 1) {
		return fmt.Sprintf("the clock of node %s follows %s, and that of node %s %s: nobody knows how far these are apart", talker.node, a, listener.node, b)
	}
	return ""
}

// errorOf returns the error between two clocks, which is unknown if they follow different sources.
func errorOf(talker, listener *estimate) *results.ClockError {
	clockError := results.ClockErrorOf(talker.bound(), listener.bound())
	if differing(talker, listener) != "" {
		clockError.Combined = nil
	}
	return clockError
}

// judge has the criteria for clocks.
type judge struct {
	// limit is the profile's; 0: none.
	limit time.Duration
	// median is the median of the measured latencies; measured is false if there are none.
	median   time.Duration
	measured bool
	// apart is the minimum difference of the clocks, as messages between them show.
	apart time.Duration
}

// verdict lists objections to a measurement.
type verdict struct {
	// doubt is why it cannot be trusted, refused why it is not even stored.
	doubt, refused string
}

// of judges two clocks.
func (j *judge) of(talker, listener *estimate) verdict {
	both := errorOf(talker, listener)
	refuse := func(format string, arguments ...any) verdict {
		sentence := fmt.Sprintf(format, arguments...)
		return verdict{doubt: sentence, refused: sentence}
	}
	for _, estimated := range []*estimate{talker, listener} {
		if estimated.stepped {
			return refuse("the clock of node %s was set while it was measured with it", estimated.node)
		}
	}
	if both.Combined == nil {
		return j.ofUnknown(talker, listener)
	}
	combined := time.Duration(*both.Combined)
	together := fmt.Sprintf("%s, %s", sentenceOf(talker.node, talker.worst), sentenceOf(listener.node, listener.worst))
	switch {
	case j.apart > combined:
		return refuse("messages show that the clocks of nodes %s and %s differ by %s µs at least, and they are said to be wrong by %s µs together at most",
			talker.node, listener.node, micros(j.apart), micros(combined))
	case j.limit > 0 && combined > j.limit:
		return refuse("%s: together that is more than max-clock-error of the profile, %s µs", together, micros(j.limit))
	case j.limit == 0 && j.measured && combined >= j.median:
		return refuse("%s: together that is as much as was measured with them, where the median of the latencies is %s µs", together,
			micros(j.median))
	}
	return verdict{}
}

// ofUnknown judges clocks of which one is unknown, or that follow different sources.
func (j *judge) ofUnknown(talker, listener *estimate) verdict {
	whose, others := talker, "it differs from that of the other node"
	if talker.worst.known() {
		whose = listener
	}
	sentence := sentenceOf(whose.node, whose.worst)
	if whose.worst.known() {
		sentence, others = differing(talker, listener), "they differ"
	}
	switch {
	case j.apart > 0:
		sentence += fmt.Sprintf("; messages show that %s by %s µs at least", others, micros(j.apart))
	case j.limit > 0:
		sentence += fmt.Sprintf("; max-clock-error of the profile is %s µs", micros(j.limit))
	default:
		return verdict{doubt: sentence}
	}
	return verdict{doubt: sentence, refused: sentence}
}

func micros(duration time.Duration) string { return results.Micros(duration.Nanoseconds()) }

// refusal returns the error of a bench whose clocks are not good enough.
func refusal(why string) error {
	return fmt.Errorf("%s; have the clocks kept together (docs/guide/clocks.md; `ktsn clock` shows them), or measure nevertheless with --any-clock", why)
}
