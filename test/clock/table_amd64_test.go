// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/test/clock/lab"
)

// row is the result of a scenario.
type row struct {
	name   string
	length time.Duration
	*lab.Comparison
	// synchronized is the share of the time in this state.
	synchronized float64
	note         string
}

// scenario plays a scenario, compares the beliefs with the truth meanwhile, and adds a row, even if the scenario fails
// half-way. play returns a note for it.
func (s *scene) scenario(name string, play func() string) {
	s.t.Run(name, func(t *testing.T) {
		outer := s.t
		s.t = t
		defer func() { s.t = outer }()
		// Include the reading before, to detect a step between it and the first one.
		began, readings, beliefs, note := time.Now(), max(0, len(s.subject.Readings(0))-1), s.now(), "not to its end"
		defer func() {
			s.learn()
			result := row{name: name, length: time.Since(began), note: note,
				Comparison:   lab.Compare(s.subject.Readings(readings), s.beliefs(s.normal), s.truths),
				synchronized: share(s.beliefs(strict)[beliefs:], clock.Synchronized)}
			s.rows = append(s.rows, result)
			s.judge(&result)
		}()
		note = play()
	})
}

// learn takes the readings of the grandmasters' clocks.
func (s *scene) learn() {
	s.truths = map[string]*lab.Truth{s.main.Identity(): lab.NewTruth(s.main.Readings(0))}
	if s.second != nil {
		s.truths[s.second.Identity()] = lab.NewTruth(s.second.Readings(0))
	}
}

// judge fails the test if a bound is below the true error, or a step is not detected at once.
func (s *scene) judge(result *row) {
	s.t.Helper()
	s.t.Logf("%d readings: bound %v in the median, true error %v; %.1f %% Synchronized; %s", len(result.Bounds), lab.Median(result.Bounds),
		lab.Median(result.Errors), 100*result.synchronized, result.note)
	if len(result.Bounds) == 0 {
		s.t.Error("no reading of the clock was compared")
	}
	for i, mistake := range result.Wrong {
		if i == 5 {
			break
		}
		s.t.Errorf("the true error was %v (give or take %v) when the bound was %v, %v after the belief: %s", mistake.Error, mistake.Uncertainty,
			mistake.Bound, mistake.Age(), describe(&mistake.Belief))
	}
	if len(result.Wrong) > 0 {
		s.t.Errorf("%d of %d bounds were below the true error", len(result.Wrong), len(result.Bounds))
	}
	const soon = time.Second
	if result.Unseen > soon && !testing.Short() {
		s.t.Errorf("a step of the clock was seen %v after it", result.Unseen)
	}
}

// share returns the share of the time in a state.
func share(beliefs []lab.Belief, state clock.State) float64 {
	var all, so time.Duration
	for i := 1; i < len(beliefs); i++ {
		lasted := beliefs[i].After(&beliefs[i-1])
		all += lasted
		if beliefs[i-1].State == state {
			so += lasted
		}
	}
	if all == 0 {
		return 0
	}
	return so.Seconds() / all.Seconds()
}

// publish writes the table to the file that `make clocks` names.
func (s *scene) publish(whole *row) {
	s.t.Helper()
	path := os.Getenv("KTSN_CLOCKS_TABLE")
	if path == "" {
		return
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenario\ttime\treadings\tbound p50\tbound p99\terror p50\terror p99\twrong\tSynchronized\t")
	for _, result := range append(s.rows, *whole) {
		fmt.Fprintf(table, "%s\t%v\t%d\t%v\t%v\t%v\t%v\t%d\t%.1f %%\t%s\n", result.name, result.length.Round(time.Second), len(result.Bounds),
			micro(lab.Median(result.Bounds)), micro(lab.Percentile(result.Bounds, 99)), micro(lab.Median(result.Errors)),
			micro(lab.Percentile(result.Errors, 99)), len(result.Wrong), 100*result.synchronized, result.note)
	}
	table.Flush()
	fmt.Fprintf(&text, "\ntrue error: uncertain by %v at most\n", whole.Uncertainty)
	for _, guest := range s.guests() {
		counter := guest.Counter()
		fmt.Fprintf(&text, "%s: %d exchanges of counters leave %v of uncertainty\n", guest.Name, counter.Exchanges, counter.Uncertainty())
	}
	s.must(os.WriteFile(path, []byte(text.String()), 0o644))
}

func micro(d time.Duration) time.Duration { return d.Round(time.Microsecond / 10) }
