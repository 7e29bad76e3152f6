// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"testing"
)

// Sizes of the short form.
const (
	shortNodes = 60
	shortPods  = 2
)

// TestChangeOfOneNode counts requests and bytes, which do not depend on the speed of the machine.
func TestChangeOfOneNode(t *testing.T) {
	ctx := t.Context()
	w := &world{cluster: newCluster(ctx, t), t: t}
	w.makeNodes(ctx, 0, shortNodes)
	w.startParts(ctx)
	w.awaitWebhook(ctx)
	w.makeNetwork(ctx)
	w.makePods(ctx, 0, shortNodes, shortPods)
	w.call("Start", w.seats, &None{})
	w.awaitReady(ctx, shortNodes, shortNodes-1)
	w.awaitOperational(ctx, shortNodes)
	w.askForClocks(ctx)
	w.part(t, "a schedule is changed", func() { w.aSchedule(ctx) })
	w.part(t, "a node reports", func() { w.aReport(ctx) })
	w.part(t, "a node joins", func() { w.aNode(ctx) })
	w.part(t, "clocks are lost", func() { w.theClocks(ctx, shortNodes+1) })
	w.part(t, "the power fails", func() { w.thePower(ctx) })
}

// part is a part of the test, which goes on in the same world.
func (w *world) part(t *testing.T, name string, do func()) {
	t.Run(name, func(t *testing.T) {
		whole := w.t
		defer func() { w.t = whole }()
		w.t = t
		do()
	})
}

// aSchedule comes into force everywhere. The nodes say so, and ask for nothing.
func (w *world) aSchedule(ctx context.Context) {
	bill := w.bill()
	w.changeSchedule(ctx, cycle(1))
	w.awaitInForce(ctx, cycle(1))
	w.awaitOperational(ctx, shortNodes)
	s := between(bill, w.bill(), "")
	w.t.Logf("%s; a node received at most %d bytes", s.kinds(), s.most.Received)
	if s.others.Asked > 0 || len(s.reports) < shortNodes {
		w.t.Errorf("%d nodes made %d requests for a changed schedule, and %d reports: %s", shortNodes, s.others.Asked, len(s.reports), s.kinds())
	}
}

// aReport is a matter of the node and the operator: nobody asks for anything.
func (w *world) aReport(ctx context.Context) {
	node := nodeName(7)
	bill := w.bill()
	w.call("Replace", Replacement{node, 2e9}, &None{})
	w.eventually(ctx, func() error {
		if s := between(bill, w.bill(), node); s.node.Requests == 0 {
			return fmt.Errorf("node %s has not reported", node)
		}
		return nil
	})
	w.awaitOperational(ctx, shortNodes)
	s := between(bill, w.bill(), node)
	w.t.Logf("%s; another node received at most %d bytes", s.kinds(), s.most.Received)
	if s.node.Asked > 0 || s.others.Asked > 0 {
		w.t.Errorf("beside its report a node made %d requests, and the others %d: %s", s.node.Asked, s.others.Asked, s.kinds())
	}
}

// aNode that joins has the others learn where it is, and ask for nothing.
func (w *world) aNode(ctx context.Context) {
	bill := w.bill()
	w.makeNodes(ctx, shortNodes, 1)
	w.makePods(ctx, shortNodes, shortNodes+1, shortPods)
	w.call("Start", w.seats[shortNodes:], &None{})
	w.awaitReady(ctx, shortNodes+1, shortNodes)
	s := between(bill, w.bill(), nodeName(shortNodes))
	w.t.Logf("%d requests of its own; each other node received at most %d bytes", s.node.Requests, s.most.Received)
	if s.others.Asked > 0 {
		w.t.Errorf("because a node joined, the others made %d requests: %s", s.others.Asked, s.kinds())
	}
}

// thePower comes back: all agents wait for the API server, and serve their nodes as before.
func (w *world) thePower(ctx context.Context) {
	const nodes = shortNodes + 1
	kill(w.agents)
	kill(w.operator)
	must(w.t, w.cutServer())
	w.startParts(ctx)
	w.call("Start", w.justBooted(), &None{})
	must(w.t, w.startServer())
	seen := w.awaitReady(ctx, nodes, nodes-1)
	w.awaitInForce(ctx, cycle(1))
	s := between(&Bill{}, w.bill(), "")
	w.t.Logf("%d requests, at most %d of an agent, at most %d in a second: %s", s.requests(), s.most.Requests, s.peak, s.kinds())
	if seen.Restarts > 0 {
		w.t.Errorf("agents ended %d times because the API server was away", seen.Restarts)
	}
}
