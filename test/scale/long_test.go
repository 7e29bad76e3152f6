// SPDX-License-Identifier: Apache-2.0

//go:build thousand

package scale

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Sizes of the long form, and how long it looks at a cluster in which nothing happens. Watches end after 30 to 60 minutes
// (objects.WatchTimeout), so that a shorter look sees requests other than those that restart them, and few of these.
const (
	longNodes   = 1000
	podsPerNode = 10
	restFor     = 10 * time.Minute
)

// Limits are what was promised. Where another load of the machine cannot be the reason, the run fails that misses one.
const (
	limitSchedule = 10.0 // seconds
	limitRest     = 1.0  // requests a minute
	limitReport   = 50.0 // milliseconds at the 99th percentile
	limitCores    = 0.3
	limitResident = 300.0  // MiB
	limitPeer     = 2000.0 // bytes
	limitStart    = 120.0  // seconds
	limitClock    = 2.0    // seconds
	// limitClockReports is above 1 for reports that the API server took and did not answer in time.
	limitClockReports = 1.1
)

// setting is a number that can be changed for a smaller run.
func setting(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	number, err := strconv.Atoi(text)
	must(t, err)
	return number
}

// long is the world of the long form with what it measures.
type long struct {
	*world
	*figures
	nodes int
}

func TestAThousandNodes(t *testing.T) {
	if os.Getenv("KTSN_THOUSAND") != "1" {
		t.Skip("takes a quarter of an hour; `make thousand` runs it")
	}
	ctx := t.Context()
	nodes := setting(t, "KTSN_SCALE_NODES", longNodes)
	rest := time.Duration(setting(t, "KTSN_SCALE_REST_SECONDS", int(restFor.Seconds()))) * time.Second
	l := &long{world: &world{cluster: newCluster(ctx, t), t: t}, figures: newFigures(t, nodes, nodes*podsPerNode), nodes: nodes}
	defer l.write(folder(t, "../../out", "thousand"))
	l.makeNodes(ctx, 0, nodes)
	l.startParts(ctx)
	l.awaitWebhook(ctx)
	l.makeNetwork(ctx)
	l.grow(ctx)
	l.startRest(ctx)
	l.awaitOperational(ctx, l.nodes)
	l.askForClocks(ctx)
	l.change(ctx)
	l.reports(ctx)
	l.joinAndLeave(ctx)
	l.awaitOperational(ctx, l.nodes)
	l.clocks(ctx)
	l.rest(ctx, rest)
	l.memory()
	l.powerCut(ctx)
}

// grow makes the pods: those of a tenth of the nodes, whose agents are then started, and those of the others. The agents' memory
// grows by the others' peers.
func (l *long) grow(ctx context.Context) {
	first := l.nodes / 10
	l.makePods(ctx, 0, first, podsPerNode)
	l.call("Start", l.seats[:first], &None{})
	l.awaitReady(ctx, first, first-1)
	before, usedBefore, billBefore := l.steadyHeap(), l.usage(), l.bill()
	began := time.Now()
	l.makePods(ctx, first, l.nodes, podsPerNode)
	createdAfter := time.Since(began)
	l.awaitReady(ctx, first, l.nodes-1)
	used, pods := l.usage(), (l.nodes-first)*podsPerNode
	s := between(billBefore, l.bill(), "")
	l.add("pods made, through the webhook", float64(pods)/createdAfter.Seconds(), "pods/s", 0, "%d pods on %d nodes in %.0f s, by %d writers; %s",
		pods, l.nodes-first, createdAfter.Seconds(), writers, used.since(usedBefore))
	l.add("operator while pods are made", cores(usedBefore.operator, used.operator), "cores", limitCores, "")
	l.add("until agents know the last of the new nodes", time.Since(began).Seconds()-createdAfter.Seconds(), "s", 0,
		"an agent received %.0f kB for %d peers, and asked %.1f times", float64(s.others.Received)/float64(first)/1e3, l.nodes-first,
		float64(s.others.Requests)/float64(first))
	l.bound("memory of an agent for each peer", float64(l.steadyHeap()-before)/float64(first)/float64(l.nodes-first), "B", limitPeer,
		"heap and stacks after a collection, %d agents with %d peers less the same with %d; the played ktsnd is in it", first, l.nodes-1, first-1)
}

// startRest starts the other agents, a tenth of all at a time. Only a power cut has all nodes begin at once.
func (l *long) startRest(ctx context.Context) {
	before, bill, began := l.usage(), l.bill(), time.Now()
	step := l.nodes / 10
	for from := step; from < l.nodes; from += step {
		to := min(from+step, l.nodes)
		l.call("Start", l.seats[from:to], &None{})
		l.awaitReady(ctx, to, l.nodes-1)
	}
	s, started := between(bill, l.bill(), ""), l.nodes-step
	l.add("agents started, a tenth of all at a time, until all are ready", time.Since(began).Seconds(), "s", 0, "%d agents; %.1f requests each, at most %d/s; %s",
		started, float64(s.requests())/float64(started), s.peak, l.usage().since(before))
}

// changes is how often the schedule is changed.
const changes = 5

func (l *long) change(ctx context.Context) {
	slowest, slowestReport := 0.0, 0.0
	bill, before := l.bill(), l.usage()
	for i := range changes {
		began := time.Now()
		l.changeSchedule(ctx, cycle(i+1))
		l.awaitInForce(ctx, cycle(i+1))
		slowest = max(slowest, time.Since(began).Seconds())
		l.awaitOperational(ctx, l.nodes)
		slowestReport = max(slowestReport, time.Since(began).Seconds())
	}
	used, s := l.usage(), between(bill, l.bill(), "")
	l.add("changed schedule in force everywhere", slowest, "s", limitSchedule, "slowest of %d, from the change of the TSNNetwork until the last node executes it", changes)
	l.add("the network's status says so", slowestReport, "s", 0, "slowest of %d", changes)
	l.add("reports when all nodes report at once, p99", at(s.reports, 0.99), "ms", 0, "median %.1f ms, longest %.0f ms of %d; %.1f requests a node and change, at most %d/s",
		at(s.reports, 0.5), at(s.reports, 1), len(s.reports), float64(s.requests())/float64(l.nodes*changes), s.peak)
	l.add("operator while schedules are changed", cores(before.operator, used.operator), "cores", limitCores, "one change after the other; %s", used.since(before))
}

// Single reports: nodes whose ktsnd is another one by now say what its uplink has.
const (
	singleReports = 300
	betweenThem   = 100 * time.Millisecond
)

func (l *long) reports(ctx context.Context) {
	bill, before := l.bill(), l.usage()
	for i := range singleReports {
		l.call("Replace", Replacement{nodeName(i % l.nodes), int64(2+i/l.nodes) * 1e9}, &None{})
		time.Sleep(betweenThem)
	}
	var s *spent
	l.eventually(ctx, func() error {
		if s = between(bill, l.bill(), ""); len(s.reports) < singleReports {
			return fmt.Errorf("%d reports of %d", len(s.reports), singleReports)
		}
		return nil
	})
	l.awaitOperational(ctx, l.nodes)
	used := l.usage()
	s = between(bill, l.bill(), "")
	l.add("a report, p99", at(s.reports, 0.99), "ms", limitReport, "median %.1f ms, longest %.0f ms of %d; a node reports each %v; %s",
		at(s.reports, 0.5), at(s.reports, 1), len(s.reports), betweenThem, s.kinds())
	l.add("operator while nodes report", cores(before.operator, used.operator), "cores", limitCores, "%s", used.since(before))
}

func (l *long) joinAndLeave(ctx context.Context) {
	bill, began := l.bill(), time.Now()
	l.makeNodes(ctx, l.nodes, 1)
	l.makePods(ctx, l.nodes, l.nodes+1, podsPerNode)
	l.call("Start", l.seats[l.nodes:], &None{})
	l.awaitReady(ctx, l.nodes+1, l.nodes)
	took := time.Since(began)
	s := between(bill, l.bill(), nodeName(l.nodes))
	l.add("a node joins: bytes that each other agent receives", float64(s.others.Received)/float64(l.nodes), "B", 0,
		"TLS included; %.2f requests of each other agent, %d of its own and %.0f kB; all know it after %.1f s", float64(s.others.Requests)/float64(l.nodes),
		s.node.Requests, float64(s.node.Received)/1e3, took.Seconds())
	bill, began = l.bill(), time.Now()
	l.call("Stop", nodeName(l.nodes), &None{})
	l.removeNode(ctx, l.nodes, podsPerNode)
	l.seats = l.seats[:l.nodes]
	l.awaitReady(ctx, l.nodes, l.nodes-1)
	took = time.Since(began)
	s = between(bill, l.bill(), "")
	l.add("a node leaves: bytes that each other agent receives", float64(s.others.Received)/float64(l.nodes), "B", 0,
		"%.2f requests of each; all have forgotten it after %.1f s", float64(s.others.Requests)/float64(l.nodes), took.Seconds())
}

// clocks of all nodes are lost at once, as when a grandmaster fails, and one alone.
func (l *long) clocks(ctx context.Context) {
	before := l.usage()
	change := l.turnClocks(ctx, []string{nodeName(l.nodes / 2)}, badError, 1, "False")
	l.add("a clock is lost: no new pods on its node", change.labelled.Seconds(), "s", limitClock, "%s", change)
	l.turnClocks(ctx, nil, goodError, 0, "True")
	all := l.turnClocks(ctx, nil, badError, l.nodes, "False")
	l.add("the clocks of all nodes are lost at once: no new pods anywhere", all.labelled.Seconds(), "s", 0, "%s", all)
	l.bound("reports of a node whose clock is lost", float64(len(all.spent.reports))/float64(l.nodes), "", limitClockReports, "beside them %d other requests at most, which are Events",
		all.spent.most.Asked)
	l.turnClocks(ctx, nil, goodError, 0, "True")
	l.add("operator while clocks are lost", cores(before.operator, l.usage().operator), "cores", limitCores, "")
}

// rest looks at a cluster in which nothing happens.
func (l *long) rest(ctx context.Context, length time.Duration) {
	bill, before, served, began := l.bill(), l.usage(), l.served(ctx), time.Now()
	time.Sleep(length)
	minutes := time.Since(began).Minutes()
	s, used, servedMore := between(bill, l.bill(), ""), l.usage(), l.served(ctx)-served
	l.bound("requests of a resting node", float64(s.requests())/float64(l.nodes)/minutes, "a minute", limitRest, "over %.1f minutes; %s", minutes, s.kinds())
	l.add("requests that the API server has answered meanwhile", servedMore/float64(l.nodes)/minutes, "a node and minute", 0,
		"apiserver_request_total, of all clients and of its own")
	l.add("a resting agent receives", float64(s.others.Received)/float64(l.nodes)/minutes, "B a minute", 0, "%.0f sent", float64(s.others.Sent)/float64(l.nodes)/minutes)
	l.add("operator at rest", cores(before.operator, used.operator), "cores", limitCores, "%s", used.since(before))
}

func (l *long) memory() {
	l.bound("operator, most resident memory", float64(mostResident(l.t, l.operator.PID()))/(1<<20), "MiB", limitResident, "")
	l.add("operator started anew", float64(l.operatorRestarts()), "times", 0, "it ends where it gets no processor for ten seconds")
	l.add("memory of an agent", float64(l.heap())/float64(l.nodes)/1e6, "MB", 0,
		"heap and stacks after a collection, with %d peers; the program itself is not in it, the played ktsnd is", l.nodes-1)
	for _, name := range []string{"kube-apiserver", "etcd"} {
		pid, err := l.child(name)
		must(l.t, err)
		l.add(name+", most resident memory", float64(mostResident(l.t, pid))/(1<<20), "MiB", 0, "")
	}
}

// downFor is how long agents run without an API server after the power is back.
const downFor = 20 * time.Second

// powerCut ends all processes at once and starts them again, the API server last, as after a power cut.
func (l *long) powerCut(ctx context.Context) {
	kill(l.agents)
	kill(l.operator)
	must(l.t, l.cutServer())
	l.startParts(ctx)
	l.call("Start", l.justBooted(), &None{})
	time.Sleep(downFor)
	began := time.Now()
	must(l.t, l.startServer())
	up := time.Since(began)
	seen := l.awaitReady(ctx, l.nodes, l.nodes-1)
	ready := seen.LastReady.Sub(began)
	l.awaitInForce(ctx, cycle(changes))
	s := between(&Bill{}, l.bill(), "")
	l.add("power cut: from the start of etcd until all agents are ready", ready.Seconds(), "s", limitStart,
		"the API server answers after %.1f s, the agents have waited for it for %v; all execute the schedule after %.1f s; %d agents were started anew",
		up.Seconds(), downFor, time.Since(began).Seconds(), seen.Restarts)
	l.add("power cut: most requests in a second", float64(s.peak), "requests/s", 0, "%.1f of each agent, %d refused with 429; %s",
		float64(s.requests())/float64(l.nodes), s.refused, s.kinds())
}
