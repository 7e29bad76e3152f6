// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// writers is how many objects are made at once.
const writers = 8

// world is a cluster with its nodes, as the test sees it.
type world struct {
	*cluster
	t     testing.TB
	seats []Seat
	calls *rpc.Client
}

// nodeName sorts as its number does.
func nodeName(number int) string { return fmt.Sprintf("node-%04d", number) }

func address(number int) string { return fmt.Sprintf("172.16.%d.%d", number>>8, number&255) }

// makeNodes makes Nodes from a number on, each with the pod of its agent, whose token says on which node it is.
func (w *world) makeNodes(ctx context.Context, from, count int) {
	w.t.Helper()
	seats := make([]Seat, count)
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range seats {
		group.Go(func() error {
			number := from + i
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(number)}, Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address(number)}},
			}}
			if err := w.admin.Create(ctx, node); err != nil {
				return err
			}
			pod := plainPod("ktsn-agent-"+strconv.Itoa(number), system)
			pod.Labels = map[string]string{"app.kubernetes.io/name": "kubernetsn", "app.kubernetes.io/component": "agent"}
			pod.Spec.NodeName, pod.Spec.ServiceAccountName = node.Name, "ktsn-agent"
			if err := w.admin.Create(ctx, pod); err != nil {
				return err
			}
			// As kubelet says of it once it runs, which the operator counts on.
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			if err := w.admin.Status().Update(ctx, pod); err != nil {
				return err
			}
			token, err := w.token(ctx, "ktsn-agent", pod)
			seats[i] = Seat{Node: node.Name, Local: address(number), Token: token, Number: number, Up: 24 * time.Hour}
			return err
		})
	}
	must(w.t, group.Wait())
	w.seats = append(w.seats, seats...)
}

func plainPod(name, namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
}

func podName(node, pod int) string { return fmt.Sprintf("app-%04d-%d", node, pod) }

// makePods makes pods on the network, on nodes from one number up to before another.
func (w *world) makePods(ctx context.Context, from, to, each int) {
	w.t.Helper()
	var group errgroup.Group
	group.SetLimit(writers)
	for number := from; number < to; number++ {
		for i := range each {
			group.Go(func() error {
				pod := plainPod(podName(number, i), "default")
				pod.Annotations = map[string]string{v1alpha1.NetworkAnnotation: networkName}
				pod.Spec.NodeName = nodeName(number)
				return w.makePod(ctx, pod)
			})
		}
	}
	must(w.t, group.Wait())
}

// makePod tries again, as whoever makes pods does: on a machine that does much else the webhook may not answer in time.
func (w *world) makePod(ctx context.Context, pod *corev1.Pod) error {
	began := time.Now()
	for {
		err := w.admin.Create(ctx, pod.DeepCopy())
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if ended := w.operatorGone(); ended != nil || time.Since(began) > patience {
			return errors.Join(err, ended)
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// cycle is that of a schedule which the test asks for: each another one.
func cycle(number int) time.Duration { return time.Duration(number+1) * time.Millisecond }

// scheduleOf has all gates open for half of a cycle, and those of the upper classes for the other half.
func scheduleOf(length time.Duration) *v1alpha1.GateParameterTable {
	entry := func(index, gates int32) v1alpha1.GateControlEntry {
		return v1alpha1.GateControlEntry{Index: index, OperationName: control.SetGateStates,
			TimeIntervalValue: length.Nanoseconds() / 2, GateStatesValue: gates}
	}
	return &v1alpha1.GateParameterTable{
		GateEnabled:      true,
		AdminControlList: &v1alpha1.GateControlList{Entries: []v1alpha1.GateControlEntry{entry(0, 0xff), entry(1, 0xf0)}},
		AdminCycleTime:   &v1alpha1.CycleTime{Numerator: length.Nanoseconds(), Denominator: time.Second.Nanoseconds()},
	}
}

func (w *world) makeNetwork(ctx context.Context) {
	w.t.Helper()
	network := &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: networkName},
		Spec: v1alpha1.TSNNetworkSpec{
			VNI: 100, IPv4: v1alpha1.Range4{CIDR: "10.64.0.0/12", NodePrefixLength: 24}, Schedule: scheduleOf(cycle(0)),
		},
	}
	must(w.t, w.admin.Create(ctx, network))
}

// changeSchedule asks for one with another cycle.
func (w *world) changeSchedule(ctx context.Context, length time.Duration) {
	w.t.Helper()
	network := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkName}}
	must(w.t, w.admin.Get(ctx, client.ObjectKeyFromObject(network), network))
	before := network.DeepCopy()
	network.Spec.Schedule = scheduleOf(length)
	must(w.t, w.admin.Patch(ctx, network, client.MergeFrom(before)))
}

// startParts starts the operator and a process for agents.
func (w *world) startParts(ctx context.Context) {
	w.t.Helper()
	w.startOperator(w.t)
	w.startAgents(w.t)
	w.calls = w.dial(ctx, "agents.sock")
}

// dial connects to a part that has just been started.
func (w *world) dial(ctx context.Context, socket string) *rpc.Client {
	w.t.Helper()
	var connected *rpc.Client
	w.eventually(ctx, func() (err error) {
		connected, err = rpc.Dial("unix", filepath.Join(w.dir, socket))
		return err
	})
	return connected
}

func (w *world) call(method string, arguments, reply any) {
	w.t.Helper()
	must(w.t, w.calls.Call("Agents."+method, arguments, reply))
}

// awaitWebhook waits until pods on the network can be made.
func (w *world) awaitWebhook(ctx context.Context) {
	w.t.Helper()
	w.eventually(ctx, func() error {
		probe := plainPod("probe", "default")
		probe.Annotations = map[string]string{v1alpha1.NetworkAnnotation: "none"}
		if err := w.admin.Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the webhook does not answer: %w", err)
		}
		return nil
	})
}

// patience is how long anything may take: it is for machines that do much else, and is no limit that was promised.
const patience = 10 * time.Minute

// lookEvery is how often to look whether something has happened.
const lookEvery = 100 * time.Millisecond

// eventually repeats a look until it finds nothing wrong.
func (w *world) eventually(ctx context.Context, look func() error) {
	w.t.Helper()
	began := time.Now()
	for {
		err := look()
		if err == nil {
			return
		}
		must(w.t, w.operatorGone())
		if time.Since(began) > patience || ctx.Err() != nil {
			w.t.Fatalf("after %v: %v", time.Since(began).Round(time.Second), err)
		}
		time.Sleep(lookEvery)
	}
}

// see looks at all agents.
func (w *world) see(length time.Duration) *Overview {
	w.t.Helper()
	seen := &Overview{}
	w.call("See", length.Nanoseconds(), seen)
	return seen
}

// awaitReady waits until all agents are ready and know all others.
func (w *world) awaitReady(ctx context.Context, nodes, peers int) *Overview {
	w.t.Helper()
	var seen *Overview
	w.eventually(ctx, func() error {
		seen = w.see(0)
		if seen.Ready != nodes || seen.Peers != peers || seen.MostPeers != peers {
			return fmt.Errorf("%d of %d agents are ready, with %d to %d peers of %d: %s", seen.Ready, nodes, seen.Peers, seen.MostPeers,
				peers, strings.Join(seen.Unready, "; "))
		}
		return nil
	})
	return seen
}

// awaitInForce waits until all nodes execute a schedule.
func (w *world) awaitInForce(ctx context.Context, length time.Duration) {
	w.t.Helper()
	w.eventually(ctx, func() error {
		if seen := w.see(length); seen.InForce != seen.Nodes {
			return fmt.Errorf("the schedule is in force on %d of %d nodes", seen.InForce, seen.Nodes)
		}
		return nil
	})
}

// awaitOperational waits until the network's status says that all nodes are ready and execute its schedule.
func (w *world) awaitOperational(ctx context.Context, nodes int) {
	w.t.Helper()
	w.eventually(ctx, func() error {
		network := &v1alpha1.TSNNetwork{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: networkName}, network); err != nil {
			return err
		}
		counts, request := network.Status.NodeCounts, network.Status.Schedule
		if counts == nil || int(counts.Ready) != nodes || int(counts.ScheduleOperational) != nodes ||
			request == nil || request.ObservedGeneration != network.Generation {
			return fmt.Errorf("the network's status counts %+v of %d nodes, with schedule %+v", counts, nodes, request)
		}
		return nil
	})
}

// justBooted are the nodes after a power cut.
func (w *world) justBooted() []Seat {
	seats := slices.Clone(w.seats)
	for i := range seats {
		seats[i].Up = time.Minute
	}
	return seats
}

func (w *world) bill() *Bill {
	w.t.Helper()
	bill := &Bill{}
	w.call("Bill", None{}, bill)
	return bill
}
