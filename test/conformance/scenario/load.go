// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// defaultETFDelta is how early etf may send unless a scenario says otherwise.
	defaultETFDelta = 20_000_000
	// minPayload gives a frame of at least 60 bytes, which needs no padding. maxPayload fills an IPv4 packet.
	minPayload, maxPayload = 18, 65507
	// minWindow is long enough that the emulation's slowness does not matter.
	minWindow = 50_000_000
)

// Load reads all scenarios of a folder, in the order of their names.
func Load(dir string) ([]Scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no scenarios in %s", dir)
	}
	var scenarios []Scenario
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		parsed, err := Parse(strings.TrimSuffix(filepath.Base(file), ".json"), content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		scenarios = append(scenarios, *parsed)
	}
	return scenarios, nil
}

// Parse parses and checks a scenario.
func Parse(name string, content []byte) (*Scenario, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	parsed := &Scenario{ETFDelta: defaultETFDelta}
	if err := decoder.Decode(parsed); err != nil {
		return nil, err
	}
	if parsed.Name != "" {
		return nil, errors.New("name: it is the file's name, leave it out")
	}
	parsed.Name = name
	if err := parsed.check(); err != nil {
		return nil, err
	}
	return parsed, nil
}

func (s *Scenario) check() error {
	switch {
	case s.Title == "":
		return errors.New("title is missing")
	case len(s.Messages) == 0:
		return errors.New("messages: there are none")
	case s.Strategy == TAS && (len(s.Schedules) == 0 || s.Grid != 0):
		return errors.New("the strategy tas is compared by its schedules: give at least one, and no grid-ns")
	case s.Strategy != TAS && (len(s.Schedules) != 0 || s.Grid < minWindow):
		return fmt.Errorf("the strategy %s is compared by a grid: give grid-ns of at least %d, and no schedules",
			s.Strategy, minWindow)
	case s.Strategy != TAS && !s.Timed():
		return fmt.Errorf("the strategy %s needs a txtime-ns in each message", s.Strategy)
	}
	if err := s.checkSchedules(); err != nil {
		return err
	}
	if err := s.checkMessages(); err != nil {
		return err
	}
	return s.checkDeviations()
}

func (s *Scenario) checkSchedules() error {
	for i, schedule := range s.Schedules {
		table := schedule.Table
		if !table.GateEnabled || len(table.ControlList.Entries) == 0 || table.CycleTime.Denominator < 1 {
			return fmt.Errorf("schedule %d: taprio has gate-enabled true, entries and a cycle time", i)
		}
		if i == 0 && schedule.At > -setUpTime {
			return fmt.Errorf("schedule 0: at-ns is %d, but setting up takes %d", schedule.At, setUpTime)
		}
		if i > 0 && schedule.At <= s.Schedules[i-1].At {
			return fmt.Errorf("schedule %d: at-ns must be after that of the one before", i)
		}
		for j, entry := range table.ControlList.Entries {
			if entry.Index != j || entry.Operation != "set-gate-states" || entry.TimeInterval < minWindow {
				return fmt.Errorf("schedule %d: entry %d: want this index, the operation set-gate-states, and a "+
					"time-interval-value of at least %d", i, j, minWindow)
			}
		}
	}
	return nil
}

func (s *Scenario) checkMessages() error {
	seen := map[uint32]bool{}
	for i, message := range s.Messages {
		switch {
		case seen[message.ID]:
			return fmt.Errorf("message %d: there are two of them", message.ID)
		case message.Priority < 0 || message.Priority >= len(classOfPriority):
			return fmt.Errorf("message %d: priority %d; give 0 to %d", message.ID, message.Priority,
				len(classOfPriority)-1)
		case message.PayloadBytes < minPayload || message.PayloadBytes > maxPayload:
			return fmt.Errorf("message %d: payload-bytes %d; give %d to %d", message.ID, message.PayloadBytes,
				minPayload, maxPayload)
		case i > 0 && message.HandedOver < s.Messages[i-1].HandedOver:
			return fmt.Errorf("message %d: list the messages in the order in which they are handed over", message.ID)
		case (message.TransmitTime != nil) != s.Timed():
			return fmt.Errorf("message %d: all messages have a txtime-ns, or none has", message.ID)
		case message.HandedOver >= s.Until:
			return fmt.Errorf("message %d: it is handed over after until-ns", message.ID)
		}
		seen[message.ID] = true
	}
	return nil
}

func (s *Scenario) checkDeviations() error {
	known, declared := map[uint32]bool{}, map[uint32]bool{}
	for _, message := range s.Messages {
		known[message.ID] = true
	}
	for i, deviation := range s.Deviations {
		if deviation.Shaper == "" || deviation.Kernel == "" || deviation.Kind == "" || deviation.Reason == "" ||
			len(deviation.Messages) == 0 {
			return fmt.Errorf("deviation %d: it needs messages, shaper, kernel, kind and reason", i)
		}
		for _, id := range deviation.Messages {
			if !known[id] || declared[id] {
				return fmt.Errorf("deviation %d: message %d does not exist or has another deviation", i, id)
			}
			declared[id] = true
		}
	}
	return nil
}
