// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/kubernetsn/kubernetsn/bench/results"

// Samplers is which runs of a profile are watched: the link by a tap, and programs and machine.
type Samplers string

const (
	// SamplersApart replaces each run by two: an unwatched one, whose times are reported, and a short watched one for
	// observations of the wire.
	SamplersApart Samplers = "apart"
	// SamplersOn watches every run.
	SamplersOn Samplers = "on"
	// SamplersOff watches none.
	SamplersOff Samplers = "off"
)

// witnessShare is the share of a run's messages that is repeated with watching.
const witnessShare = 5

// watched divides a run into an unwatched and a watched part, if the profile wants it.
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
