// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
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
	p := &profileParser{profile: Defaults()}
	if err := p.parse(data, on); err != nil {
		err.File = name
		return nil, err
	}
	return &p.profile, nil
}

// profileParser keeps the values of the fields for the positions of later faults.
type profileParser struct {
	profile Profile
	values  map[string]yaml.Node
}

// fields returns the fields of a profile by name.
func (p *Profile) fields() Fields {
	return Fields{
		"name": &p.Name, "about": &p.About, "target": &p.Target, "paths": &p.Paths, "paths-if-possible": &p.IfPossible,
		"workloads": &p.Workloads, "payloads": &p.Payloads, "cycles": &p.Cycles,
		"messages":        Within(&p.Messages, 2, maxMessages),
		"repetitions":     Within(&p.Repetitions, 1, maxRepetitions),
		"warm-up":         Within(&p.WarmUp, 0, 10_000),
		"talkers":         Within(&p.Talkers, 2, maxTalkers),
		"pinning":         &p.Pinning,
		"spin":            Within(&p.Spin, 0, maxSpin),
		"lead":            &p.Lead,
		"window":          &p.Window,
		"vlan":            Within(&p.VLAN, 1, 4094),
		"samplers":        &p.Samplers,
		"idle":            Within(&p.Idle, 0, time.Minute),
		"budget":          Field(p.readBudget),
		"mean-over":       Within(&p.MeanOver, 0, time.Hour),
		"max-clock-error": Within(&p.MaxClockError, 1, time.Second),
		"seed":            &p.Seed,
		"experiment":      &p.Experiment,
		"with":            Field(func(*yaml.Node) error { return nil }), // read by the experiment, which may be named after it
		"assert":          &p.Assert,
	}
}

// readBudget reads a duration, or a list of durations.
func (p *Profile) readBudget(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return n.Decode(&p.Budget)
	}
	if err := n.Decode(&p.MoreBudgets); err != nil {
		return err
	}
	if len(p.MoreBudgets) == 0 {
		return errors.New("is empty; give a duration, or leave it out")
	}
	p.Budget, p.MoreBudgets = p.MoreBudgets[0], p.MoreBudgets[1:]
	return nil
}

// UnmarshalYAML reads a name, or fields including the name.
func (w *Workload) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&w.Name)
	}
	return Fields{"name": &w.Name, "paths": &w.Paths, "payloads": &w.Payloads, "messages": &w.Messages}.read(n, "a workload")
}

// UnmarshalYAML reads a mode, or two processors.
func (p *Pinning) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && (n.Value == PinAuto || n.Value == PinNone) {
		*p = Pinning{Mode: n.Value}
		return nil
	}
	*p = Pinning{Mode: PinGiven, Sender: -1, Listener: -1}
	if n.Kind != yaml.MappingNode {
		return errors.New("must be auto, none, or {sender: N, listener: N}")
	}
	err := Fields{"sender": &p.Sender, "listener": &p.Listener}.read(n, "pinning")
	if err == nil && (p.Sender < 0 || p.Listener < 0) {
		return errors.New("must give a processor each, from 0, to sender and listener")
	}
	return err
}

// UnmarshalYAML reads the fields of a window.
func (w *Window) UnmarshalYAML(n *yaml.Node) error {
	return Fields{"open": &w.Open, "close": &w.Close, "offset": &w.Offset, "guest-early": &w.GuestEarly,
		"stretch": Within(&w.Stretch, 1, maxStretch)}.read(n, "a window")
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
	profile := &p.profile
	if err := profile.fields().read(document.Content[0], "a profile"); err != nil {
		return p.locate(err)
	}
	if err := document.Decode(&p.values); err != nil {
		return p.locate(err)
	}
	if err := p.readExperiment(); err != nil {
		return p.locate(err)
	}
	switch profile.Target {
	case on.Name:
	case "":
		profile.settle(on)
	case Namespaces.Name, Guest.Name, Cluster.Name:
		return p.locate(fault("target", -1, "%v", otherTarget(profile.Target, on)))
	default:
		return p.locate(fault("target", -1, "is %q; must be %s, %s or %s", profile.Target, Namespaces.Name, Guest.Name, Cluster.Name))
	}
	if fault := profile.Check(); fault != nil {
		return p.locate(fault)
	}
	profile.possible()
	for i, expression := range profile.Assert { // the names in them can only be checked after the measurement
		if err := CheckAssertion(expression); err != nil {
			return p.locate(fault("assert", i, "%v", err))
		}
	}
	return nil
}

// locate adds the line to an error.
func (p *profileParser) locate(err error) *errortext.FileError {
	located := &errortext.FileError{Message: err.Error()}
	var field *Fault
	var within *lineError
	if errors.As(err, &field) {
		value := p.values[field.Field]
		located.Line, located.Field = value.Line, field.Field
		if field.Item >= 0 && field.Item < len(value.Content) {
			located.Line = value.Content[field.Item].Line
		}
	}
	if errors.As(err, &within) {
		located.Line = within.line
	}
	return located
}

//go:embed profiles/*.yaml
var shipped embed.FS

// ShippedProfiles are the names of the profiles in the program.
func ShippedProfiles() []string {
	entries, err := shipped.ReadDir("profiles")
	if err != nil {
		return nil // impossible: the folder is embedded
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = strings.TrimSuffix(entry.Name(), ".yaml")
	}
	return names
}

// shippedProfile returns the text of a shipped profile as a template; false if there is none of that name.
func shippedProfile(name string) ([]byte, bool) {
	text, err := shipped.ReadFile("profiles/" + name + ".yaml")
	return text, err == nil && name != ""
}
