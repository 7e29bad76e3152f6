// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

type fakeKtsnd struct {
	status     control.Status
	pods       []control.Pod
	flows      []control.Flow
	departures []control.Departure
}

func (f *fakeKtsnd) Status(context.Context) (*control.Status, error) { return &f.status, nil }
func (f *fakeKtsnd) Pods(context.Context) ([]control.Pod, error)     { return f.pods, nil }
func (f *fakeKtsnd) Flows(context.Context) ([]control.Flow, error)   { return f.flows, nil }
func (f *fakeKtsnd) Departures(_ context.Context, after uint64) (all []control.Departure, overwritten uint64, err error) {
	for _, departure := range f.departures {
		if departure.Sequence > after {
			all = append(all, departure)
		}
	}
	return all, 0, nil
}

func newPoller(t *testing.T, ktsnd *fakeKtsnd) (*Poller, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	metrics, err := New(registry)
	testlab.Must(t, err)
	return &Poller{
		Metrics: metrics,
		Do: func(ctx context.Context, ask func(context.Context, Ktsnd) error) error {
			if ktsnd.status.KtsndVersion == "" {
				return errors.New("nobody there")
			}
			return ask(ctx, ktsnd)
		},
		Relays: func() []relay.Status { return nil },
		NameOf: func(_ context.Context, identity string) (Name, bool) {
			return Name{"default", "pod-" + identity}, identity == "a"
		},
	}, registry
}

func expect(t *testing.T, registry *prometheus.Registry, name, text string) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(text), name); err != nil {
		t.Error(err)
	}
}

func TestPoll(t *testing.T) {
	ktsnd := &fakeKtsnd{
		status: control.Status{KtsndVersion: "1", Counters: control.Counters{Taken: 12, Sent: 10, DropPort: 2}, Classes: []control.ClassStatus{{TrafficClass: 3, Sent: 10, Late: 1}}},
		pods: []control.Pod{{
			Identity: "a", Sockets: 1, Limits: control.PodLimits{Sockets: 1024},
			Receive: control.PodReceive{Sockets: 1, Received: 20, Dropped: 4, Kernel: 3},
		}, {Identity: "stranger"}},
		flows: []control.Flow{{Number: 7, Identity: "a", TrafficClass: 3, Taken: 12, Sent: 10, Late: 1, Dropped: 2}},
		departures: []control.Departure{
			{Sequence: 1, Flow: 7, RequestedTAI: 1000, DepartedTAI: 1200}, {Sequence: 2, Flow: 7, RequestedTAI: 1000, DepartedTAI: 6000},
		},
	}
	p, registry := newPoller(t, ktsnd)
	p.Poll(t.Context())
	// The same again changes nothing.
	p.Poll(t.Context())
	expect(t, registry, "ktsn_pod_messages_total", `
# HELP ktsn_pod_messages_total Timed messages of a pod: taken, sent, late (which are among sent), dropped.
# TYPE ktsn_pod_messages_total counter
ktsn_pod_messages_total{class="3",namespace="default",pod="pod-a",result="dropped"} 2
ktsn_pod_messages_total{class="3",namespace="default",pod="pod-a",result="late"} 1
ktsn_pod_messages_total{class="3",namespace="default",pod="pod-a",result="sent"} 10
ktsn_pod_messages_total{class="3",namespace="default",pod="pod-a",result="taken"} 12
`)
	expect(t, registry, "ktsn_pod_received_total", `
# HELP ktsn_pod_received_total Datagrams for sockets with receive rings: ring (came into it), dropped (found it full), kernel (came into the kernel's queue beside it).
# TYPE ktsn_pod_received_total counter
ktsn_pod_received_total{namespace="default",pod="pod-a",result="dropped"} 4
ktsn_pod_received_total{namespace="default",pod="pod-a",result="kernel"} 3
ktsn_pod_received_total{namespace="default",pod="pod-a",result="ring"} 20
`)
	departed := p.Metrics.departure.WithLabelValues("default", "pod-a", "3").(prometheus.Histogram)
	if got := testutil.CollectAndCount(p.Metrics.departure); got != 1 {
		t.Errorf("%d histograms", got)
	}
	if count, sum := sample(t, departed); count != 2 || sum < 5.19e-6 || sum > 5.21e-6 {
		t.Errorf("%d departures of together %v s, want 2 and 5.2 µs", count, sum)
	}
	if got := testutil.ToFloat64(p.Metrics.node.WithLabelValues("drop-port")); got != 2 {
		t.Errorf("drop-port is %v", got)
	}
	if got := testutil.ToFloat64(p.Metrics.limit.WithLabelValues("default", "pod-a", "sockets")); got != 1024 {
		t.Errorf("the limit of sockets is %v", got)
	}
}

// Open vSwitch did not fetch three of them.
func TestDecreasedCounterIsNotCountedTwice(t *testing.T) {
	ktsnd := &fakeKtsnd{pods: []control.Pod{{Identity: "a"}}}
	p, _ := newPoller(t, ktsnd)
	for _, now := range []struct{ sent, withdrawn uint64 }{{10, 0}, {7, 3}, {9, 3}, {12, 3}} {
		sent, taken := now.sent, now.sent+now.withdrawn
		ktsnd.status = control.Status{
			KtsndVersion: "1", Counters: control.Counters{Taken: taken, Sent: sent, OnTime: sent, DropStale: now.withdrawn},
			Classes: []control.ClassStatus{{TrafficClass: 3, Sent: sent, Late: sent}},
		}
		ktsnd.flows = []control.Flow{{Number: 1, Identity: "a", Taken: taken, Sent: sent, Late: sent}}
		p.Poll(t.Context())
	}
	for _, counter := range []prometheus.Counter{
		p.Metrics.node.WithLabelValues("sent"), p.Metrics.node.WithLabelValues("on-time"),
		p.Metrics.class.WithLabelValues("3", "sent"), p.Metrics.class.WithLabelValues("3", "late"),
		p.Metrics.messages.WithLabelValues("default", "pod-a", "0", "sent"), p.Metrics.messages.WithLabelValues("default", "pod-a", "0", "late"),
	} {
		if got := testutil.ToFloat64(counter); got != 12 {
			t.Errorf("%s is %v, want 12", counter.Desc(), got)
		}
	}
}

// TestCountersAddUpAfterRestart is about a ktsnd that had taken as many messages as its predecessor when it was asked first.
func TestCountersAddUpAfterRestart(t *testing.T) {
	before := control.Status{
		KtsndVersion: "1", PID: 100, ProcessorTimeNs: 1000, Counters: control.Counters{Taken: 10, Sent: 8, DropPort: 2, ClockLost: 4, CopiesSent: 4},
		Classes: []control.ClassStatus{{TrafficClass: 3, Sent: 8, Late: 4}},
	}
	for name, change := range map[string]func(*control.Status){
		"another PID":                func(s *control.Status) { s.PID = 101 },
		"less processor time":        func(s *control.Status) { s.ProcessorTimeNs = 10 },
		"a counter that never falls": func(s *control.Status) { s.Counters.DropPort = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			ktsnd := &fakeKtsnd{status: before, pods: []control.Pod{{Identity: "a"}}, flows: []control.Flow{{Number: 1, Identity: "a", Taken: 10, Sent: 8, Late: 4}}}
			p, _ := newPoller(t, ktsnd)
			p.Poll(t.Context())
			ktsnd.status.Counters = control.Counters{Taken: 12, Sent: 5, DropPort: 7, ClockLost: 1, CopiesSent: 1}
			ktsnd.status.Classes = []control.ClassStatus{{TrafficClass: 3, Sent: 5, Late: 1}}
			ktsnd.flows = []control.Flow{{Number: 1, Identity: "a", Taken: 12, Sent: 5, Late: 1}}
			change(&ktsnd.status)
			p.Poll(t.Context())
			for counter, want := range map[prometheus.Counter]float64{
				p.Metrics.node.WithLabelValues("taken"): 22, p.Metrics.node.WithLabelValues("sent"): 13,
				p.Metrics.node.WithLabelValues("clock-lost"): 5, p.Metrics.node.WithLabelValues("copies-sent"): 5,
				p.Metrics.node.WithLabelValues("drop-port"):  2 + float64(ktsnd.status.Counters.DropPort),
				p.Metrics.class.WithLabelValues("3", "sent"): 13, p.Metrics.class.WithLabelValues("3", "late"): 5,
				p.Metrics.messages.WithLabelValues("default", "pod-a", "0", "taken"): 22,
				p.Metrics.messages.WithLabelValues("default", "pod-a", "0", "sent"):  13,
			} {
				if got := testutil.ToFloat64(counter); got != want {
					t.Errorf("%s is %v, want %v", counter.Desc(), got, want)
				}
			}
		})
	}
}

func TestCountersNeverDecrease(t *testing.T) {
	ktsnd := &fakeKtsnd{
		status: control.Status{KtsndVersion: "1", Counters: control.Counters{Taken: 10}}, pods: []control.Pod{{Identity: "a", Receive: control.PodReceive{Received: 10}}},
		flows:      []control.Flow{{Number: 1, Identity: "a", Sent: 10}},
		departures: []control.Departure{{Sequence: 5, Flow: 1}},
	}
	p, _ := newPoller(t, ktsnd)
	p.Poll(t.Context())
	version := ktsnd.status.KtsndVersion
	ktsnd.status.KtsndVersion = ""
	p.Poll(t.Context())
	if got := testutil.ToFloat64(p.Metrics.up); got != 0 {
		t.Errorf("up is %v without ktsnd", got)
	}
	ktsnd.status.KtsndVersion, ktsnd.status.Counters.Taken = version, 3
	ktsnd.flows = []control.Flow{{Number: 1, Identity: "a", Sent: 3}}
	ktsnd.pods[0].Receive.Received = 3
	ktsnd.departures = []control.Departure{{Sequence: 1, Flow: 1}}
	p.Poll(t.Context())
	ktsnd.flows = nil
	p.Poll(t.Context())
	if got := testutil.ToFloat64(p.Metrics.messages.WithLabelValues("default", "pod-a", "0", "sent")); got != 13 {
		t.Errorf("sent are %v, want 10 and 3", got)
	}
	if got := testutil.ToFloat64(p.Metrics.received.WithLabelValues("default", "pod-a", "ring")); got != 13 {
		t.Errorf("received are %v, want 10 and 3", got)
	}
	if got := testutil.ToFloat64(p.Metrics.node.WithLabelValues("taken")); got != 13 {
		t.Errorf("taken are %v, want 10 and 3", got)
	}
	if count, _ := sample(t, p.Metrics.departure.WithLabelValues("default", "pod-a", "0").(prometheus.Histogram)); count != 2 {
		t.Errorf("%d departures, want one of each", count)
	}
	ktsnd.pods = nil
	p.Poll(t.Context())
	if got := testutil.CollectAndCount(p.Metrics.messages) + testutil.CollectAndCount(p.Metrics.received); got != 0 {
		t.Errorf("%d figures of a pod that is gone", got)
	}
}
