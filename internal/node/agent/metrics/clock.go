// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
)

// nodeClock has the metrics of the node's clock.
type nodeClock struct {
	offset, bound              prometheus.Gauge
	state, grandmaster, faults *prometheus.GaugeVec
	steps                      prometheus.Counter
	// stepped is the last number of steps, labels the present labels of gauges.
	stepped uint64
	labels  map[string][][]string
}

func newNodeClock() nodeClock {
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: "ktsn_clock_" + name, Help: help}
	}
	c := nodeClock{
		offset: prometheus.NewGauge(gauge("offset_seconds", "The last measured difference of the node's clock from its source.")),
		bound:  prometheus.NewGauge(gauge("error_bound_seconds", "What the error of the node's clock is at most; +Inf where nobody knows.")),
		state: prometheus.NewGaugeVec(gauge("state", "1 for the state of the node's clock, by the strictest spec.clock of its networks: Synchronized, "+
			"Holdover, Unsynchronized or Unknown."), []string{"state"}),
		grandmaster: prometheus.NewGaugeVec(gauge("grandmaster", "Always 1; who keeps the clock, and by which reference."), []string{"source", "grandmaster"}),
		faults:      prometheus.NewGaugeVec(gauge("faults", "1 for each thing that is wrong with how the clock is kept."), []string{"reason"}),
		labels:      map[string][][]string{},
		steps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ktsn_clock_steps_total", Help: "Times that somebody set the node's clock.",
		}),
	}
	c.bound.Set(math.Inf(1)) // not known yet
	return c
}

// Clock sets the metrics of the node's clock. Without an estimate its state is unknown.
func (m *Metrics) Clock(estimate *clock.Estimate, state clock.State) {
	for _, candidate := range []clock.State{clock.Synchronized, clock.Holdover, clock.Unsynchronized, clock.Unknown} {
		value := 0.0
		if candidate == state {
			value = 1
		}
		m.state.WithLabelValues(string(candidate)).Set(value)
	}
	if estimate == nil {
		estimate = &clock.Estimate{Source: clock.None, Bound: -1, Steps: m.stepped}
	}
	bound := math.Inf(1)
	if estimate.Bound >= 0 {
		bound = estimate.Bound.Seconds()
	}
	m.bound.Set(bound)
	m.offset.Set(estimate.Offset.Seconds())
	m.steps.Add(increase(estimate.Steps, m.stepped))
	m.stepped = estimate.Steps
	m.setOnly(m.grandmaster, "source", [][]string{{string(estimate.Source), estimate.Grandmaster}})
	faults := [][]string{}
	for _, fault := range estimate.Faults {
		faults = append(faults, []string{fault.Reason})
	}
	m.setOnly(m.faults, "faults", faults)
}

// setOnly sets a gauge to 1 for these labels and removes all others. It does not touch an unchanged gauge, which may be
// read concurrently.
func (m *Metrics) setOnly(gauge *prometheus.GaugeVec, name string, all [][]string) {
	if slices.EqualFunc(m.labels[name], all, slices.Equal) {
		return
	}
	gauge.Reset()
	for _, labels := range all {
		gauge.WithLabelValues(labels...).Set(1)
	}
	m.labels[name] = all
}
