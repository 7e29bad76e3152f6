// SPDX-License-Identifier: Apache-2.0

package results

import "github.com/kubernetsn/kubernetsn/internal/shared/stats"

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

func sendingCores(a *Alternation) *float64 { return a.SendingCores }
func machineCores(a *Alternation) *float64 { return a.MachineCores }

// MeanSending returns the mean of the processor time of the sending side over alternations of equal length.
func MeanSending(alternations []Alternation) *float64 { return mean(known(alternations, sendingCores)) }

// MeanMachine returns the mean of the machine's processor time over alternations in which it was watched.
func MeanMachine(alternations []Alternation) *float64 { return mean(known(alternations, machineCores)) }

func medianSending(alternations []Alternation) *float64 {
	return median(known(alternations, sendingCores))
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

// median returns null for no values, as mean does.
func median(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	middle := stats.Median(values)
	return &middle
}

func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	var sum float64
	for _, value := range values {
		sum += value
	}
	sum /= float64(len(values))
	return &sum
}

// MeanCores returns the mean of each program's share over alternations of equal length.
func MeanCores(alternations []Alternation) map[string]float64 {
	means := map[string]float64{}
	for program, shares := range coresByProgram(alternations) {
		for _, share := range shares {
			means[program] += share / float64(len(shares))
		}
	}
	return means
}

func medianCores(alternations []Alternation) map[string]float64 {
	medians := map[string]float64{}
	for program, shares := range coresByProgram(alternations) {
		medians[program] = stats.Median(shares)
	}
	return medians
}

func coresByProgram(alternations []Alternation) map[string][]float64 {
	byProgram := map[string][]float64{}
	for _, alternation := range alternations {
		for program, share := range alternation.CPUCores {
			byProgram[program] = append(byProgram[program], share)
		}
	}
	return byProgram
}
