// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Experiment is a measurement of another kind than messages between talkers and listeners: with programs, cases and
// figures of its own. A profile names it (`experiment: NAME`) and tells it more (`with: {…}`); order, resumption, progress,
// storage and the page are the engine's. One value belongs to one profile, and is written as JSON into the folder of
// a bench: what a profile sets are exported fields.
type Experiment interface {
	// Fields read what a profile can say under `with`, by name.
	Fields() map[string]Field
	// Check finds, in a sentence that begins with the field's name, what cannot be measured.
	Check(*Profile) error
	// Cases are those of one repetition, in their order. Every repetition has the same; of cases with one name, which follow each
	// other and differ in their path, another begins each time.
	Cases(*Profile) []Case
	// Perform measures one case; the target is in its setting.
	Perform(context.Context, Target, *Profile, *Case) (*Outcome, error)
	// Report says what the cases mean that were measured; some may be missing.
	Report(*Profile, []Measured) Findings
	// Compared are the names of the values that say most: two benches are compared by them. Percentiles of samples have the name
	// of those, and _p50, _p90, _p99, _p99_9 or _max behind it.
	Compared() []string
}

// Case is one thing to measure, once in each repetition.
type Case struct {
	// Name is of letters, digits, '-' and '.', and with the path tells the case from others.
	Name string `json:"name"`
	// Path is among those of the profile, or empty where paths mean nothing.
	Path string `json:"path,omitempty"`
	// Of is what the case is about, as the experiment needs it.
	Of map[string]string `json:"of,omitempty"`
	// LastsNs is about how long it takes.
	LastsNs int64 `json:"lasts_ns"`
	// Setting is how it wants the target.
	Setting Setting `json:"-"`
}

// Measured is a case that was measured.
type Measured struct {
	Case       Case
	Repetition int
	*Outcome
}

// Findings are what an experiment makes of its cases.
type Findings struct {
	Sections []results.Section
	Figures  []results.Figure
	// Gaps are what could not be measured, and why.
	Gaps []results.Gap
}

// experiments make an experiment with its defaults, by name.
var experiments = map[string]func() Experiment{}

// Register makes an experiment known. It is called before any profile is read.
func Register(name string, create func() Experiment) { experiments[name] = create }

// Field reads a value; an error is the end of a sentence whose beginning is the field.
type Field func(*yaml.Node) error

// Number is a field of a whole number.
func Number(to *int, least, most int) Field {
	return func(n *yaml.Node) error {
		value, err := number(n)
		if err == nil && (value < least || value > most) {
			err = fmt.Errorf("is %d; give %d to %d", value, least, most)
		}
		if err == nil {
			*to = value
		}
		return err
	}
}

// Numbers is a field of a list of whole numbers, each of them once.
func Numbers(to *[]int, least, most int) Field {
	return func(n *yaml.Node) error {
		values, err := list(n, func(n *yaml.Node) (number int, err error) {
			err = Number(&number, least, most)(n)
			return number, err
		})
		if err == nil {
			err = eachOnce(values)
		}
		if err == nil {
			*to = values
		}
		return err
	}
}

// Mappings is a field of a list of values that have fields of their own. Each begins as a copy of one; what names it in a sentence.
func Mappings[T any](to *[]T, what string, begin func() T, fields func(*T) map[string]Field) Field {
	return func(n *yaml.Node) error {
		values, err := list(n, func(n *yaml.Node) (T, error) {
			value := begin()
			err := members(n, what, fields(&value))
			return value, err
		})
		if err == nil && len(values) == 0 {
			err = errors.New("is empty; give at least one")
		}
		if err == nil {
			*to = values
		}
		return err
	}
}

// Words is a field of a list of names, each of them known and once.
func Words(to *[]string, known ...string) Field {
	return func(n *yaml.Node) error {
		values, err := list(n, func(n *yaml.Node) (string, error) {
			word, err := text(n)
			if err == nil && !slices.Contains(known, word) {
				err = fmt.Errorf("is %q; give some of %v", word, known)
			}
			return word, err
		})
		if err == nil {
			err = eachOnce(values)
		}
		if err == nil {
			*to = values
		}
		return err
	}
}

func eachOnce[T comparable](values []T) error {
	if len(values) == 0 {
		return errors.New("is empty; give at least one")
	}
	for i, value := range values {
		if slices.Contains(values[:i], value) {
			return fmt.Errorf("has %v twice; give each once", value)
		}
	}
	return nil
}

// Span is a field of a duration.
func Span(to *time.Duration, least, most time.Duration) Field {
	return func(n *yaml.Node) error {
		value, err := duration(n)
		if err == nil && (value < least || value > most) {
			err = fmt.Errorf("is %v; give %v to %v", value, least, most)
		}
		if err == nil {
			*to = value
		}
		return err
	}
}

// notWithExperiment are fields that say nothing to an experiment, which has its own below `with`.
var notWithExperiment = []string{"workloads", "payloads", "cycles", "messages", "warm-up", "talkers", "window", "vlan", "samplers", "idle",
	"budget", "mean-over", "max-clock-error"}

// readExperiment completes a profile that names an experiment, once all its fields are known.
func (p *profileParser) readExperiment() error {
	profile, with := &p.profile, p.fields["with"]
	if profile.Experiment == "" {
		if with != nil {
			return fault("with", -1, "given, and no experiment that it could be for; add one of %v, or leave it out", experimentNames())
		}
		return nil
	}
	for _, name := range notWithExperiment {
		if p.fields[name] != nil {
			return fault(name, -1, "given, and an experiment (%s), which has its own settings below `with`; leave it out", profile.Experiment)
		}
	}
	profile.Workloads, profile.Samplers = nil, SamplersOff
	experiment := experiments[profile.Experiment]()
	if with != nil {
		if err := members(with, "experiment "+profile.Experiment, experiment.Fields()); err != nil {
			return err
		}
	}
	settings, err := json.Marshal(experiment)
	profile.With = settings
	return err
}

func experimentNames() []string { return slices.Sorted(maps.Keys(experiments)) }

func readExperimentName(p *Profile, n *yaml.Node) error {
	name, err := text(n)
	if err == nil && experiments[name] == nil {
		err = fmt.Errorf("is %q; must be one of %s", name, strings.Join(experimentNames(), ", "))
	}
	p.Experiment = name
	return err
}

// experiment is the one that the profile names, with its settings; nil when it names none.
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

// checkExperiment takes the place of what is checked of messages.
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

// inTurn has another path begin in each repetition.
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

// planExperiment is the plan of a profile with an experiment: its cases in their order, one repetition after the other.
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
