// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/kubernetsn/kubernetsn/internal/node/relay"

// States of a captured interface.
const (
	relayRunning    = "running"
	relayAway       = "away"
	relayKernelPath = "kernel-path"
)

// countRelays adds the increase of the relays' counters, and counts the relays.
func (p *Poller) countRelays() {
	states := map[string]int{relayRunning: 0, relayAway: 0, relayKernelPath: 0}
	frames := map[string]map[string]uint64{}
	for _, status := range p.Relays() {
		states[stateOf(&status)]++
		name, known := p.names[status.Identity]
		if !known {
			continue // the pod is starting or ending
		}
		port := status.PortName()
		frames[port] = status.Frames
		for result, count := range status.Frames {
			p.Metrics.captured.WithLabelValues(name.Namespace, name.Pod, result).Add(increase(count, p.frames[port][result]))
		}
	}
	for state, count := range states {
		p.Metrics.relays.WithLabelValues(state).Set(float64(count))
	}
	p.frames = frames
}

func stateOf(status *relay.Status) string {
	switch {
	case !status.Running:
		return relayAway
	case status.KernelPath:
		return relayKernelPath
	}
	return relayRunning
}
