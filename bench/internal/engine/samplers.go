// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Samplers says which runs of a profile are watched: the link by a tap, and programs and machine.
type Samplers string

const (
	// SamplersApart has two runs in the place of one: one that nobody watches, whose times are reported, and a short one
	// that witnesses what was on the wire.
	SamplersApart Samplers = "apart"
	// SamplersOn watches every run.
	SamplersOn Samplers = "on"
	// SamplersOff watches none.
	SamplersOff Samplers = "off"
)

// witnessShare of a run's messages are sent again while somebody watches.
const witnessShare = 5

// UnmarshalJSON also takes what older benches wrote.
func (s *Samplers) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true":
		*s = SamplersOn
		return nil
	case "false":
		*s = SamplersOff
		return nil
	}
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return fmt.Errorf("samplers: %w", err)
	}
	*s = Samplers(name)
	return nil
}

// watched divides a run into the part that nobody watches and the one that witnesses, as far as the profile wants it.
func (p *Profile) watched(run Run) []Run {
	switch {
	case p.means() == Cluster || p.Samplers == SamplersOff || run.Workload == results.WorkloadUnsampled:
		run.Unsampled = true
	case p.Samplers == SamplersApart && !HasGates(run.Workload): // gates are judged by each frame
		witness := run
		witness.Witness, witness.Messages = true, max(run.Messages/witnessShare, 2)
		run.Unsampled = true
		return []Run{run, witness}
	}
	return []Run{run}
}
