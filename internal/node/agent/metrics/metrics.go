// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics has the agent's metrics.
type Metrics struct {
	up          prometheus.Gauge
	node        *prometheus.CounterVec
	class       *prometheus.CounterVec
	parts       *prometheus.GaugeVec
	objects     *prometheus.GaugeVec
	clock       *prometheus.GaugeVec
	messages    *prometheus.CounterVec
	unseen      *prometheus.CounterVec
	captured    *prometheus.CounterVec
	received    *prometheus.CounterVec
	relays      *prometheus.GaugeVec
	usage       *prometheus.GaugeVec
	limit       *prometheus.GaugeVec
	departure   *prometheus.HistogramVec
	overwritten prometheus.Counter
	swept       *prometheus.CounterVec
	leftOut     prometheus.Gauge
	peers       *prometheus.GaugeVec
	impaired    *prometheus.GaugeVec
	peerLoss    *prometheus.GaugeVec
	peerMTU     *prometheus.GaugeVec
	nodeClock
}

// podLabels are the labels of each metric of a pod.
var podLabels = []string{"namespace", "pod"}

// New returns registered metrics.
func New(registry prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ktsn_" + name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ktsn_" + name, Help: help}, labels)
	}
	m := &Metrics{
		up: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ktsn_up", Help: "Whether ktsnd answers."}),
		node: counter("node_events_total", "What ktsnd has counted on this node, by the name of its counter: taken, sent, on-time, "+
			"late-REASON and drop-REASON are messages.", "counter"),
		class:   counter("node_class_messages_total", "Messages of a traffic class on this node.", "class", "result"),
		parts:   gauge("agent_part_ready", "Whether a part of the agent is well.", "part"),
		objects: gauge("node_things", "How many sockets, endpoints, peers, processes and flows ktsnd has.", "kind"),
		clock:   gauge("node_clock", "What the kernel says of the node's clock: synchronized, maximum and estimated error in seconds.", "what"),
		messages: counter("pod_messages_total", "Timed messages of a pod: taken, sent, late (which are among sent), dropped.",
			append(podLabels, "class", "result")...),
		unseen: counter("pod_unseen_total", "Datagrams of a pod with a transmit time that did not come through libktsn.so and were dropped.",
			podLabels...),
		captured: counter("capture_frames_total", "Captured frames of a pod, by what became of them: read-KIND (by the relay), handed-KIND (to ktsnd), "+
			"passed (to the kernel, because no relay answered), drop-REASON.",
			append(podLabels, "result")...),
		received: counter("pod_received_total", "Datagrams for sockets with receive rings: ring (came into it), dropped (found it full), kernel (came into the "+
			"kernel's queue beside it).", append(podLabels, "result")...),
		relays: gauge("capture_relays", "Captured interfaces of the node, by how their relays are: running, away, kernel-path (the relay runs, and "+
			"ktsnd does not take frames without a transmit time).", "state"),
		usage: gauge("pod_usage", "What a pod has of ktsnd: processes, sockets, ring_memory_bytes, pending.", append(podLabels, "resource")...),
		limit: gauge("pod_limit", "What a pod may have of that.", append(podLabels, "resource")...),
		departure: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ktsn_pod_departure_error_seconds", Help: "Departure of a pod's messages less the time that was asked for.",
			Buckets: []float64{100e-9, 250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 1e-3, 10e-3, 100e-3, 1},
		}, append(podLabels, "class")),
		overwritten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ktsn_departures_missed_total", Help: "Departures that are in no histogram, because there were too many between two questions.",
		}),
		swept: counter("swept_total", "Things removed that no pod had any more.", "what"),
		leftOut: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ktsn_nodes_left_out", Help: "Nodes of the cluster that have no part of a network or are not reached on it, for a fault of theirs.",
		}),
		peers: gauge("network_peers", "Other nodes of the cluster on a network, by whether this node receives from them: reachable, silent, "+
			"unknown (not measured, or nothing has been received yet).", "network", "state"),
		impaired: gauge("network_peers_impaired", "Other nodes of the cluster on a network, by what impairs the way to or from them: loss, mtu.",
			"network", "reason"),
		peerLoss:  gauge("network_peer_loss_ratio", "Share of the last 64 announcements of another node that were lost, of the worst node.", "network"),
		peerMTU:   gauge("network_peer_mtu_bytes", "Largest IP packet of a pod that the routes to all other nodes let pass.", "network"),
		nodeClock: newNodeClock(),
	}
	for _, collector := range []prometheus.Collector{m.up, m.node, m.class, m.parts, m.objects, m.clock, m.messages, m.unseen, m.captured, m.received, m.relays, m.usage,
		m.limit, m.departure, m.overwritten, m.swept, m.leftOut, m.peers, m.impaired, m.peerLoss, m.peerMTU, m.offset, m.bound, m.state, m.grandmaster, m.steps, m.faults} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Part sets whether a part of the agent works.
func (m *Metrics) Part(part string, err error) {
	ready := 0.0
	if err == nil {
		ready = 1
	}
	m.parts.WithLabelValues(part).Set(ready)
}

// Swept counts a removed item.
func (m *Metrics) Swept(kind string) { m.swept.WithLabelValues(kind).Inc() }

// LeftOut sets the number of skipped nodes.
func (m *Metrics) LeftOut(count int) { m.leftOut.Set(float64(count)) }

// PeerSummary summarises the other nodes of the cluster on a network. There are no metrics of single nodes: a cluster of 1,000 would have a
// million.
type PeerSummary struct {
	Reachable, Silent, Unknown int
	// Lossy nodes have lost announcements, Narrow ones have a route that does not let the pods' largest packets pass.
	Lossy, Narrow int
	// LossRatio is that of the worst node, 0 to 1; MTU is the smallest, 0 if none is known.
	LossRatio float64
	MTU       int
}

// Peers sets the summaries by network.
func (m *Metrics) Peers(networks map[string]PeerSummary) {
	for _, all := range []*prometheus.GaugeVec{m.peers, m.impaired, m.peerLoss, m.peerMTU} {
		all.Reset()
	}
	for network, summary := range networks {
		for state, count := range map[string]int{"reachable": summary.Reachable, "silent": summary.Silent, "unknown": summary.Unknown} {
			m.peers.WithLabelValues(network, state).Set(float64(count))
		}
		m.impaired.WithLabelValues(network, "loss").Set(float64(summary.Lossy))
		m.impaired.WithLabelValues(network, "mtu").Set(float64(summary.Narrow))
		m.peerLoss.WithLabelValues(network).Set(summary.LossRatio)
		if summary.MTU > 0 {
			m.peerMTU.WithLabelValues(network).Set(float64(summary.MTU))
		}
	}
}

// Unseen counts datagrams of a pod that bypassed libktsn.so.
func (m *Metrics) Unseen(namespace, pod string, more uint64) {
	m.unseen.WithLabelValues(namespace, pod).Add(float64(more))
}

// Diverted counts captured frames of a pod that its relay did not get, by result.
func (m *Metrics) Diverted(namespace, pod, result string, more uint64) {
	m.captured.WithLabelValues(namespace, pod, result).Add(float64(more))
}
