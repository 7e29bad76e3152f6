// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Experiment is a measurement other than messages between talkers and listeners, with its own programs, cases and
// figures. A profile names it (`experiment: NAME`) and configures it (`with: {…}`); the engine provides order,
// resumption, progress, storage and the page. A value belongs to one profile, and is stored as JSON in the bench's
// folder: settings are exported fields.
type Experiment interface {
	// Fields read the settings under `with`, by name.
	Fields() Fields
	// Check returns an error, which begins with the field's name, for settings that cannot be measured.
	Check(*Profile) error
	// Cases returns the cases of one repetition in order. All repetitions have the same cases; if consecutive cases
	// have one name and different paths, each repetition begins with another path.
	Cases(*Profile) []Case
	// Perform measures one case; the target is in its setting.
	Perform(context.Context, Target, *Profile, *Case) (*Outcome, error)
	// Report returns the results of the measured cases; some may be missing.
	Report(*Profile, []Measured) Findings
	// Compared returns the names of the most significant values, by which two benches are compared. Percentiles have
	// the name of the samples with _p50, _p90, _p99, _p99_9 or _max appended.
	Compared() []string
}

// Case is one measurement, made once in each repetition.
type Case struct {
	// Name consists of letters, digits, '-' and '.', and identifies the case together with the path. Experiments find the
	// settings of a case by it.
	Name string `json:"name"`
	// Path is one of the profile's, or empty if paths mean nothing.
	Path string `json:"path,omitempty"`
	// LastsNs is the approximate duration.
	LastsNs int64 `json:"lasts_ns"`
	// Setting is the required setting of the target.
	Setting Setting `json:"-"`
}

// Measured is a measured case.
type Measured struct {
	Case       Case
	Repetition int
	*Outcome
}

// Findings are an experiment's results.
type Findings struct {
	Sections []results.Section
	Figures  []results.Figure
	// Gaps are what could not be measured, and why.
	Gaps []results.Gap
}

// experiments create an experiment with its defaults, by name.
var experiments = map[string]func() Experiment{}

// Register registers an experiment. It is called before any profile is read.
func Register(name string, create func() Experiment) { experiments[name] = create }

// notWithExperiment are fields that have no meaning for an experiment, which has its own under `with`.
var notWithExperiment = []string{"workloads", "payloads", "cycles", "messages", "warm-up", "talkers", "window", "vlan", "samplers", "idle",
	"budget", "mean-over", "max-clock-error"}

// readExperiment completes a profile with an experiment after all its fields were read.
func (p *profileParser) readExperiment() error {
	profile := &p.profile
	with, given := p.values["with"]
	if profile.Experiment == "" {
		if given {
			return fault("with", -1, "given, and no experiment that it could be for; add one of %v, or leave it out", experimentNames())
		}
		return nil
	}
	create := experiments[profile.Experiment]
	if create == nil {
		return fault("experiment", -1, "is %q; must be one of %s", profile.Experiment, strings.Join(experimentNames(), ", "))
	}
	for _, name := range notWithExperiment {
		if _, given := p.values[name]; given {
			return fault(name, -1, "given, and an experiment (%s), which has its own settings below `with`; leave it out", profile.Experiment)
		}
	}
	profile.Workloads, profile.Samplers = nil, SamplersOff
	experiment := create()
	if given {
		if err := experiment.Fields().read(&with, "experiment "+profile.Experiment); err != nil {
			return fmt.Errorf("with: %w", err)
		}
	}
	settings, err := json.Marshal(experiment)
	profile.With = settings
	return err
}

func experimentNames() []string { return slices.Sorted(maps.Keys(experiments)) }

// experiment returns the profile's experiment with its settings, nil if there is none.
func (p *Profile) experiment() (Experiment, error) {
	if p.Experiment == "" {
		return nil, nil
	}
	create := experiments[p.Experiment]
	if create == nil {
		return nil, fmt.Errorf("the bench is of experiment %q, which this ktsn does not know", p.Experiment)
	}
	created := create()
	if err := json.Unmarshal(p.With, created); err != nil {
		return nil, fmt.Errorf("read the settings of experiment %s: %w", p.Experiment, err)
	}
	return created, nil
}

// checkExperiment replaces the checks for messages.
func (p *Profile) checkExperiment() *Fault {
	experiment, err := p.experiment()
	if err == nil {
		err = experiment.Check(p)
	}
	if err != nil {
		return fault("with", -1, "%v", err)
	}
	return nil
}

// inTurn rotates the paths, so that each repetition begins with another one.
func inTurn(cases []Case, repetition int) []Case {
	all := make([]Case, 0, len(cases))
	for len(cases) > 0 {
		same := slices.IndexFunc(cases, func(c Case) bool { return c.Name != cases[0].Name })
		if same < 0 {
			same = len(cases)
		}
		begin := (repetition - 1) % same
		all = append(append(all, cases[begin:same]...), cases[:begin]...)
		cases = cases[same:]
	}
	return all
}

// planExperiment returns the plan of a profile with an experiment: its cases in order, one repetition after the other.
func planExperiment(profile *Profile) []Block {
	experiment, err := profile.experiment()
	if err != nil {
		return nil // a profile that was read has one
	}
	var blocks []Block
	number := 0
	for repetition := 1; repetition <= profile.Repetitions; repetition++ {
		for _, c := range inTurn(experiment.Cases(profile), repetition) {
			if len(blocks) == 0 || blocks[len(blocks)-1].Setting != c.Setting {
				blocks = append(blocks, Block{Setting: c.Setting})
			}
			number++
			last := &blocks[len(blocks)-1]
			last.Runs = append(last.Runs, Run{Key: results.Key{Path: c.Path, Workload: profile.Experiment}, Number: number,
				Repetition: repetition, Alternation: repetition, Case: &c})
		}
	}
	return blocks
}

// experimentTarget hands cases to their experiment.
type experimentTarget struct {
	Target
	profile    *Profile
	experiment Experiment
}

// Perform makes a case, or whatever else the target makes.
func (e *experimentTarget) Perform(ctx context.Context, run Run) (*Outcome, error) {
	if run.Case == nil {
		return e.Target.Perform(ctx, run)
	}
	return e.experiment.Perform(ctx, e.Target, e.profile, run.Case)
}

// ForProfile is a target that also makes the cases of the profile's experiment, if it names one.
func ForProfile(target Target, profile *Profile) (Target, error) {
	experiment, err := profile.experiment()
	if experiment == nil || err != nil {
		return target, err
	}
	return &experimentTarget{target, profile, experiment}, nil
}

// report adds what the experiment found.
func (c *collector) report(summary *results.Summary) error {
	experiment, err := c.profile.experiment()
	if experiment == nil || err != nil {
		return err
	}
	summary.Cases = casesOf(c.cases)
	findings := experiment.Report(c.profile, c.cases)
	summary.Sections = append(summary.Sections, findings.Sections...)
	summary.Figures = append(summary.Figures, findings.Figures...)
	summary.NotMeasured = append(summary.NotMeasured, findings.Gaps...)
	return nil
}
