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
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
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
	Peers(ctx context.Context) ([]control.Peer, error)
}

// Encryption is the state of encryption.
type Encryption interface {
	Announced() encryption.Announcement
	// Condition returns nil for a network without encryption; refused is why pods cannot be on it.
	Condition(joined *network.Joined) (condition *metav1.Condition, refused string)
}

// Reconciler sets the schedule in ktsnd and writes the status of the TSNNode.
type Reconciler struct {
	// Client reads the node's Node and writes the status of its TSNNode.
	Client client.Client
	// Node is the name of both.
	Node string
	// State returns the node's objects.
	State func() network.Cluster
	// Version is the agent's.
	Version string
	// Do connects to ktsnd and calls ask.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Well returns what else keeps the node from serving pods, nil if nothing does.
	Well func() error
	// Fault returns why pods on the network with that VNI are not served, nil if they are.
	Fault func(vni uint32) error
	// Switch returns why the node's Open vSwitch is not set up, without which ktsnd does not run; nil if it is, or if there is none.
	Switch func() error
	// Host returns the findings about the node's settings, and why they are not all; known is false before the first check.
	Host func() (findings []hostcheck.Finding, known bool, failure error)
	// Relays returns the state of the relays of the node's captured interfaces.
	Relays func() []relay.Status
	// MTU returns the largest MTU of pods' interfaces of a network with an uplink, 0 if that is not known.
	MTU        func(uplink string, joined *network.Joined) int
	Encryption Encryption
	Clock      Clock
	// CountPeers gets the summary of the peers by network.
	CountPeers func(map[string]metrics.PeerSummary)
	Now        func() time.Time
	Log        *slog.Logger

	// notReadySince is zero while the node's parts are ready; started means that they were ready before.
	notReadySince time.Time
	started       bool
	// peers are ktsnd's peers at peersReadAt.
	peers       map[peerKey]*control.Peer
	peersReadAt time.Time
	// silent has the silent peers, and since when they are; peerSummaries is by network.
	silent        map[peerKey]time.Time
	peerSummaries map[string]metrics.PeerSummary
	// mu guards the fields below: another goroutine, which does not wait for ktsnd, writes the state of the clock.
	mu sync.Mutex
	// written is the last written status. writeDue is when the present one is to be written, zero if it is the same; clockWriteDue the same
	// for the state of the clock.
	written                 *v1alpha1.TSNNodeStatus
	writtenAt               time.Time
	writeDue, clockWriteDue time.Time
}

const (
	// repeatEvery is how often ktsnd is read when nothing has happened.
	repeatEvery = 10 * time.Second
	// pendingEvery is how often while a schedule is about to begin, retryEvery after an error.
	pendingEvery = 250 * time.Millisecond
	retryEvery   = 2 * time.Second
)

// ktsndState is what ktsnd reports.
type ktsndState struct {
	status   *control.Status
	schedule *control.Schedule
	peers    map[peerKey]*control.Peer
	// known means that the schedule that it should execute is known.
	known bool
	err   error
}

// Reconcile reconciles everything, whatever the request. While the desired schedule is not known, ktsnd keeps the one that it has.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	state := r.State()
	if state.Unknown != nil {
		return reconcile.Result{RequeueAfter: repeatEvery}, nil
	}
	var node corev1.Node
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Node}, &node); err != nil {
		return reconcile.Result{}, fmt.Errorf("get node %s: %w", r.Node, err)
	}
	now := r.execute(ctx, &state)
	r.updateReadiness()
	left, err := r.report(ctx, &state, &node, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: min(left, r.requeueAfter(now))}, nil
}

// requeueAfter returns when to reconcile again.
func (r *Reconciler) requeueAfter(now *ktsndState) time.Duration {
	switch {
	case now.err != nil || r.Well() != nil:
		return retryEvery
	case now.schedule.Table.ConfigPending:
		return pendingEvery
	}
	return repeatEvery
}

// execute sets the desired schedule in ktsnd, and returns what ktsnd reports.
func (r *Reconciler) execute(ctx context.Context, state *network.Cluster) *ktsndState {
	now := &ktsndState{}
	gates, known := desiredGates(state)
	now.known = known
	now.err = r.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) (err error) {
		if now.status, err = ktsnd.Status(ctx); err != nil {
			return err
		}
		if now.peers, err = r.readPeers(ctx, ktsnd); err != nil {
			return err
		}
		if now.schedule, err = ktsnd.Schedule(ctx); err != nil || !known {
			return err
		}
		if err := r.setGates(ctx, ktsnd, now, gates); err != nil {
			return err
		}
		now.schedule, err = ktsnd.Schedule(ctx)
		return err
	})
	if err := r.Switch(); now.status == nil && err != nil {
		now.err = err // the cause
	}
	return now
}

// setGates sets the traffic classes and the gate parameter table where ktsnd has others.
func (r *Reconciler) setGates(ctx context.Context, ktsnd Ktsnd, now *ktsndState, gates *tsnnetwork.Gates) error {
	if now.status.TrafficClassMap != gates.Classes || now.status.PriorityCodePoints != gates.Points {
		if err := ktsnd.TrafficClassesSet(ctx, gates.Classes, gates.Points); err != nil {
			return fmt.Errorf("set the traffic classes: %w", err)
		}
		r.Log.Info("set the traffic classes")
	}
	if !hasTable(&now.schedule.Table, &gates.Table) {
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
