// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// Collect computes the summary of a store, complete or not.
func Collect(store *Store) (*results.Summary, []results.Series, error) {
	c, err := collect(store)
	if err != nil {
		return nil, nil, err
	}
	summary := store.Manifest.summary()
	summary.Profile.Done = c.done
	if c.tookNs > 0 {
		summary.StolenCores = float64(c.stolenNs) / float64(c.tookNs)
	}
	summary.Idle, summary.Usage = c.idle, results.UsageOf(c.usage)
	summary.Problems = append(summary.Problems, c.problems...)
	for _, entry := range c.entries {
		summary.Runs = append(summary.Runs, &entry.run)
	}
	summary.Warnings = append(summary.Warnings, doubts(summary.Runs)...)
	summary.Ratios = c.ratios()
	summary.Figures = append(figures(summary.Runs, summary.Idle), gateFigures(summary.Runs, summary.Setup.Gates)...)
	if c.done < summary.Profile.Runs {
		summary.NotMeasured = append(summary.NotMeasured, results.Gap{
			What: fmt.Sprintf("%d of %d runs", summary.Profile.Runs-c.done, summary.Profile.Runs),
			Why:  "the bench was interrupted; the same `ktsn bench run` goes on with them"})
	}
	if section := c.indicators(); section != nil {
		summary.Sections = append(summary.Sections, *section)
	}
	return summary, c.series(), c.report(summary)
}

// collect reads all runs of a store.
func collect(store *Store) (*collector, error) {
	c := &collector{profile: &store.Manifest.Profile}
	if _, err := c.profile.experiment(); err != nil {
		return nil, fmt.Errorf("%s: %w", store.dir, err)
	}
	if err := store.Each(c.add); err != nil {
		return nil, err
	}
	c.sort()
	for _, entry := range slices.Concat(c.entries, c.witnesses) {
		entry.finish()
	}
	return c, nil
}

// summary returns what is known without the runs.
func (m *Manifest) summary() *results.Summary {
	host, environment, profile := m.Host, m.Environment, &m.Profile
	host.KtsndVersion, host.SpinNs = environment.KtsndVersion, environment.SpinNs
	host.Scheduler, host.SchedulerPriority = environment.Scheduler, environment.SchedulerPriority
	clock, messages := environment.Clock, profile.Messages*profile.Repetitions
	if profile.Experiment != "" {
		messages = 0
	}
	var moreBudgets []int64
	for _, budget := range profile.MoreBudgets {
		moreBudgets = append(moreBudgets, budget.Nanoseconds())
	}
	return &results.Summary{
		Schema: results.Schema,
		Host:   host,
		Setup: results.Setup{
			Messages:     messages,
			Alternations: profile.Repetitions,
			SenderCPU:    environment.SenderCPU,
			ListenerCPU:  environment.ListenerCPU,
			LeadNs:       environment.LeadNs,
			SpinNs:       environment.TalkerSpinNs,
			FIFOPriority: environment.TalkerPriority,
			Gates:        environment.Gates,
		},
		Profile: &results.ProfileSummary{Name: profile.Name, About: profile.About, Experiment: profile.Experiment, Target: profile.means().Name, Runs: m.Runs, Window: profile.Window.summary(), VLAN: profile.VLAN, Seed: profile.Seed,
			BudgetNs: profile.Budget.Nanoseconds(), MoreBudgetsNs: moreBudgets, MeanOverNs: profile.MeanOver.Nanoseconds(), Samplers: string(profile.Samplers),
			Programs: environment.Programs},
		Clock:       &clock,
		Emulated:    environment.Emulated,
		NotMeasured: slices.Concat(profile.gaps(), environment.NotMeasured),
		Assertions:  []results.Assertion{},
		Warnings:    append([]string{}, environment.Warnings...),
		Problems:    []string{},
	}
}

// collector merges the measurements with the same key.
type collector struct {
	profile *Profile
	entries []*entry
	// witnesses are the watched runs of entries, with workload watched.
	witnesses []*entry
	problems  []string
	// cases are the cases of an experiment.
	cases            []Measured
	idle             *results.Idle
	usage            []results.UsageSample
	done             int
	stolenNs, tookNs int64
}

// entry is a run of the results while it is merged.
type entry struct {
	run results.Run
	// source is one of its runs, without the fields that differ.
	source Run
	// The samples of all alternations, for percentiles over them together.
	samples samples
	// parts are the latencies by repetition.
	parts [][]int64
	// measuredNs belong to the latencies; end is the measured time so far.
	measuredNs []int64
	end        int64
	resampled  *inference.Resampled
	// values are additional values by name, one for each repetition that has it.
	values map[string][]float64
}

func (c *collector) add(record *Record) error {
	c.done++
	c.stolenNs += record.StolenNs
	c.tookNs += record.TookNs
	c.usage = append(c.usage, record.Usage...)
	run := record.Run
	for _, problem := range record.Problems {
		c.problems = append(c.problems, fmt.Sprintf("%s, alternation %d: %s", run.about(), run.Alternation, problem))
	}
	if run.Case != nil {
		c.cases = append(c.cases, Measured{*run.Case, run.Repetition, &record.Outcome})
		return nil
	}
	if record.Idle != nil {
		c.idle = record.Idle
		return nil
	}
	if run.Witness {
		c.entry(run.Key).addWitness(record)
		watched := run.Key
		watched.Workload = results.WorkloadWatched
		if run.Workload == results.WorkloadPlain {
			entryIn(&c.witnesses, watched).add(record)
		}
		return nil
	}
	c.entry(run.Key).add(record)
	return nil
}

func (c *collector) entry(key results.Key) *entry { return entryIn(&c.entries, key) }

// find returns the entry of a key, or nil.
func (c *collector) find(key results.Key) *entry { return findIn(c.entries, key) }

func findIn(entries []*entry, key results.Key) *entry {
	for _, entry := range entries {
		if entry.run.Key() == key {
			return entry
		}
	}
	return nil
}

// entryIn returns the entry of a key, which it adds if needed.
func entryIn(entries *[]*entry, key results.Key) *entry {
	if known := findIn(*entries, key); known != nil {
		return known
	}
	added := &entry{run: results.Run{Path: key.Path, Workload: key.Workload, PayloadBytes: key.PayloadBytes, CycleNs: key.CycleNs}}
	*entries = append(*entries, added)
	return added
}

func (e *entry) add(record *Record) {
	measured := samplesOf(record.Messages, &record.Run)
	e.source = record.Run
	alternation := record.Observed
	measured.describe(&alternation.Distributions)
	e.run.Alternations = append(e.run.Alternations, alternation)
	e.samples.add(&measured)
	for len(e.parts) < record.Run.Repetition {
		e.parts = append(e.parts, nil)
	}
	e.parts[record.Run.Repetition-1] = append(e.parts[record.Run.Repetition-1], measured.latency...)
	e.addTimes(record)
	for name, value := range record.Values {
		if e.values == nil {
			e.values = map[string][]float64{}
		}
		e.values[name] = append(e.values[name], value)
	}
}

// addWitness takes from a watched run what the unwatched run of the same alternation lacks. Its arrival times are not
// used: watching may have delayed them.
func (e *entry) addWitness(record *Record) {
	if len(e.run.Alternations) == 0 {
		return // a store of an unknown program
	}
	seen := samplesOf(record.Messages, &record.Run)
	alternation := &e.run.Alternations[len(e.run.Alternations)-1]
	both := []results.Alternation{{Counts: alternation.Counts}, {Counts: record.Observed.Counts}}
	alternation.Counts = results.PoolCounts(both)
	alternation.LaunchError, alternation.Port = stats.Summarize(seen.launch), stats.Summarize(seen.port)
	alternation.RequestError = stats.SummarizeJitter(seen.request)
	alternation.Scheduled = stats.SummarizeSpread(seen.scheduled)
	alternation.MachineCores, alternation.MemoryBytes = record.Observed.MachineCores, record.Observed.MemoryBytes
	e.samples.launch = append(e.samples.launch, seen.launch...)
	e.samples.request = append(e.samples.request, seen.request...)
	e.samples.scheduled = append(e.samples.scheduled, seen.scheduled...)
	e.samples.port = append(e.samples.port, seen.port...)
}

// addTimes records for each latency when it was measured.
func (e *entry) addTimes(record *Record) {
	if len(record.Messages) == 0 {
		return
	}
	first := record.Messages[0].Txtime
	for i := range record.Messages {
		if message := &record.Messages[i]; message.Errno == 0 && message.Arrival != 0 {
			e.measuredNs = append(e.measuredNs, e.end+message.Txtime-first)
		}
	}
	e.end += int64(record.Run.Messages) * record.Run.CycleNs
}

// finish computes the figures over all alternations.
func (e *entry) finish() {
	run := &e.run
	e.samples.describe(&run.Distributions)
	run.Pool()
	run.SwitchShare = switchShare(run)
}

// sort restores the order of the matrix: the order of paths differs between repetitions.
func (c *collector) sort() {
	slices.SortStableFunc(c.entries, func(a, b *entry) int {
		first, second := a.run.Key(), b.run.Key()
		for _, difference := range []int{
			slices.Index(AllWorkloads, first.Workload) - slices.Index(AllWorkloads, second.Workload),
			int(first.CycleNs - second.CycleNs),
			slices.Index(c.profile.Payloads, first.PayloadBytes) - slices.Index(c.profile.Payloads, second.PayloadBytes),
			slices.Index(c.profile.Paths, first.Path) - slices.Index(c.profile.Paths, second.Path),
		} {
			if difference != 0 {
				return difference
			}
		}
		return 0
	})
}

// series returns the samples of the runs for drawings.
func (c *collector) series() []results.Series {
	all := make([]results.Series, len(c.entries))
	for i, entry := range c.entries {
		all[i] = results.Series{
			Key:         entry.run.Key(),
			LatencyNs:   entry.samples.latency,
			MeasuredNs:  entry.measuredNs,
			JitterNs:    entry.samples.jitter,
			LaunchNs:    entry.samples.launch,
			DepartureNs: entry.samples.departure,
		}
	}
	return all
}
