// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Difference is a figure in two benches.
type Difference struct {
	results.Key
	// Figure is the name in a run, such as latency_ns.p99; A and B are its values in nanoseconds.
	Figure string
	A, B   int64
	// Ratio is B / A, which lies between Low and High with a confidence of 95 %, including the error of the clocks.
	Ratio, Low, High float64
	// Doubt is why the latencies cannot be trusted, "" if they can.
	Doubt string
	// ClockErrorNs is the difference between A and B that the clocks alone can cause.
	ClockErrorNs int64
}

// Clear reports whether the range of the ratio is on one side of 1.
func (d *Difference) Clear() bool { return d.Doubt == "" && (d.Low > 1 || d.High < 1) }

// Clocks reports whether the error of the clocks can explain the difference.
func (d *Difference) Clocks() bool {
	return d.ClockErrorNs > 0 && max(d.B-d.A, d.A-d.B) <= d.ClockErrorNs
}

// Comparison compares two benches.
type Comparison struct {
	Differences []Difference
	// Cases are the common cases of an experiment.
	Cases []CaseDifference
	// OnlyA and OnlyB name measurements of only one bench.
	OnlyA, OnlyB []string
	// Unlike lists differences between the benches themselves.
	Unlike []string
	// Facts are the figures of both, for assertions.
	Facts *Facts
}

// Compare compares two stores. They were not measured in turns, so noise that hit only one of them is included.
func Compare(a, b *Store) (*Comparison, error) {
	entriesA, factsA, err := entriesOf(a)
	if err != nil {
		return nil, err
	}
	entriesB, factsB, err := entriesOf(b)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Unlike: unlike(&a.Manifest, &b.Manifest), Facts: Join(factsA, factsB)}
	random := rand.New(rand.NewPCG(a.Manifest.Profile.Seed, 1))
	for _, first := range entriesA.entries {
		second := entriesB.find(first.run.Key())
		if second == nil {
			c.OnlyA = append(c.OnlyA, first.run.Key().String())
			continue
		}
		c.Differences = append(c.Differences, differences(random, first, second)...)
	}
	for _, second := range entriesB.entries {
		if entriesA.find(second.run.Key()) == nil {
			c.OnlyB = append(c.OnlyB, second.run.Key().String())
		}
	}
	if err := c.compareExperiments(entriesA, entriesB); err != nil {
		return nil, err
	}
	return c, nil
}

// compareExperiments compares the results of the same experiment. It fails if the benches have nothing in common.
func (c *Comparison) compareExperiments(a, b *collector) error {
	if a.profile.Experiment != b.profile.Experiment {
		return fmt.Errorf("nothing is in both benches: A measured %s and B %s", cmp.Or(a.profile.Experiment, "messages"),
			cmp.Or(b.profile.Experiment, "messages"))
	}
	if experiment, err := a.profile.experiment(); err != nil {
		return err
	} else if experiment != nil {
		c.compareCases(a, b, experiment.Compared())
	}
	if len(c.Differences) == 0 && len(c.Cases) == 0 {
		return fmt.Errorf("nothing is in both benches: A has %d figures that B has not, and B %d", len(c.OnlyA), len(c.OnlyB))
	}
	return nil
}

func entriesOf(store *Store) (*collector, *Facts, error) {
	c, err := collect(store)
	if err != nil {
		return nil, nil, err
	}
	summary := &results.Summary{}
	for _, entry := range c.entries {
		entry.resampled = inference.NewResampled(entry.parts)
		summary.Runs = append(summary.Runs, &entry.run)
	}
	summary.Cases = casesOf(c.cases)
	facts, err := FactsOf(summary)
	return c, facts, err
}

func differences(random *rand.Rand, a, b *entry) []Difference {
	var all []Difference
	for _, figure := range compared {
		low, high, ok := inference.RatioRange(random, b.resampled, a.resampled, figure.hundredths, bootstrapRounds, confidence, inference.Apart)
		if !ok {
			continue
		}
		was, now := figure.figure(a.run.Latency), figure.figure(b.run.Latency)
		difference := Difference{Key: a.run.Key(), Figure: figure.name, A: was, B: now, Ratio: float64(now) / float64(was), Low: low, High: high,
			Doubt:        doubtAbout(b.run.ClockError, a.run.ClockError, float64(was)),
			ClockErrorNs: a.run.ClockError.CombinedNs() + b.run.ClockError.CombinedNs()}
		if difference.Doubt == "" {
			difference.Low, difference.High = widened(low, high, float64(now), float64(was), b.run.ClockError, a.run.ClockError)
		}
		all = append(all, difference)
	}
	return all
}

// unlike lists other possible causes of a difference.
func unlike(a, b *Manifest) []string {
	all := []string{}
	add := func(what string, first, second any) {
		if first != second {
			all = append(all, fmt.Sprintf("the %s differs: %v and %v", what, first, second))
		}
	}
	if field := firstDifference(a.Profile, b.Profile); field != "" {
		all = append(all, fmt.Sprintf("the profiles differ, in %s first", field))
	}
	add("kernel", a.Host.Kernel, b.Host.Kernel)
	add("processor", a.Host.CPUModel, b.Host.CPUModel)
	add("number of processors", a.Host.Cores, b.Host.Cores)
	for name, sum := range a.Environment.Programs {
		if second, known := b.Environment.Programs[name]; known && second != sum {
			all = append(all, fmt.Sprintf("%s is another build", name))
		}
	}
	return all
}
