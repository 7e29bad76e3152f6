// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// following is a TSNNode with a good clock that follows something.
func following(name, source, grandmaster string, offset int32) *v1alpha1.TSNNode {
	state := clockSaid(name, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
	state.Status.Clock = &v1alpha1.NodeClock{State: "Synchronized", Source: source, Grandmaster: grandmaster, TAIOffset: &offset}
	return state
}

func TestDescribeClockDifferences(t *testing.T) {
	clock := func(source, grandmaster string, offset int32) *v1alpha1.NodeClock {
		return following("", source, grandmaster, offset).Status.Clock
	}
	silent := &v1alpha1.NodeClock{State: "Synchronized"}
	for name, test := range map[string]struct {
		good map[string]*v1alpha1.NodeClock
		want []string
	}{
		"one grandmaster":             {map[string]*v1alpha1.NodeClock{"a": clock("PTP", "x", 37), "b": clock("PTP", "x", 37)}, nil},
		"servers of NTP":              {map[string]*v1alpha1.NodeClock{"a": clock("NTP", "192.0.2.1", 37), "b": clock("NTP", "192.0.2.2", 37)}, nil},
		"what says nothing":           {map[string]*v1alpha1.NodeClock{"a": clock("PTP", "x", 37), "b": silent, "c": nil}, nil},
		"two grandmasters":            {map[string]*v1alpha1.NodeClock{"a": clock("PTP", "y", 0), "b": clock("PTP", "x", 0), "c": clock("PTP", "y", 0)}, []string{"nodes a, c follow the PTP grandmaster y, but node b follows the PTP grandmaster x"}},
		"PTP and NTP":                 {map[string]*v1alpha1.NodeClock{"a": clock("PTP", "x", 37), "b": clock("NTP", "192.0.2.2", 37)}, []string{"node a follows the PTP grandmaster x", "node b follows NTP"}},
		"other offsets":               {map[string]*v1alpha1.NodeClock{"a": clock("NTP", "r", 37), "b": clock("NTP", "r", 0), "c": clock("NTP", "r", 37)}, []string{"nodes a, c have 37 s, but node b has 0 s"}},
		"other clocks, other offsets": {map[string]*v1alpha1.NodeClock{"a": clock("NTP", "r", 37), "b": clock("PTP", "x", 0)}, []string{"node b follows the PTP", "node b has 0 s"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := describeClockDifferences(test.good)
			if (got == "") != (test.want == nil) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, part := range test.want {
				if !strings.Contains(got, part) {
					t.Errorf("got %q, which lacks %q", got, part)
				}
			}
		})
	}
}

// TestClocksDifferEvent first lets another grandmaster take over, which must not create an Event.
func TestClocksDifferEvent(t *testing.T) {
	network := clocked()
	network.Spec.Schedule = someSchedule()
	r := clockWorld(t, network, following("a", "PTP", "x", 37), following("b", "PTP", "y", 37))
	now := time.Now()
	r.shared.agents.now = func() time.Time { return now }
	r.pace.now = r.shared.agents.now
	events := r.Events.(*record.FakeRecorder).Events
	status := r.lookAt(t).Status
	accepted := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduleAccepted)
	if status.Schedule != nil || accepted == nil || accepted.Reason != v1alpha1.ReasonClockAwaited || !strings.Contains(accepted.Message, "grandmaster y") {
		t.Errorf("the schedule is %+v, and the condition %+v", status.Schedule, accepted)
	}
	if condition := clockOf(status.Conditions); condition.Status != metav1.ConditionTrue {
		t.Errorf("at once it says %+v", condition)
	}
	if event := <-events; !strings.Contains(event, v1alpha1.ReasonClockAwaited) {
		t.Errorf("there is an Event %q", event)
	}
	now = now.Add(clockDifferenceGrace)
	r.lookAt(t)
	now = now.Add(time.Minute)
	status = r.lookAt(t).Status
	currentCondition := clockOf(status.Conditions)
	if currentCondition.Status != metav1.ConditionFalse || currentCondition.Reason != v1alpha1.ReasonClocksDiffer || !strings.Contains(currentCondition.Message, "node a follows the PTP grandmaster x, but node b") {
		t.Errorf("after a while it says %+v", currentCondition)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDegraded) || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("the conditions are %+v", status.Conditions)
	}
	if event := <-events; !strings.Contains(event, v1alpha1.ReasonClocksDiffer) || len(events) > 0 {
		t.Errorf("there are %d Events after %q", len(events), event)
	}
	state := &v1alpha1.TSNNode{}
	state.Name = "b"
	must(t, r.Client.Delete(t.Context(), state))
	must(t, r.Client.Create(t.Context(), following("b", "PTP", "x", 37)))
	now = now.Add(time.Minute)
	status = r.lookAt(t).Status
	if condition := clockOf(status.Conditions); condition.Status != metav1.ConditionTrue || status.Schedule == nil {
		t.Errorf("with one grandmaster it says %+v, and the schedule is %+v", condition, status.Schedule)
	}
}

func TestHoldoverPerNetwork(t *testing.T) {
	network := clocked()
	network.Spec.Clock.Holdover = "1m"
	bound, lost := int64(5000), metav1.NewTime(time.Unix(1000, 0))
	for after, want := range map[time.Duration]clockTrust{time.Second: clockHoldover, 59 * time.Second: clockHoldover, time.Minute: clockLost, time.Hour: clockLost} {
		for _, text := range []string{"Holdover", "Unsynchronized"} {
			state := elsewhere(text, &bound)
			state.Status.Clock.LostSince = &lost
			if got := clockTrustOf(network, state, lost.Add(after)); got != want {
				t.Errorf("%s for %v: got %v, want %v", text, after, got, want)
			}
		}
	}
	if left := remainingHoldover(network, &v1alpha1.NodeClock{LostSince: &lost}, lost.Add(40*time.Second)); left != 20*time.Second {
		t.Errorf("it is looked at again after %v", left)
	}
}

// TestScheduleAwaitsEqualTAIOffsets has chronyd with leapsectz on one node, and without on another that has an offset from
// somewhere else. Each of the two is as good as it can see.
func TestScheduleAwaitsEqualTAIOffsets(t *testing.T) {
	network := clocked()
	network.Spec.Schedule = someSchedule()
	r := clockWorld(t, network, following("a", "NTP", "192.0.2.1", 37), following("b", "NTP", "192.0.2.2", 36))
	now := time.Now()
	r.shared.agents.now = func() time.Time { return now }
	r.pace.now = r.shared.agents.now
	const named = "node b has 36 s, but node a has 37 s"
	status := r.lookAt(t).Status
	accepted := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduleAccepted)
	if status.Schedule != nil || accepted == nil || accepted.Reason != v1alpha1.ReasonClockAwaited || !strings.Contains(accepted.Message, named) {
		t.Errorf("the schedule is %+v, and the condition %+v", status.Schedule, accepted)
	}
	now = now.Add(clockDifferenceGrace)
	status = r.lookAt(t).Status
	if condition := clockOf(status.Conditions); condition.Reason != v1alpha1.ReasonClocksDiffer || !strings.Contains(condition.Message, named) || !strings.Contains(condition.Message, "leapsectz") {
		t.Errorf("after a while it says %+v", condition)
	}
	state := &v1alpha1.TSNNode{}
	state.Name = "b"
	must(t, r.Client.Delete(t.Context(), state))
	must(t, r.Client.Create(t.Context(), following("b", "NTP", "192.0.2.2", 37)))
	now = now.Add(time.Minute)
	if status = r.lookAt(t).Status; status.Schedule == nil {
		t.Errorf("with one offset no schedule begins: %+v", status.Conditions)
	}
}
