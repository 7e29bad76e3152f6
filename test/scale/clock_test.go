// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// playedClock is what a node's agent hears of its clock: an estimate a second, each with another error.
type playedClock struct {
	mu    sync.Mutex
	bound time.Duration
	// changed is closed when the bound is another one.
	changed chan struct{}
}

// Errors of clocks that meet the network's requirement, or do not. Agents round them up to 1, 2 or 5 times a power of ten, so the variation
// that is added to them is not reported.
const (
	goodError = 2200 * time.Nanosecond
	badError  = 1200 * time.Microsecond
	mostError = "10us"
)

func newPlayedClock() *playedClock {
	return &playedClock{bound: goodError, changed: make(chan struct{})}
}

func (c *playedClock) set(bound time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound = bound
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *playedClock) now() (time.Duration, chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bound, c.changed
}

// watch is the agent's.
func (c *playedClock) watch(ctx context.Context, hear func(clock.Estimate), _ *slog.Logger) error {
	for count := time.Duration(0); ; count++ {
		bound, changed := c.now()
		hear(clock.Estimate{At: time.Now(), Source: clock.PTP, Grandmaster: "001122.fffe.334455", Bound: bound + count%7*bound/100, DriftPPB: 100, TAIOffset: 37})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(time.Second):
		}
	}
}

// ClockChange gives nodes' clocks another error; no Nodes: all.
type ClockChange struct {
	Nodes []string
	Error time.Duration
}

// Clock does that.
func (a *Agents) Clock(wanted ClockChange, _ *None) error {
	for _, node := range a.all() {
		if len(wanted.Nodes) == 0 || slices.Contains(wanted.Nodes, node.Node) {
			node.clock.set(wanted.Error)
		}
	}
	return nil
}

// setClock keeps what a network asks of the clock, which the agent compares with what it wants.
func (k *ktsnd) setClock(asked *request) error {
	need := &control.ClockNeed{}
	if string(asked.Clock) == "{}" {
		delete(k.clocks, asked.VNI)
		return nil
	}
	if err := json.Unmarshal(asked.Clock, need); err != nil {
		return err
	}
	k.clocks[asked.VNI] = control.NetworkClock{VNI: asked.VNI, ClockNeed: *need, Lost: !need.Good}
	return nil
}

// clockLook is what came of a change of clocks.
type clockLook struct {
	// labelled is when the last node was as it should be, said when the network's status was; both since the change.
	labelled, reported time.Duration
	spent              *spent
}

// clockLinger is for how long what nodes report is counted after a change: what a clock does within a state they are to keep to themselves.
const clockLinger = 3 * time.Second

// askForClocks has the network ask for good clocks, and waits until all nodes have said how good theirs are. From then on whatever
// happens in the cluster costs what it does with clocks: a changed schedule waits for them, a node that joins is trusted by its own.
// Before all agents run it cannot: those that are to come have pods that are ready, and would be taken for agents that know of no clocks.
func (w *world) askForClocks(ctx context.Context) {
	w.t.Helper()
	network := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkName}}
	must(w.t, w.admin.Get(ctx, client.ObjectKeyFromObject(network), network))
	before := network.DeepCopy()
	network.Spec.Clock = &v1alpha1.ClockRequirement{MaxError: mostError}
	must(w.t, w.admin.Patch(ctx, network, client.MergeFrom(before)))
	w.awaitClocks(ctx, "True", "")
}

// awaitClocks waits until the network says so of its nodes' clocks, and names a node.
func (w *world) awaitClocks(ctx context.Context, status, names string) {
	w.t.Helper()
	w.eventually(ctx, func() error {
		network := &v1alpha1.TSNNetwork{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: networkName}, network); err != nil {
			return err
		}
		condition := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionClockSynchronized)
		if condition == nil || string(condition.Status) != status || !strings.Contains(condition.Message, names) {
			return fmt.Errorf("of clocks the network says %+v, want %s", condition, status)
		}
		return nil
	})
}

// turnClocks gives nodes another error of their clock, and looks what becomes of it; no names: all nodes.
func (w *world) turnClocks(ctx context.Context, names []string, to time.Duration, lost int, status string) *clockLook {
	w.t.Helper()
	first := ""
	if len(names) > 0 {
		first = names[0]
	}
	bill, began := w.bill(), time.Now()
	w.call("Clock", ClockChange{names, to}, &None{})
	look := &clockLook{}
	w.eventually(ctx, func() error {
		var nodes corev1.NodeList
		if err := w.admin.List(ctx, &nodes, client.HasLabels{v1alpha1.ClockLabelPrefix + networkName}); err != nil {
			return err
		}
		if len(nodes.Items) != lost {
			return fmt.Errorf("%d nodes are lost, want %d", len(nodes.Items), lost)
		}
		return nil
	})
	look.labelled = time.Since(began)
	w.awaitClocks(ctx, status, "")
	look.reported = time.Since(began)
	time.Sleep(clockLinger)
	look.spent = between(bill, w.bill(), first)
	return look
}

// String says what a change cost. Looks are lookEvery apart.
func (l *clockLook) String() string {
	return fmt.Sprintf("labels after %.1f s, the network's status after %.1f s; %d reports; %s", l.labelled.Seconds(), l.reported.Seconds(), len(l.spent.reports),
		l.spent.kinds())
}

// mostOfClock is what a change of the state of a clock may cost a node beside its report: Events of the Node and of the TSNNode.
const mostOfClock = 2

// theClocks of one node and of all are lost, and good again. A lost clock costs its node one report; one that is good again is watched
// for a while before it is trusted, which is a report as well. Nobody asks for anything.
func (w *world) theClocks(ctx context.Context, nodes int) {
	w.awaitOperational(ctx, nodes)
	w.awaitClocks(ctx, "True", "")
	time.Sleep(clockLinger) // in which nodes say the rest of what happened before
	node := nodeName(nodes / 2)
	for _, turn := range []struct {
		what          string
		names         []string
		to            time.Duration
		lost          int
		status        string
		reports, most int
	}{
		{"one is lost", []string{node}, badError, 1, "False", 1, 1},
		{"one is good again", []string{node}, goodError, 0, "True", 1, 2},
		{"all are lost", nil, badError, nodes, "False", nodes, nodes},
		{"all are good again", nil, goodError, 0, "True", nodes, 2 * nodes},
	} {
		look := w.turnClocks(ctx, turn.names, turn.to, turn.lost, turn.status)
		w.t.Logf("%s: %s", turn.what, look)
		s := look.spent
		if count := len(s.reports); count < turn.reports || count > turn.most {
			w.t.Errorf("%s: there are %d reports, want %d to %d: %s", turn.what, count, turn.reports, turn.most, s.kinds())
		}
		if s.node.Asked > mostOfClock || s.most.Asked > mostOfClock || len(turn.names) > 0 && s.others.Asked > 0 {
			w.t.Errorf("%s: the node made %d other requests, and another one %d: %s", turn.what, s.node.Asked, s.most.Asked, s.kinds())
		}
	}
}
