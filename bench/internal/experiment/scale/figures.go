// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

const (
	// Up to steadyRate messages a second every departure should be exact; fullRate is the target of one core.
	steadyRate, fullRate = 10_000, 100_000
	// The machine's wake-up delay up to which the first limit of cores applies.
	promptWakeupNs = 20_000
)

// figures compare with the project's targets: medians over the repetitions, at the worst point of a figure.
func figures(lines []line) []results.Figure {
	var all []results.Figure
	add := func(name, unit string, limit float64, value *float64) {
		if value != nil {
			all = engine.AppendFigure(all, name, unit, limit, map[string]float64{results.Independent: *value})
		}
	}
	steady := pointsWhere(lines, func(p *point) bool { return p.rate() <= steadyRate })
	busiest := pointsWhere(steady, func(p *point) bool { return p.rate() == steadyRate })
	full := pointsWhere(lines, func(p *point) bool { return p.rate() == fullRate })
	add("departure error p99, each step to 10,000 messages a second", results.UnitNs, 10_000, worst(steady, (*point).p99))
	add("departure error max, each step to 10,000 messages a second", results.UnitNs, 1_000_000, worst(steady, (*point).largest))
	add("lost", results.UnitMessages, 0, worst(lines, func(p *point) *float64 { lost := float64(p.sum(valueLost)); return &lost }))
	add("departure error p99, 1,000 flows / 100 flows", results.UnitRatio, 3, manyByFew(lines))
	add("processor time of ktsnd, 10,000 messages a second", results.UnitCores, 0.6, worst(busiest, (*point).coresWherePrompt))
	add("processor time of ktsnd, 100,000 messages a second", results.UnitCores, 1, worst(full, (*point).cores))
	add("departure error p99, 100,000 messages a second", results.UnitNs, 20_000, worst(full, (*point).p99))
	return all
}

func pointsWhere(lines []line, matches func(*point) bool) []line {
	var some []line
	for _, current := range lines {
		kept := line{kind: current.kind, cycle: current.cycle}
		for _, p := range current.points {
			if matches(p) {
				kept.points = append(kept.points, p)
			}
		}
		some = append(some, kept)
	}
	return some
}

// worst is the largest value; nil if there is none.
func worst(lines []line, read func(*point) *float64) *float64 {
	var most *float64
	for _, current := range lines {
		for _, p := range current.points {
			if value := read(p); value != nil && (most == nil || *value > *most) {
				most = value
			}
		}
	}
	return most
}

func (p *point) quantile(q quantile) *float64 {
	values, known := p.departure(q)
	if !known {
		return nil
	}
	median := stats.Median(values)
	return &median
}

func (p *point) p99() *float64     { return p.quantile(p99) }
func (p *point) largest() *float64 { return p.quantile(largest) }

func (p *point) cores() *float64 {
	cores := p.median(valueCores)
	return &cores
}

// coresWherePrompt is nil on a machine with slow wake-ups: there ktsnd has to busy-wait longer before each departure.
func (p *point) coresWherePrompt() *float64 {
	if p.median(valueTalkerLate) > promptWakeupNs {
		return nil
	}
	return p.cores()
}

// manyByFew compares 1,000 flows with 100 at the same cycle.
func manyByFew(lines []line) *float64 {
	for _, current := range lines {
		few := worst(pointsWhere([]line{current}, func(p *point) bool { return current.kind == byFlows && p.number == 100 }), (*point).p99)
		many := worst(pointsWhere([]line{current}, func(p *point) bool { return current.kind == byFlows && p.number == 1000 }), (*point).p99)
		if few != nil && many != nil && *few > 0 {
			ratio := *many / *few
			return &ratio
		}
	}
	return nil
}
