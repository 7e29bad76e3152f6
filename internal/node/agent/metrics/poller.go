// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	Status(ctx context.Context) (*control.Status, error)
	Pods(ctx context.Context) ([]control.Pod, error)
	Flows(ctx context.Context) ([]control.Flow, error)
	Departures(ctx context.Context, after uint64) ([]control.Departure, uint64, error)
}

// Name is the name of a pod.
type Name struct{ Namespace, Pod string }

// Poller polls ktsnd.
type Poller struct {
	Metrics *Metrics
	Do      func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// NameOf returns the pod of an identity.
	NameOf func(ctx context.Context, identity string) (Name, bool)
	// Relays returns the status of the relays of captured interfaces.
	Relays func() []relay.Status
	Every  time.Duration

	previous
}

// previous is the state of ktsnd in the previous poll.
type previous struct {
	process  process
	counters map[string]uint64
	classes  map[uint8]control.ClassStatus
	// flows are the flows of the last poll, closed those of the one before that have ended.
	flows, closed map[uint64]control.Flow
	// received has counters by the pod's identity.
	received map[string]control.PodReceive
	// departures is the sequence number of the last known departure.
	departures uint64
	names      map[string]Name
	// frames are the counters of relays, by port and result.
	frames map[string]map[string]uint64
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, p.Poll, p.Every)
	return nil
}

// Poll polls once.
func (p *Poller) Poll(ctx context.Context) {
	defer p.countRelays()
	if err := p.Do(ctx, p.poll); err != nil {
		p.Metrics.up.Set(0)
		return
	}
	p.Metrics.up.Set(1)
}

func (p *Poller) poll(ctx context.Context, ktsnd Ktsnd) error {
	status, err := ktsnd.Status(ctx)
	if err != nil {
		return err
	}
	pods, err := ktsnd.Pods(ctx)
	if err != nil {
		return err
	}
	flows, err := ktsnd.Flows(ctx)
	if err != nil {
		return err
	}
	if err := p.countNode(status); err != nil {
		return err
	}
	p.updateNames(ctx, pods)
	p.countPods(pods)
	p.countReceived(pods)
	p.countFlows(flows)
	departures, overwritten, err := ktsnd.Departures(ctx, p.departures)
	if err != nil {
		return err
	}
	p.countDepartures(departures, overwritten)
	return nil
}

// process identifies a ktsnd process. In another container the PID can be the same.
type process struct {
	pid             int
	processorTimeNs int64
}

// canDecrease reports whether ktsnd decrements a counter: when it withdraws a frame that Open vSwitch did not fetch
// (datapath/daemon/loop/outcome.h). A counter of Prometheus cannot decrease, so that it stays until ktsnd's has caught up.
func canDecrease(counter string) bool {
	switch counter {
	case "sent", "on-time", "untimed", "clock-lost", "copies-sent":
		return true
	}
	return strings.HasPrefix(counter, "late-")
}

// restarted reports whether the counters are those of another ktsnd, which began at 0.
func (l *previous) restarted(now process, counters map[string]uint64) bool {
	if l.flows == nil || now.pid != l.process.pid || now.processorTimeNs < l.process.processorTimeNs {
		return true
	}
	for name, value := range counters {
		if value < l.counters[name] && !canDecrease(name) {
			return true
		}
	}
	return false
}

// increase returns by how much a counter exceeds its value before. A counter that is lower was reset by another ktsnd.
func increase(now, before uint64) float64 {
	if now < before {
		before = 0
	}
	return float64(now - before)
}

func (p *Poller) countNode(status *control.Status) error {
	text, err := json.Marshal(status.Counters)
	if err != nil {
		return fmt.Errorf("read ktsnd's counters: %w", err)
	}
	var counters map[string]uint64
	if err := json.Unmarshal(text, &counters); err != nil {
		return fmt.Errorf("read ktsnd's counters: %w", err)
	}
	now := process{status.PID, status.ProcessorTimeNs}
	if p.restarted(now, counters) {
		// Another ktsnd: it numbers from the beginning. The relays do not.
		p.previous = previous{
			counters: map[string]uint64{}, classes: map[uint8]control.ClassStatus{}, flows: map[uint64]control.Flow{},
			names: p.names, frames: p.frames,
		}
	}
	for name, value := range counters {
		if canDecrease(name) {
			value = max(value, p.counters[name])
		}
		counters[name] = value
		p.Metrics.node.WithLabelValues(name).Add(increase(value, p.counters[name]))
	}
	p.process, p.counters = now, counters
	for _, class := range status.Classes {
		before := p.classes[class.TrafficClass]
		class.Sent, class.Late = max(class.Sent, before.Sent), max(class.Late, before.Late)
		for result, delta := range map[string]float64{
			"sent": increase(class.Sent, before.Sent), "late": increase(class.Late, before.Late), "dropped": increase(class.Dropped, before.Dropped),
		} {
			p.Metrics.class.WithLabelValues(strconv.Itoa(int(class.TrafficClass)), result).Add(delta)
		}
		p.classes[class.TrafficClass] = class
	}
	for kind, count := range map[string]int{
		"sockets": status.Sockets, "endpoints": status.Endpoints, "peers": status.Peers, "processes": status.Processes,
		"flows": status.Flows, "pending": status.Pending,
		"ring_memory_bytes": int(status.RingMemoryBytes), "ring_memory_removed_bytes": int(status.RingMemoryRemovedBytes),
		"ring_memory_max_bytes": int(status.RingMemoryMaxBytes),
	} {
		p.Metrics.objects.WithLabelValues(kind).Set(float64(count))
	}
	synchronized := 0.0
	if status.Clock.Synchronized {
		synchronized = 1
	}
	p.Metrics.clock.WithLabelValues("synchronized").Set(synchronized)
	p.Metrics.clock.WithLabelValues("maximum_error_seconds").Set(float64(status.Clock.MaximumErrorNs) / 1e9)
	p.Metrics.clock.WithLabelValues("estimated_error_seconds").Set(float64(status.Clock.EstimatedErrorNs) / 1e9)
	return nil
}

// updateNames looks up the pods' names, and deletes the metrics of pods that ktsnd has no more.
func (p *Poller) updateNames(ctx context.Context, pods []control.Pod) {
	names := map[string]Name{}
	for _, pod := range pods {
		name, known := p.names[pod.Identity]
		if !known {
			if name, known = p.NameOf(ctx, pod.Identity); !known {
				name = Name{Pod: pod.Identity}
			}
		}
		names[pod.Identity] = name
	}
	for identity, name := range p.names {
		if _, there := names[identity]; there {
			continue
		}
		labels := prometheus.Labels{"namespace": name.Namespace, "pod": name.Pod}
		p.Metrics.messages.DeletePartialMatch(labels)
		p.Metrics.unseen.DeletePartialMatch(labels)
		p.Metrics.captured.DeletePartialMatch(labels)
		p.Metrics.received.DeletePartialMatch(labels)
		p.Metrics.usage.DeletePartialMatch(labels)
		p.Metrics.limit.DeletePartialMatch(labels)
		p.Metrics.departure.DeletePartialMatch(labels)
	}
	p.names = names
}

func (p *Poller) countPods(pods []control.Pod) {
	for _, pod := range pods {
		name := p.names[pod.Identity]
		for resource, pair := range map[string][2]uint64{
			"processes":         {pod.Processes, pod.Limits.Processes},
			"sockets":           {pod.Sockets, pod.Limits.Sockets},
			"ring_memory_bytes": {pod.RingMemoryBytes, pod.Limits.RingMemoryBytes},
			"pending":           {pod.Pending, pod.Limits.Pending},
		} {
			p.Metrics.usage.WithLabelValues(name.Namespace, name.Pod, resource).Set(float64(pair[0]))
			p.Metrics.limit.WithLabelValues(name.Namespace, name.Pod, resource).Set(float64(pair[1]))
		}
	}
}

// countReceived counts received datagrams of pods with receive rings.
func (p *Poller) countReceived(pods []control.Pod) {
	seen := map[string]control.PodReceive{}
	for _, pod := range pods {
		now, before, name := pod.Receive, p.received[pod.Identity], p.names[pod.Identity]
		seen[pod.Identity] = now
		if now.Sockets == 0 && now.Received == 0 && now.Dropped == 0 {
			continue
		}
		for result, delta := range map[string]float64{
			"ring": increase(now.Received, before.Received), "dropped": increase(now.Dropped, before.Dropped), "kernel": increase(now.Kernel, before.Kernel),
		} {
			p.Metrics.received.WithLabelValues(name.Namespace, name.Pod, result).Add(delta)
		}
	}
	p.received = seen
}

func (p *Poller) countFlows(flows []control.Flow) {
	seen := map[uint64]control.Flow{}
	for _, flow := range flows {
		before, name := p.flows[flow.Number], p.names[flow.Identity]
		class := strconv.Itoa(int(flow.TrafficClass))
		flow.Sent, flow.Late = max(flow.Sent, before.Sent), max(flow.Late, before.Late)
		for result, delta := range map[string]float64{
			"taken": increase(flow.Taken, before.Taken), "sent": increase(flow.Sent, before.Sent),
			"late": increase(flow.Late, before.Late), "dropped": increase(flow.Dropped, before.Dropped),
		} {
			p.Metrics.messages.WithLabelValues(name.Namespace, name.Pod, class, result).Add(delta)
		}
		seen[flow.Number] = flow
	}
	// The departures that follow may contain flows that have just been closed.
	p.closed = map[uint64]control.Flow{}
	for number, flow := range p.flows {
		if _, there := seen[number]; !there {
			p.closed[number] = flow
		}
	}
	p.flows = seen
}

func (p *Poller) countDepartures(departures []control.Departure, overwritten uint64) {
	p.Metrics.overwritten.Add(float64(overwritten))
	for _, departure := range departures {
		flow, open := p.flows[departure.Flow]
		if !open {
			flow = p.closed[departure.Flow]
		}
		name := p.names[flow.Identity]
		p.Metrics.departure.WithLabelValues(name.Namespace, name.Pod, strconv.Itoa(int(flow.TrafficClass))).
			Observe(float64(departure.DepartedTAI-departure.RequestedTAI) / 1e9)
		p.departures = departure.Sequence
	}
}
