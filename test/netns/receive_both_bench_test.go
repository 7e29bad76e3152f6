// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// roundTripPaths take turns. Replies are the kernel's, without a transmit time, on each of them.
var roundTripPaths = []receivePath{
	{name: "host-spin", host: true},
	{name: "kernel-vxlan-spin"},
	{name: "kernel-vxlan-spin, ring-receive", rings: true},
	{name: "ring-receive", timed: true, rings: true},
}

// roundTrips are from the requested time to the reply of a listener that polls.
func (b *receivingBench) roundTrips(t *testing.T) {
	const count = 1000 + warmUp
	results := make([]pathTiming, len(roundTripPaths))
	byRing := make([]uint64, len(roundTripPaths))
	for range rounds {
		for i := range roundTripPaths {
			before := b.received(t)
			results[i].add(b.roundTrip(t, &roundTripPaths[i], count))
			byRing[i] += b.received(t) - before
		}
	}
	host50, host99 := percentiles(results[0].latencies)
	for i := range results {
		name := "round trip, " + roundTripPaths[i].name + ": "
		p50, p99 := percentiles(results[i].latencies)
		ratio := reported(name+"p50 / host-spin", p50/host50, "ratio")
		if roundTripPaths[i].rings {
			ratio = limited(ratio.Name, ratio.Value, ratio.Unit, 0.6)
		}
		record(t, reported(name+"p50", p50, "us"), reported(name+"p99", p99, "us"), ratio, reported(name+"p99 / host-spin", p99/host99, "ratio"),
			reported(name+"messages", float64(results[i].sent), "messages"), reported(name+"by rings, there and back", float64(byRing[i]), "messages"), limited(name+"lost", float64(results[i].lost), "messages", 0))
	}
}

// roundTrip has count messages go to a listener that sends them back.
func (b *receivingBench) roundTrip(t *testing.T, path *receivePath, count int) *pathTiming {
	t.Helper()
	b.tell(t, path)
	from, to, at := b.ends(path)
	dir := t.TempDir()
	f := &flow{talkerFile: filepath.Join(dir, "talker.csv"), listenerFile: filepath.Join(dir, "replies.csv")}
	f.listener = b.listen(t, path, to, at, "--poll", "--echo", "--count", strconv.Itoa(count))
	// A message is handed over more than a millisecond ahead, when the reply to the one before it must have come.
	talker := b.talker(t, path, at, f.talkerFile, count, "--cycle", "2ms", "--replies", f.listenerFile)
	if path.rings {
		talker.Env = append(b.preloaded(t), "KTSN_RECEIVE=ring")
	}
	f.talker = start(t, from, "talker", talker)
	f.finish(t)
	return f.timing(nil)
}

// incoming is what pod a receives while it sends: nothing, or a message a millisecond.
var incoming = []struct {
	name  string
	comes bool
	rings bool
}{{"nothing is received", false, false}, {"the kernel receives", true, false}, {"rings receive", true, true}}

// departures of one ktsnd, without and with datagrams that come for its pod.
func (b *receivingBench) departures(t *testing.T) {
	const count = 2000 + warmUp
	results := make([]pathTiming, len(incoming))
	var received int
	var byRing uint64
	for range rounds {
		for i := range incoming {
			before := b.received(t)
			b.tell(t, &receivePath{rings: incoming[i].rings})
			end := func() int { return 0 }
			if incoming[i].comes {
				end = b.incoming(t)
			}
			following := b.followPodA(t)
			f := b.exchange(t, &receivePath{timed: true}, "--block", count)
			results[i].add(f.timing(following.stop()))
			received += end()
			byRing += b.received(t) - before
		}
	}
	_, alone99 := percentiles(results[0].errors)
	for i := range results {
		name := "departures while " + incoming[i].name + ": "
		p50, p99 := percentiles(results[i].errors)
		ratio := reported(name+"p99 / nothing is received", p99/alone99, "ratio")
		if incoming[i].rings {
			ratio = limited(ratio.Name, ratio.Value, ratio.Unit, 1.2)
		}
		record(t, reported(name+"error p50", p50, "us"), reported(name+"error p99", p99, "us"), ratio,
			reported(name+"handed over late", float64(results[i].late), "messages"), limited(name+"lost", float64(results[i].lost), "messages", 0))
	}
	record(t, reported("departures: datagrams that pod a received meanwhile", float64(received), "messages"),
		reported("departures: of these by a ring", float64(byRing), "messages"))
}

// incoming has pod b's kernel send to a listener of pod a that blocks, until the caller ends it and gets how many came.
func (b *receivingBench) incoming(t *testing.T) (end func() int) {
	t.Helper()
	dir := t.TempDir()
	f := &flow{talkerFile: filepath.Join(dir, "talker.csv"), listenerFile: filepath.Join(dir, "listener.csv")}
	listener := exec.Command(program(t, "tsnperf"), "listener", "--block", "--quiet", "--csv", f.listenerFile, "--bind", atPodA.String(), "--cpu", listenerCPU,
		"--first-timeout", seconds(patience), "--idle-timeout", "1s")
	listener.Env = append(b.preloaded(t), "KTSN_RECEIVE=ring")
	f.listener = start(t, b.PodA, "listener", listener)
	time.Sleep(200 * time.Millisecond) // for its start, and its ring
	f.talker = b.startKernelTalker(t, f.talkerFile, unlimited)
	return func() int {
		interrupt(t, f.talker)
		f.drain(t)
		if len(f.received) != len(f.sent) {
			t.Errorf("%d of %d datagrams came to pod a", len(f.received), len(f.sent))
		}
		return len(f.received)
	}
}
