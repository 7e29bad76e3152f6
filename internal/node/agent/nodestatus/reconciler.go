// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	Status(ctx context.Context) (*control.Status, error)
	Schedule(ctx context.Context) (*control.Schedule, error)
	ScheduleSet(ctx context.Context, table *control.GateParameterTable) error
	TrafficClassesSet(ctx context.Context, classes control.TrafficClassMap, points control.PriorityCodePoints) error
}

// Encryption says how networks are encrypted.
type Encryption interface {
	Announced() encryption.Announcement
	// Condition is nil for a network that is not to be encrypted; refused is why pods cannot be on it.
	Condition(joined *network.Joined) (is *metav1.Condition, refused string)
}

// Reconciler has ktsnd execute what the networks ask for, and says what holds.
type Reconciler struct {
	// Client gives the agent's own Node, and writes the status of its TSNNode.
	Client client.Client
	// Node is the name of both.
	Node string
	// State is what the API server has said.
	State func() network.Cluster
	// Version is the agent's.
	Version string
	// Do has ask talk to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Well says what else keeps the node from serving pods, nil if nothing does.
	Well func() error
	// Switch says what keeps the node's Open vSwitch from being set up, without which there is no ktsnd; nil if nothing does.
	Switch func() error
	// Relays says how those of the node's captured interfaces are.
	Relays func() []relay.Status
	// MTU is the most that pods' interfaces of a network can have with an uplink by this interface, 0 if that is not known.
	MTU func(uplink string, joined *network.Joined) int
	// Encryption says how networks are encrypted, and what the node's keys are.
	Encryption Encryption
	// Clock says how the node's clock is.
	Clock Clock
	Now   func() time.Time
	Log   *slog.Logger

	// unwell is since when the node has not been well, zero while it is; started tells whether it was well before.
	unwell  time.Time
	started bool
	// mu guards what follows: reports of the clock are written by another goroutine, which waits for no ktsnd.
	mu sync.Mutex
	// said is what was written last, and when; due is when what holds now is to be written, zero if nothing is.
	said   *v1alpha1.TSNNodeStatus
	saidAt time.Time
	due    time.Time
	// clockDue is when another state of the clock is to be written.
	clockDue time.Time
}

const (
	// repeatEvery is how often to look at ktsnd when nothing has happened.
	repeatEvery = 10 * time.Second
	// pendingEvery is how often while a schedule is about to begin, or something is amiss.
	pendingEvery = 250 * time.Millisecond
	retryEvery   = 2 * time.Second
)

// seen is what ktsnd says.
type seen struct {
	status   *control.Status
	schedule *control.Schedule
	// known is whether the networks say what it shall execute.
	known bool
	err   error
}

// Reconcile looks at everything, whatever it was called for. As long as the node's task is not known, ktsnd keeps what it has.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	state := r.State()
	if state.Unknown != nil {
		return reconcile.Result{RequeueAfter: repeatEvery}, nil
	}
	var node corev1.Node
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Node}, &node); err != nil {
		return reconcile.Result{}, fmt.Errorf("look at node %s: %w", r.Node, err)
	}
	now := r.execute(ctx, &state)
	r.feel()
	left, err := r.report(ctx, &state, &node, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: min(left, r.again(now))}, nil
}

// again is when to look again.
func (r *Reconciler) again(now *seen) time.Duration {
	switch {
	case now.err != nil || r.Well() != nil:
		return retryEvery
	case now.schedule.Table.ConfigPending:
		return pendingEvery
	}
	return repeatEvery
}

// execute has ktsnd execute what is wanted, and looks.
func (r *Reconciler) execute(ctx context.Context, state *network.Cluster) *seen {
	now := &seen{}
	gates, known := wanted(state)
	now.known = known
	now.err = r.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) (err error) {
		if now.status, err = ktsnd.Status(ctx); err != nil {
			return err
		}
		if now.schedule, err = ktsnd.Schedule(ctx); err != nil || !known {
			return err
		}
		if err := r.ask(ctx, ktsnd, now, gates); err != nil {
			return err
		}
		now.schedule, err = ktsnd.Schedule(ctx)
		return err
	})
	if err := r.Switch(); now.status == nil && err != nil {
		now.err = err // the reason, which somebody can do something about
	}
	return now
}

func (r *Reconciler) ask(ctx context.Context, ktsnd Ktsnd, now *seen, gates *tsnnetwork.Gates) error {
	if now.status.TrafficClassMap != gates.Classes || now.status.PriorityCodePoints != gates.Points {
		if err := ktsnd.TrafficClassesSet(ctx, gates.Classes, gates.Points); err != nil {
			return fmt.Errorf("set the traffic classes: %w", err)
		}
		r.Log.Info("set the traffic classes")
	}
	if !asked(&now.schedule.Table, &gates.Table) {
		err := schedule.CheckTable(&gates.Table, now.status.LinkSpeedBps)
		if err == nil {
			err = ktsnd.ScheduleSet(ctx, &gates.Table)
		}
		if err != nil {
			return fmt.Errorf("set the schedule: %w", err)
		}
		base := gates.Table.AdminBaseTime
		r.Log.Info("set the schedule", "base", fmt.Sprintf("%d.%09d", base.Seconds, base.Nanoseconds))
	}
	return nil
}
