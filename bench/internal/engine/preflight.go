// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// open are the fields of a run whose subfields depend on the measurement.
var open = []string{"cpu_cores", "memory_bytes", "machine_cores", "ovs_share_of_latency"}

// Preflight returns an error if an assertion names something that the profile does not measure, so that a misspelt name
// is reported before a bench of hours, not after.
func Preflight(profile *Profile, expression string) error {
	if err := CheckAssertion(expression); err != nil {
		return err
	}
	facts, err := expected(profile)
	if err != nil {
		return err
	}
	var missing error
	for _, key := range facts.order {
		if missing = facts.names(underscored(expression), key); missing == nil {
			return nil
		}
	}
	return fmt.Errorf("%q: %w", expression, missing)
}

// expected returns the figures of the profile's runs, all of them 0.
func expected(profile *Profile) (*Facts, error) {
	summary := &results.Summary{}
	known := map[results.Key]bool{}
	var cases []*Case
	for _, block := range Plan(profile) {
		for _, run := range block.Runs {
			if run.Case != nil {
				cases = append(cases, run.Case)
			}
			if run.Number == 0 || run.IdleNs != 0 || run.Case != nil || known[run.Key] {
				continue
			}
			known[run.Key] = true
			newSummary := func() *stats.Summary { return &stats.Summary{} }
			all := results.Distributions{Latency: newSummary(), ClockError: results.OneClock(), Jitter: &stats.Jitter{}, LaunchError: newSummary(), DepartureError: newSummary(), Port: newSummary(),
				SendCall: newSummary()}
			if results.InGuest(run.Path) {
				all.RequestError = &stats.Jitter{}
			}
			if run.Window != (Window{}) {
				all.Scheduled = &stats.Spread{}
			}
			if !HasGates(run.Workload) {
				all.SendingCores = new(float64)
			}
			summary.Runs = append(summary.Runs, &results.Run{Path: run.Path, Workload: run.Workload, PayloadBytes: run.PayloadBytes,
				CycleNs: run.CycleNs, Counts: results.Counts{Late: new(uint64)}, Distributions: all, MedianOfAlternations: all})
		}
	}
	facts, err := FactsOf(summary)
	if err != nil {
		return nil, err
	}
	for _, current := range cases {
		facts.addCase(current.Path, current.Name, unknownYet{})
	}
	return facts, nil
}

// unknownYet replaces figures that only the experiment knows, and only after measuring.
type unknownYet struct{}

// names checks all names of an expression, but no values.
func (f *Facts) names(expression string, key groupKey) error {
	chains, err := chainsOf(expression)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		if at := slices.IndexFunc(chain, func(name string) bool { return slices.Contains(open, name) }); at >= 0 {
			chain = chain[:at]
		}
		if _, err := f.look(chain, key); err != nil {
			return err
		}
	}
	return nil
}
