// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/iperf3"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ping"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

const (
	trafficTurns = 4
	trafficPort  = 5301
	transferFor  = 3 * time.Second
	transferOmit = time.Second
	pings        = 200
	pingsEach    = 10 * time.Millisecond
)

// way connects two machines or pods: functions that run a program at each end, and the address of the far end.
type way struct {
	from, to func(ctx context.Context, command ...string) (string, error)
	at       netip.Addr
}

// inside runs programs in a station.
func (s *station) inside(ctx context.Context, command ...string) (string, error) {
	return s.start(ctx, tools, command...).Said()
}

// beside runs programs on the node of a station, without any overlay.
func (s *station) beside(ctx context.Context, command ...string) (string, error) {
	return node.Output(ctx, s.Place(s.node.Name), nil, command...)
}

// transfer measures TCP throughput, in bit/s.
func (w *way) transfer(ctx context.Context, t *testing.T) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, clustertest.Patience)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		_, err := w.to(ctx, append([]string{"/usr/bin/" + iperf3.Program}, iperf3.ServerArguments(w.at, trafficPort)...)...)
		served <- err
	}()
	test := iperf3.Test{Server: w.at, Port: trafficPort, Duration: transferFor, Omit: transferOmit}
	for {
		output, _ := w.from(ctx, append([]string{"/usr/bin/" + iperf3.Program}, test.ClientArguments()...)...) // it says in JSON what is wrong
		result, err := iperf3.Parse(strings.NewReader(output))
		if err == nil {
			if err := <-served; err != nil {
				t.Error(err)
			}
			return result.ReceivedBps
		}
		if ctx.Err() != nil || !iperf3.NotListening(err) {
			t.Fatal(errors.Join(err, ctx.Err()))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// ping returns the median of round trips, in µs.
func (w *way) ping(ctx context.Context, t *testing.T) float64 {
	t.Helper()
	test := ping.Test{To: w.at, Count: pings, Interval: pingsEach, PayloadBytes: 56}
	output, err := w.from(ctx, append([]string{"/usr/bin/" + ping.Program}, test.Arguments()...)...)
	if err != nil {
		t.Fatal(err)
	}
	result, err := ping.Parse(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	return microseconds(result.Percentile(50))
}

// throughput compares TCP and ping to another node of the cluster with those to another cluster: between pods, and
// between the nodes themselves.
func (s *stations) throughput(ctx context.Context, t *testing.T) {
	ways := []way{
		{s.from.inside, s.near.inside, s.near.address}, {s.from.inside, s.far.inside, s.far.address},
		{s.from.beside, s.near.beside, s.near.node.Address}, {s.from.beside, s.far.beside, s.far.node.Address},
	}
	transfers, trips := make([][]float64, len(ways)), make([][]float64, len(ways))
	for turn := range times(trafficTurns) {
		for i := range ways {
			at := (turn + i) % len(ways)
			transfers[at] = append(transfers[at], ways[at].transfer(ctx, t)/1e9)
		}
		for i := range ways {
			at := (turn + i) % len(ways)
			trips[at] = append(trips[at], ways[at].ping(ctx, t))
		}
	}
	b := s.bench
	b.add(t,
		ratioOfMedians("TCP between pods: across ÷ within one cluster", transfers[1], transfers[0]).least(0.85),
		ratioOfMedians("ping between pods, p50: across ÷ within one cluster", trips[1], trips[0]).most(1.25),
	)
	rows := [][]string{{"", "TCP within, Gbit/s", "TCP across", "across ÷ within", "ping within, µs", "ping across", "across ÷ within", "more a trip, µs"}}
	for i, name := range []string{"pods", "nodes"} {
		within, across := 2*i, 2*i+1
		rows = append(rows, []string{name, ranged(transfers[within]), ranged(transfers[across]), number(ratioOfMedians("", transfers[across], transfers[within]).Value),
			ranged(trips[within]), ranged(trips[across]), number(ratioOfMedians("", trips[across], trips[within]).Value),
			number(over("", "", trips[across]...).Value - over("", "", trips[within]...).Value)})
	}
	b.section("TCP and ping", fmt.Sprintf("%d turns of each. Within goes from node to node by one switch; across goes by the routers of both clusters and the WAN between them,\n"+
		"which are this machine's kernel, too, without a delay. The nodes themselves have the same ways, without overlay.", len(transfers[0])), rows)
}

// ranged returns a median with the minimum and the maximum.
func ranged(values []float64) string {
	f := over("", "", values...)
	return fmt.Sprintf("%s (%s to %s)", number(f.Value), number(f.Least), number(f.Most))
}
