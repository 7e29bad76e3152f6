// SPDX-License-Identifier: Apache-2.0

package links

import (
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/throughput"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// The project's targets: a link carries 0.95 of the throughput of Flannel's VXLAN, with the same latency.
const (
	mostQuotient  = 1 / 0.95
	mostRoundTrip = 1
	// mostRest is of the daemons of both nodes, with a thousand links.
	mostRest, restLinks = 0.1, 1000
)

// spread is the median of a value over the repetitions, with minimum and maximum.
type spread struct {
	median, least, most float64
	count               int
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{stats.Median(values), slices.Min(values), slices.Max(values), len(values)}
}

// seen returns the values of a case, by repetition.
func seen(measured []engine.Measured, path, name, value string) map[int]float64 {
	all := map[int]float64{}
	for _, measurement := range measured {
		if got, ok := measurement.Values[value]; ok && measurement.Case.Path == path && measurement.Case.Name == name {
			all[measurement.Repetition] = got
		}
	}
	return all
}

// ratios divide two paths' values of the same repetition, in which they took turns.
func ratios(measured []engine.Measured, first, other, name, value string) spread {
	var all []float64
	base := seen(measured, other, name, value)
	for repetition, got := range seen(measured, first, name, value) {
		if by := base[repetition]; by > 0 {
			all = append(all, got/by)
		}
	}
	return spreadOf(all)
}

// valueOf is the value by which a transfer is judged.
func valueOf(name string) string {
	if strings.HasPrefix(name, "ping-") {
		return throughput.ValueP50
	}
	return throughput.ValueBps
}

// transferNames are the measured cases of part transfers in order.
func transferNames(measured []engine.Measured) []string {
	var names []string
	for _, measurement := range measured {
		if isTransfer(measurement.Case.Name) && !slices.Contains(names, measurement.Case.Name) {
			names = append(names, measurement.Case.Name)
		}
	}
	return names
}

// figures are those with a limit.
func (e *Experiment) figures(measured []engine.Measured) []results.Figure {
	var all []results.Figure
	add := func(name, unit string, limit float64, values spread) {
		if values.count > 0 {
			all = engine.AppendFigure(all, name, unit, limit, map[string]float64{results.Independent: values.median})
		}
	}
	for _, name := range transferNames(measured) {
		if valueOf(name) == throughput.ValueP50 {
			add(name+": median round trip, link ÷ flannel", results.UnitRatio, mostRoundTrip,
				ratios(measured, testbed.Link, testbed.Flannel, name, throughput.ValueP50))
			continue
		}
		add(name+": throughput, flannel ÷ link", results.UnitRatio, mostQuotient,
			ratios(measured, testbed.Flannel, testbed.Link, name, throughput.ValueBps))
	}
	for _, value := range []string{valueLost, valueEarly, valueOthers} {
		add("timed messages over a link: "+value, results.UnitMessages, 0, spreadOf(valuesOf(seen(measured, testbed.Link, timed, value))))
	}
	add("processor time of both ktsnd with 1,000 links and no traffic", results.UnitCores, mostRest, restOf(measured, manyName(restLinks)))
	return all
}

func valuesOf(byRepetition map[int]float64) []float64 {
	var all []float64
	for _, value := range byRepetition {
		all = append(all, value)
	}
	return all
}

// restOf is the usage of both ktsnd with links that carry nothing.
func restOf(measured []engine.Measured, name string) spread {
	var all []float64
	b := seen(measured, testbed.Link, name, "ktsnd_b"+testbed.Cores)
	for repetition, a := range seen(measured, testbed.Link, name, "ktsnd_a"+testbed.Cores) {
		all = append(all, a+b[repetition])
	}
	return spreadOf(all)
}
