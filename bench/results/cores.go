// SPDX-License-Identifier: Apache-2.0

package results

import (
	"gonum.org/v1/gonum/stat"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// sendingSide are the programs on a message's way out.
var sendingSide = []string{"talker", "ktsnd", "ovs-vswitchd", "relay"}

// AddSendingCores adds up the processor time of the sending side's programs of a path, if all are known.
func (d *Distributions) AddSendingCores(path string) {
	_, talker := d.CPUCores["talker"]
	_, ktsnd := d.CPUCores["ktsnd"]
	if !talker || ThroughKtsnd(path) && !ktsnd {
		return
	}
	d.SendingCores = new(float64)
	for _, program := range sendingSide {
		*d.SendingCores += d.CPUCores[program]
	}
}

// mean and median are of the alternations that have a value; nil without any.
func mean(values []float64) *float64 {
	return reduced(values, func(all []float64) float64 { return stat.Mean(all, nil) })
}
func median(values []float64) *float64 { return reduced(values, stats.Median) }

func reduced(values []float64, by func([]float64) float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	value := by(values)
	return &value
}

// known returns the values of the alternations that have one.
func known(alternations []Alternation, read func(*Alternation) *float64) []float64 {
	var all []float64
	for i := range alternations {
		if value := read(&alternations[i]); value != nil {
			all = append(all, *value)
		}
	}
	return all
}

func sendingCores(a *Alternation) *float64 { return a.SendingCores }

// coresOf reduces each program's shares over alternations of equal length.
func coresOf(alternations []Alternation, by func([]float64) *float64) map[string]float64 {
	shares := map[string][]float64{}
	for _, alternation := range alternations {
		for program, share := range alternation.CPUCores {
			shares[program] = append(shares[program], share)
		}
	}
	cores := map[string]float64{}
	for program, all := range shares {
		cores[program] = *by(all)
	}
	return cores
}
