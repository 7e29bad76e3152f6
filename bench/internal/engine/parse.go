// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// maxProfileBytes is far more than any profile needs.
const maxProfileBytes = 1 << 20

// ReadProfile reads a shipped profile by its name, or a file, for a kind of target.
func ReadProfile(nameOrPath string, on *Means) (*Profile, error) {
	if text, shipped := shippedProfile(nameOrPath); shipped {
		return ParseProfile("shipped profile "+nameOrPath, text, on)
	}
	file, err := os.Open(nameOrPath)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is neither a file nor a shipped profile; those are %s", nameOrPath, strings.Join(ShippedProfiles(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxProfileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	return ParseProfile(nameOrPath, data, on)
}

// ParseProfile reads and checks a profile. Errors are *errortext.FileError with name as the file.
func ParseProfile(name string, data []byte, on *Means) (*Profile, error) {
	if len(data) > maxProfileBytes {
		return nil, &errortext.FileError{File: name, Message: fmt.Sprintf("is longer than %d bytes, and no profile is", maxProfileBytes)}
	}
	p := &profileParser{profile: Defaults(), fields: map[string]*yaml.Node{}, keys: map[string]int{}}
	if err := p.parse(data, on); err != nil {
		err.File = name
		return nil, err
	}
	return &p.profile, nil
}

// profileParser records the position of each field for later checks.
type profileParser struct {
	profile Profile
	fields  map[string]*yaml.Node
	keys    map[string]int
}

// readers set a field of a profile from its value. An error is the end of a message that begins with the field.
var readers = map[string]func(*Profile, *yaml.Node) error{
	"name":              func(p *Profile, n *yaml.Node) (err error) { p.Name, err = text(n); return err },
	"about":             func(p *Profile, n *yaml.Node) (err error) { p.About, err = text(n); return err },
	"target":            readTarget,
	"paths":             func(p *Profile, n *yaml.Node) (err error) { p.Paths, err = list(n, text); return err },
	"paths-if-possible": func(p *Profile, n *yaml.Node) (err error) { p.IfPossible, err = list(n, text); return err },
	"workloads":         func(p *Profile, n *yaml.Node) (err error) { p.Workloads, err = list(n, workload); return err },
	"payloads":          func(p *Profile, n *yaml.Node) (err error) { p.Payloads, err = list(n, number); return err },
	"cycles":            func(p *Profile, n *yaml.Node) (err error) { p.Cycles, err = list(n, duration); return err },
	"messages":          func(p *Profile, n *yaml.Node) (err error) { p.Messages, err = number(n); return err },
	"repetitions":       func(p *Profile, n *yaml.Node) (err error) { p.Repetitions, err = number(n); return err },
	"warm-up":           func(p *Profile, n *yaml.Node) (err error) { p.WarmUp, err = number(n); return err },
	"talkers":           func(p *Profile, n *yaml.Node) (err error) { p.Talkers, err = number(n); return err },
	"pinning":           readPinning,
	"spin":              func(p *Profile, n *yaml.Node) (err error) { p.Spin, err = duration(n); return err },
	"lead":              func(p *Profile, n *yaml.Node) (err error) { p.Lead, err = duration(n); return err },
	"window":            readWindow,
	"vlan":              func(p *Profile, n *yaml.Node) (err error) { return Number(&p.VLAN, 1, 4094)(n) },
	"samplers":          readSamplers,
	"idle":              func(p *Profile, n *yaml.Node) (err error) { p.Idle, err = duration(n); return err },
	"budget":            readBudget,
	"mean-over":         func(p *Profile, n *yaml.Node) (err error) { p.MeanOver, err = duration(n); return err },
	"max-clock-error":   readMaxClockError,
	"seed":              readSeed,
	"experiment":        readExperimentName,
	"with":              func(*Profile, *yaml.Node) error { return nil }, // read by the experiment, which may be named after it
	"assert":            func(p *Profile, n *yaml.Node) (err error) { p.Assert, err = list(n, text); return err },
}

// readBudget reads a duration, or a list of durations.
func readBudget(p *Profile, n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		var err error
		p.Budget, err = duration(n)
		return err
	}
	all, err := list(n, duration)
	if err == nil && len(all) == 0 {
		err = errors.New("is empty; give a duration, or leave it out")
	}
	if err == nil {
		p.Budget, p.MoreBudgets = all[0], all[1:]
	}
	return err
}

func (p *profileParser) parse(data []byte, on *Means) *errortext.FileError {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return &errortext.FileError{Message: "is empty; it must name paths at least"}
	} else if err != nil {
		return errortext.Syntax("is no YAML", err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return &errortext.FileError{Line: second.Line, Message: "holds more than one document; a file holds one profile"}
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return &errortext.FileError{Line: root.Line, Message: "is no list of fields, such as `paths: [direct]`"}
	}
	for pair := range slices.Chunk(root.Content, 2) {
		if fault := p.read(pair[0], pair[1]); fault != nil {
			return fault
		}
	}
	if err := p.readExperiment(); err != nil {
		return p.located(err)
	}
	switch p.profile.Target {
	case on.Name:
	case "":
		p.profile.settle(on)
	default:
		return p.locate(fault("target", -1, "%v", otherTarget(p.profile.Target, on)))
	}
	if fault := p.profile.Check(); fault != nil {
		return p.locate(fault)
	}
	p.profile.possible()
	return p.checkAssertions()
}

func (p *profileParser) read(key, value *yaml.Node) *errortext.FileError {
	reader, known := readers[key.Value]
	if !known {
		return &errortext.FileError{Line: key.Line, Field: key.Value, Message: "is no field of a profile; those are " +
			strings.Join(slices.Sorted(maps.Keys(readers)), ", ")}
	}
	if line, twice := p.keys[key.Value]; twice {
		return &errortext.FileError{Line: key.Line, Field: key.Value, Message: fmt.Sprintf("is given twice; line %d has it, too", line)}
	}
	p.keys[key.Value], p.fields[key.Value] = key.Line, value
	if value.Kind == yaml.AliasNode || value.Anchor != "" {
		return &errortext.FileError{Line: key.Line, Field: key.Value, Message: "has an anchor or alias; write the value itself"}
	}
	if err := reader(&p.profile, value); err != nil {
		line := value.Line
		var within *lineError
		if errors.As(err, &within) {
			line = within.line
		}
		return &errortext.FileError{Line: line, Field: key.Value, Message: err.Error()}
	}
	return nil
}

// located returns the line of an error below `with`.
func (p *profileParser) located(err error) *errortext.FileError {
	var field *Fault
	if errors.As(err, &field) {
		return p.locate(field)
	}
	located := &errortext.FileError{Line: p.keys["with"], Field: "with", Message: err.Error()}
	var within *lineError
	if errors.As(err, &within) {
		located.Line = within.line
	}
	return located
}

// locate returns the line of a fault.
func (p *profileParser) locate(fault *Fault) *errortext.FileError {
	located := &errortext.FileError{Line: p.keys[fault.Field], Field: fault.Field, Message: fault.Message}
	if value := p.fields[fault.Field]; value != nil && fault.Item >= 0 && fault.Item < len(value.Content) {
		located.Line = value.Content[fault.Item].Line
	}
	return located
}

// checkAssertions returns an error for invalid expressions; the names in them can only be checked after the
// measurement.
func (p *profileParser) checkAssertions() *errortext.FileError {
	for i, expression := range p.profile.Assert {
		if err := CheckAssertion(expression); err != nil {
			return p.locate(fault("assert", i, "%v", err))
		}
	}
	return nil
}

// lineError is an error within a value of several lines.
type lineError struct {
	line int
	error
}

func (e *lineError) Unwrap() error { return e.error }

// at adds the line of a value, unless the error has a more exact one.
func at(n *yaml.Node, err error) error {
	line := n.Line
	var within *lineError
	if errors.As(err, &within) {
		line = within.line
	}
	return &lineError{line, err}
}

// shown formats a value for messages.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a list of fields"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "empty"
	}
	return fmt.Sprintf("%.40q", n.Value)
}

func text(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return "", fmt.Errorf("is %s; must be a text", shown(n))
	}
	return n.Value, nil
}

func number(n *yaml.Node) (value int, err error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&value) != nil {
		return 0, fmt.Errorf("is %s; must be a whole number", shown(n))
	}
	return value, nil
}

func duration(n *yaml.Node) (time.Duration, error) {
	value, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return 0, fmt.Errorf("is %s; must be a duration with its unit, such as 500us, 1ms or 2s", shown(n))
	}
	return value, nil
}

// itemOpening is the beginning of a message about an item of a list.
const itemOpening = "an item "

// list reads a list with a function for its items.
func list[T any](n *yaml.Node, item func(*yaml.Node) (T, error)) ([]T, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("is %s; must be a list, such as [a, b]", shown(n))
	}
	all := make([]T, 0, len(n.Content))
	for _, node := range n.Content {
		value, err := item(node)
		if err != nil {
			return nil, at(node, fmt.Errorf(itemOpening+"%w", err))
		}
		all = append(all, value)
	}
	return all, nil
}

// workload reads a name, or fields including the name.
func workload(n *yaml.Node) (Workload, error) {
	var parsed Workload
	if n.Kind == yaml.ScalarNode {
		name, err := text(n)
		return Workload{Name: name}, err
	}
	return parsed, members(n, "a workload", map[string]func(*yaml.Node) error{
		"name":     func(n *yaml.Node) (err error) { parsed.Name, err = text(n); return err },
		"paths":    func(n *yaml.Node) (err error) { parsed.Paths, err = list(n, text); return err },
		"payloads": func(n *yaml.Node) (err error) { parsed.Payloads, err = list(n, number); return err },
		"messages": func(n *yaml.Node) (err error) { parsed.Messages, err = number(n); return err },
	})
}

// members reads the fields of a structured value.
func members[F ~func(*yaml.Node) error](n *yaml.Node, what string, readers map[string]F) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("is %s; must be a list of fields", shown(n))
	}
	for pair := range slices.Chunk(n.Content, 2) {
		name := pair[0].Value
		reader, known := readers[name]
		if !known {
			return &lineError{pair[0].Line, fmt.Errorf("has %s, which is no field of %s; those are %s", name, what,
				strings.Join(slices.Sorted(maps.Keys(readers)), ", "))}
		}
		if err := reader(pair[1]); err != nil {
			which := "which"
			if strings.HasPrefix(err.Error(), itemOpening) {
				which = "of which"
			}
			return at(pair[1], fmt.Errorf("has %s, %s %w", name, which, err))
		}
	}
	return nil
}

func readTarget(p *Profile, n *yaml.Node) error {
	if n.Value != Namespaces.Name && n.Value != Guest.Name && n.Value != Cluster.Name {
		return fmt.Errorf("is %s; must be %s, %s or %s", shown(n), Namespaces.Name, Guest.Name, Cluster.Name)
	}
	p.Target = n.Value
	return nil
}

func readPinning(p *Profile, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && (n.Value == PinAuto || n.Value == PinNone) {
		p.Pinning = Pinning{Mode: n.Value}
		return nil
	}
	p.Pinning = Pinning{Mode: PinGiven, Sender: -1, Listener: -1}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("is %s; must be auto, none, or {sender: N, listener: N}", shown(n))
	}
	err := members(n, "pinning", map[string]func(*yaml.Node) error{
		"sender":   func(n *yaml.Node) (err error) { p.Pinning.Sender, err = number(n); return err },
		"listener": func(n *yaml.Node) (err error) { p.Pinning.Listener, err = number(n); return err },
	})
	if err == nil && (p.Pinning.Sender < 0 || p.Pinning.Listener < 0) {
		return errors.New("must give a processor each, from 0, to sender and listener")
	}
	return err
}

func readSamplers(p *Profile, n *yaml.Node) error {
	var on bool
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == string(SamplersApart):
		p.Samplers = SamplersApart
	case n.Kind != yaml.ScalarNode || n.Decode(&on) != nil:
		return fmt.Errorf("is %s; must be apart, on or off", shown(n))
	case on:
		p.Samplers = SamplersOn
	default:
		p.Samplers = SamplersOff
	}
	return nil
}

// readMaxClockError rejects 0s, with which no two clocks could be measured.
func readMaxClockError(p *Profile, n *yaml.Node) (err error) {
	if p.MaxClockError, err = duration(n); err == nil && p.MaxClockError == 0 {
		return fmt.Errorf("is %s; must be more than 0s, or be left out: then the error may be as large as the median of the latencies", shown(n))
	}
	return err
}

func readSeed(p *Profile, n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&p.Seed) != nil {
		return fmt.Errorf("is %s; must be a whole number from 0", shown(n))
	}
	return nil
}
