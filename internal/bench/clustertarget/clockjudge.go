// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/results"
)

// estimate is how wrong a node's clock may have been while it was measured with it.
type estimate struct {
	node string
	// worst is the largest of all readings, or one of which nothing was known.
	worst reading
	// stepped tells that somebody set the clock meanwhile.
	stepped bool
}

// add takes one more reading.
func (e *estimate) add(now reading) {
	if e.worst.known() && (!now.known() || now.bound > e.worst.bound) {
		e.worst = now
	}
}

// bound is nil where it is not known.
func (e *estimate) bound() *int64 {
	if !e.worst.known() {
		return nil
	}
	ns := e.worst.bound.Nanoseconds()
	return &ns
}

// judge is what clocks are judged by.
type judge struct {
	// limit is that of the profile; 0: it has none.
	limit time.Duration
	// median of the latencies that were measured with them; measured is false where there are none.
	median   time.Duration
	measured bool
	// apart is how far the clocks differ at least, as messages between them show.
	apart time.Duration
}

// verdict says in sentences what speaks against what was measured.
type verdict struct {
	// doubt is why it is not to be believed, refused why it is not even to be kept.
	doubt, refused string
}

// of judges two clocks.
func (j *judge) of(talker, listener *estimate) verdict {
	both := results.ClockErrorOf(talker.bound(), listener.bound())
	refuse := func(format string, arguments ...any) verdict {
		sentence := fmt.Sprintf(format, arguments...)
		return verdict{doubt: sentence, refused: sentence}
	}
	for _, one := range []*estimate{talker, listener} {
		if one.stepped {
			return refuse("the clock of node %s was set while it was measured with it", one.node)
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

// ofUnknown judges clocks of which one is not known.
func (j *judge) ofUnknown(talker, listener *estimate) verdict {
	whose := talker
	if talker.worst.known() {
		whose = listener
	}
	sentence := sentenceOf(whose.node, whose.worst)
	switch {
	case j.apart > 0:
		sentence += fmt.Sprintf("; messages show that it differs from that of the other node by %s µs at least", micros(j.apart))
	case j.limit > 0:
		sentence += fmt.Sprintf("; max-clock-error of the profile is %s µs", micros(j.limit))
	default:
		return verdict{doubt: sentence}
	}
	return verdict{doubt: sentence, refused: sentence}
}

func micros(duration time.Duration) string { return results.Micros(duration.Nanoseconds()) }

// refusal is the error of a bench whose clocks are not good enough.
func refusal(why string) error {
	return fmt.Errorf("%s; have the clocks kept together (docs/clocks.md; `ktsn clock` shows them), or measure nevertheless with --any-clock", why)
}
