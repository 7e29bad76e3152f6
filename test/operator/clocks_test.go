// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestClockDefaults(t *testing.T) {
	ctx := needServer(t)
	network := newNetwork("clock-defaults", 240, "10.240.0.0/16")
	network.Spec.Clock = &v1alpha1.ClockRequirement{}
	create(ctx, t, network)
	if want := (v1alpha1.ClockRequirement{MaxError: "10us", Holdover: "1m", OnLoss: v1alpha1.OnLossContinue}); *network.Spec.Clock != want {
		t.Errorf("it asks for %+v, want %+v", *network.Spec.Clock, want)
	}
}

// reportClock reports the condition of a node's clock for the current generation of a network.
func reportClock(ctx context.Context, t *testing.T, node string, network *v1alpha1.TSNNetwork, status metav1.ConditionStatus, reason string) {
	t.Helper()
	state := stateOf(node)
	await(ctx, t, network, func() error {
		if err := get(ctx, state); err != nil {
			return err
		}
		condition := func(kind string, status metav1.ConditionStatus, reason, text string) metav1.Condition {
			return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text, LastTransitionTime: metav1.Now(),
				ObservedGeneration: network.Generation}
		}
		state.Status = v1alpha1.TSNNodeStatus{AgentVersion: "1", Networks: []v1alpha1.NodeNetworkStatus{{
			Name: network.Name, ObservedGeneration: network.Generation, Conditions: []metav1.Condition{
				condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked, ""),
				condition(v1alpha1.ConditionClockSynchronized, status, reason, "its clock is "+reason),
			},
		}}}
		return admin.Status().Update(ctx, state)
	})
}

// awaitClockLabel waits until a node has the label of a lost clock for a network, or does not have it.
func awaitClockLabel(ctx context.Context, t *testing.T, node *corev1.Node, network string, want bool) {
	t.Helper()
	await(ctx, t, node, func() error {
		if labelled := node.Labels[v1alpha1.ClockLabelPrefix+network] == v1alpha1.ClockLost; labelled != want {
			return fmt.Errorf("node %s is lost to %s: %v, want %v", node.Name, network, labelled, want)
		}
		return nil
	})
}

func TestLostClockKeepsPodsAway(t *testing.T) {
	ctx := needOperator(t)
	network, node := newNetwork("clock-lost", 241, "10.241.0.0/16"), newNode("clock-lost-1")
	network.Spec.Clock = &v1alpha1.ClockRequirement{}
	create(ctx, t, node, network)
	makeAgent(ctx, t, node.Name)
	first := onNetwork("clock-lost-one", "default", "clock-lost", node.Name)
	create(ctx, t, first)
	if first.Spec.Affinity != nil {
		t.Errorf("a pod that has its node has the affinity %+v", first.Spec.Affinity)
	}
	awaitState(ctx, t, stateOf(node.Name), "clock-lost=10.241.0.0/24,1 gates=")
	reportClock(ctx, t, node.Name, network, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	condition(ctx, t, network, v1alpha1.ConditionClockSynchronized, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	awaitClockLabel(ctx, t, node, network.Name, false)
	began := time.Now()
	reportClock(ctx, t, node.Name, network, metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized)
	awaitClockLabel(ctx, t, node, network.Name, true)
	t.Logf("it is labelled %v after its report", time.Since(began).Round(time.Millisecond))
	text := condition(ctx, t, network, v1alpha1.ConditionClockSynchronized, metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized)
	t.Logf("and the network says so after %v", time.Since(began).Round(time.Millisecond))
	if text != "node clock-lost-1: its clock is ClockUnsynchronized" {
		t.Errorf("got %q", text)
	}
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonClockUnsynchronized)
	condition(ctx, t, network, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	awaitEvent(ctx, t, "default", network.Name, v1alpha1.ReasonClockUnsynchronized)
	two := onNetwork("clock-lost-two", "default", "clock-lost", "")
	create(ctx, t, two)
	if got := fmt.Sprint(two.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions); got != "[{clock.kubernetsn.io/clock-lost NotIn [lost]}]" {
		t.Errorf("the scheduler is asked for %s", got)
	}
	reportClock(ctx, t, node.Name, network, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	awaitClockLabel(ctx, t, node, network.Name, false)
	condition(ctx, t, network, v1alpha1.ConditionClockSynchronized, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	awaitEvent(ctx, t, "default", network.Name, v1alpha1.ReasonClockSynchronized)
	// Neither a network that does not ask any more leaves a label, nor a node whose agent goes with its last pod.
	reportClock(ctx, t, node.Name, network, metav1.ConditionFalse, v1alpha1.ReasonClockUnknown)
	awaitClockLabel(ctx, t, node, network.Name, true)
	change(ctx, t, network, func() { network.Spec.Clock = nil })
	awaitClockLabel(ctx, t, node, network.Name, false)
	change(ctx, t, network, func() { network.Spec.Clock = &v1alpha1.ClockRequirement{} })
	awaitClockLabel(ctx, t, node, network.Name, true)
	remove(ctx, t, first)
	awaitClockLabel(ctx, t, node, network.Name, false)
}

// othersAreGood has nodes of other tests say that their clocks are good: they would execute the schedule as well.
func othersAreGood(ctx context.Context, t *testing.T, except ...string) {
	t.Helper()
	var nodes v1alpha1.TSNNodeList
	must(t, admin.List(ctx, &nodes))
	for i := range nodes.Items {
		if slices.Contains(except, nodes.Items[i].Name) {
			continue
		}
		patch := mergePatch(`{"status":{"clock":{"state":"Synchronized","errorBoundNanoseconds":1000}}}`)
		must(t, admin.Status().Patch(ctx, &nodes.Items[i], patch))
	}
}

func TestScheduleAwaitsClocks(t *testing.T) {
	ctx := needOperator(t)
	network, good, bad := newNetwork("clock-gates", 242, "10.242.0.0/16"), newNode("clock-gates-1"), newNode("clock-gates-2")
	network.Spec.Clock = &v1alpha1.ClockRequirement{}
	create(ctx, t, good, bad, network)
	for _, node := range []*corev1.Node{good, bad} {
		makeAgent(ctx, t, node.Name)
		create(ctx, t, onNetwork(node.Name, "default", "clock-gates", node.Name))
		eventually(ctx, t, func() error { return get(ctx, stateOf(node.Name)) })
	}
	othersAreGood(ctx, t, good.Name, bad.Name)
	change(ctx, t, network, func() { network.Spec.Schedule = gates(15) })
	reportClock(ctx, t, good.Name, network, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	condition(ctx, t, network, v1alpha1.ConditionScheduleAccepted, metav1.ConditionUnknown, v1alpha1.ReasonClockAwaited, "clock-gates-2")
	reportClock(ctx, t, bad.Name, network, metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized)
	text := condition(ctx, t, network, v1alpha1.ConditionScheduleAccepted, metav1.ConditionFalse, v1alpha1.ReasonClockAwaited)
	if !strings.Contains(text, "are not: clock-gates-2; ") || network.Status.Schedule != nil {
		t.Errorf("got %q, and the schedule is %+v", text, network.Status.Schedule)
	}
	awaitEvent(ctx, t, "default", network.Name, v1alpha1.ReasonClockAwaited)
	reportClock(ctx, t, bad.Name, network, metav1.ConditionTrue, v1alpha1.ReasonClockHoldover)
	condition(ctx, t, network, v1alpha1.ConditionScheduleAccepted, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	condition(ctx, t, network, v1alpha1.ConditionClockSynchronized, metav1.ConditionTrue, v1alpha1.ReasonClockHoldover)
	if network.Status.Schedule == nil {
		t.Error("nothing is asked for")
	}
}

// reportGrandmaster reports the grandmaster of a node whose clock is good.
func reportGrandmaster(ctx context.Context, t *testing.T, node, grandmaster string) {
	t.Helper()
	text := fmt.Sprintf(`{"status":{"clock":{"state":"Synchronized","errorBoundNanoseconds":1000,"source":"PTP","grandmaster":%q,"taiOffset":37}}}`, grandmaster)
	mustPatchStatus(ctx, t, stateOf(node), text)
}

func TestClocksDiffer(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("clock-differ", 244, "10.244.0.0/16")
	network.Spec.Clock = &v1alpha1.ClockRequirement{}
	create(ctx, t, network)
	for _, name := range []string{"clock-differ-1", "clock-differ-2"} {
		create(ctx, t, newNode(name))
		makeAgent(ctx, t, name)
		create(ctx, t, onNetwork(name, "default", "clock-differ", name))
		eventually(ctx, t, func() error { return get(ctx, stateOf(name)) })
		reportClock(ctx, t, name, network, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
		reportGrandmaster(ctx, t, name, "gm-"+name)
	}
	text := condition(ctx, t, network, v1alpha1.ConditionClockSynchronized, metav1.ConditionFalse, v1alpha1.ReasonClocksDiffer)
	for _, name := range []string{"clock-differ-1", "clock-differ-2"} {
		if !strings.Contains(text, "node "+name+" follows the PTP grandmaster gm-"+name) {
			t.Errorf("got %q, without %s", text, name)
		}
	}
	condition(ctx, t, network, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonClocksDiffer)
	awaitEvent(ctx, t, "default", network.Name, v1alpha1.ReasonClocksDiffer)
	reportGrandmaster(ctx, t, "clock-differ-1", "gm-clock-differ-2")
	condition(ctx, t, network, v1alpha1.ConditionClockSynchronized, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
}

func TestOperatorWritesOnlyNodeLabels(t *testing.T) {
	ctx := needPolicy(t)
	operator, node := operatorWithAllRights(t), newNode("clock-policy")
	node.Labels = map[string]string{"own": "own"}
	create(ctx, t, node)
	const sentence = "ktsn-operator may change only the labels kubernetsn.io/active and clock.kubernetsn.io/NETWORK of a node"
	for text, want := range map[string]string{
		`{"metadata":{"labels":{"clock.kubernetsn.io/tsn":"lost"}}}`:    "",
		`{"metadata":{"labels":{"kubernetsn.io/active":"true"}}}`:       "",
		`{"metadata":{"labels":{"clock.kubernetsn.io.x/tsn":"lost"}}}`:  sentence,
		`{"metadata":{"labels":{"own":null}}}`:                          sentence,
		`{"metadata":{"annotations":{"clock.kubernetsn.io/a":"lost"}}}`: sentence,
		`{"spec":{"unschedulable":true}}`:                               sentence,
	} {
		err := operator.Patch(ctx, node.DeepCopy(), mergePatch(text), client.DryRunAll)
		checkRefusal(t, text, err, want)
	}
}
