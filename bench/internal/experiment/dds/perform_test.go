// SPDX-License-Identifier: Apache-2.0

package dds

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/ddsperf"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

// told is an end at which a program prints what it is to, and ends so.
type told struct {
	output string
	ended  error
}

func (*told) Address() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, 1}) }

func (*told) MTU() int { return 1500 }

func (e *told) Start(context.Context, *testbed.Command) (testbed.Program, error) { return e, nil }

func (e *told) Wait(context.Context) (string, error) { return e.output, e.ended }

func (e *told) Stop() (string, error) { return e.output, nil }

// throughputOf is what becomes of a run with a publisher and two subscribers.
func throughputOf(t *testing.T, publisher *told, subscribers ...string) *engine.Outcome {
	t.Helper()
	k := plain(throughput, 1024)
	k.subscribers = len(subscribers)
	r := &run{kind: k, near: publisher, outcome: &engine.Outcome{Values: map[string]float64{}, Said: map[string]string{}},
		test: ddsperf.Test{SampleBytes: 1024, Subscribers: len(subscribers), Duration: 4 * time.Second}}
	for _, output := range subscribers {
		r.far = append(r.far, &told{output: output})
	}
	if err := r.perform(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.outcome
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../ddsperf/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPublisherFailureIsAProblem(t *testing.T) {
	published, received := recorded(t, "pub.txt"), recorded(t, "sub-1.txt")
	if whole := throughputOf(t, &told{output: published}, received); len(whole.Problems) > 0 || whole.Values[valueBps] <= 0 {
		t.Errorf("got %+v", whole)
	}
	half := throughputOf(t, &told{published, errors.New("ended by signal 9")}, received)
	if len(half.Problems) != 1 || !strings.Contains(half.Problems[0], "did not publish to the end: ended by signal 9") {
		t.Errorf("problems: %q", half.Problems)
	}
}

func TestSubscriberCoresNeedAll(t *testing.T) {
	received := recorded(t, "sub-1.txt")
	var silent []string
	for line := range strings.Lines(received) {
		if !strings.Contains(line, "rss:") {
			silent = append(silent, line)
		}
	}
	publisher := &told{output: recorded(t, "pub.txt")}
	if _, known := throughputOf(t, publisher, received, received).Values[valueSubscribersCores]; !known {
		t.Error("both said what they used")
	}
	if cores, known := throughputOf(t, publisher, received, strings.Join(silent, "")).Values[valueSubscribersCores]; known {
		t.Errorf("one of two said nothing, and together they used %v cores", cores)
	}
}
