// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
)

// fakeClock is in one state for all networks; "" for one of which nobody knows.
type fakeClock struct{ state, reason string }

func (c *fakeClock) Node() *v1alpha1.NodeClock {
	if c.state == "" {
		return nil
	}
	return &v1alpha1.NodeClock{State: c.state, Message: c.reason}
}

func (c *fakeClock) Network(string) (metav1.Condition, bool) {
	condition := metav1.Condition{Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonClockUnsynchronized, Message: c.reason}
	if c.state == "Synchronized" {
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsAsked
	}
	return condition, c.state != ""
}

// clocked is a network that asks for a good clock.
func clocked() *v1alpha1.TSNNetwork {
	about := aNetwork()
	about.Spec.Clock = &v1alpha1.ClockRequirement{}
	return about
}

// says is what the TSNNode says of the clock.
func (l *lab) says() string {
	l.t.Helper()
	l.hear()
	state, condition := "nothing", "nothing"
	if clock := l.state.Node.Status.Clock; clock != nil {
		state = clock.State
	}
	if networks := l.state.Node.Status.Networks; len(networks) == 1 {
		if synchronized := meta.FindStatusCondition(networks[0].Conditions, v1alpha1.ConditionClockSynchronized); synchronized != nil {
			condition = fmt.Sprintf("%s %s", synchronized.Status, synchronized.Reason)
		}
	}
	return state + ", " + condition
}

func TestANodeSaysHowItsClockIs(t *testing.T) {
	for sentence, test := range map[string]struct {
		network *v1alpha1.TSNNetwork
		clock   fakeClock
		want    string
	}{
		"nobody has looked yet":                  {clocked(), fakeClock{}, "nothing, Unknown ClockUnknown"},
		"it is good":                             {clocked(), fakeClock{"Synchronized", ""}, "Synchronized, True AsAsked"},
		"it is not":                              {clocked(), fakeClock{"Unsynchronized", "ptp4l has ended"}, "Unsynchronized, False ClockUnsynchronized"},
		"it is not, and the network asks not":    {aNetwork(), fakeClock{"Unsynchronized", "ptp4l has ended"}, "Unsynchronized, nothing"},
		"nobody looks, and the network asks not": {aNetwork(), fakeClock{}, "nothing, nothing"},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLab(t, test.network)
			l.clock = test.clock
			if l.look(); l.says() != test.want {
				t.Errorf("it says %s, want %s", l.says(), test.want)
			}
		})
	}
}

func TestAnotherStateOfTheClockWaitsForNobody(t *testing.T) {
	for sentence, trouble := range map[string]func(*lab){
		"all is well":               func(*lab) {},
		"a part may be well soon":   func(l *lab) { l.well = errors.New("kubelet: gone") },
		"ktsnd does not answer":     func(l *lab) { l.running, l.well = errors.New("it does not answer"), errors.New("ktsnd: gone") },
		"another report is not due": func(l *lab) { l.writeDue = l.now.Add(time.Hour) },
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLab(t, clocked())
			l.clock = fakeClock{"Synchronized", ""}
			l.look()
			trouble(l)
			written := l.written
			l.clock = fakeClock{"Unsynchronized", "ptp4l has ended"}
			l.reconcile()
			if got := l.says(); got != "Unsynchronized, False ClockUnsynchronized" || l.written == written {
				t.Errorf("at once it says %s", got)
			}
			if ready := meta.FindStatusCondition(l.state.Node.Status.Networks[0].Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
				t.Errorf("what may pass is said as well: %+v", ready)
			}
		})
	}
}

func TestAKtsndThatHangsDelaysNoReportOfTheClock(t *testing.T) {
	l := newLab(t, clocked())
	l.clock = fakeClock{"Synchronized", ""}
	l.look()
	asked, goOn := make(chan struct{}), make(chan struct{})
	l.Do = func(context.Context, func(context.Context, Ktsnd) error) error {
		close(asked)
		<-goOn
		return errors.New("it does not answer")
	}
	ended := make(chan error)
	go func() {
		_, err := l.Reconcile(t.Context(), reconcile.Request{})
		ended <- err
	}()
	<-asked
	l.clock = fakeClock{"Unsynchronized", "ptp4l has ended"}
	began := time.Now()
	reported := make(chan error)
	go func() {
		_, err := l.ReconcileClock(t.Context(), reconcile.Request{})
		reported <- err
	}()
	select {
	case err := <-reported:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Second):
		t.Error("the report waits for ktsnd")
	}
	var node v1alpha1.TSNNode
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, &node); err != nil || node.Status.Clock.State != "Unsynchronized" {
		t.Errorf("after %v it says %+v: %v", time.Since(began), node.Status.Clock, err)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := l.says(); got != "Unsynchronized, False ClockUnsynchronized" {
		t.Errorf("when ktsnd has answered it says %s", got)
	}
}

func TestWhatWasSaidOfTheClockHoldsUntilAnAgentKnowsBetter(t *testing.T) {
	l := newLab(t, clocked())
	l.clock = fakeClock{"Synchronized", ""}
	l.look()
	l.clock, l.Reconciler.written = fakeClock{}, nil // another agent
	written := l.written
	if l.look(); l.says() != "Synchronized, True AsAsked" || l.written != written {
		t.Errorf("after %d more reports it says %s", l.written-written, l.says())
	}
	l.state.Networks[0].Object = aNetwork()
	if l.look(); l.says() != "Synchronized, nothing" {
		t.Errorf("of a network that asks for no clock any more it says %s", l.says())
	}
}

func TestReportsOfManyNodesClocksAreSpreadOverASecond(t *testing.T) {
	l := newLab(t, clocked())
	l.clock = fakeClock{"Synchronized", ""}
	l.look()
	for range 10 {
		l.state.Networks[0].Shards = append(l.state.Networks[0].Shards, make([]network.Member, 100))
	}
	l.clock = fakeClock{"Unsynchronized", ""}
	var most time.Duration
	for range 100 {
		l.clockWriteDue, l.writeDue = time.Time{}, l.now.Add(time.Hour)
		left := l.reconcile().RequeueAfter
		if l.written > 5 {
			t.Fatal("most are written at once")
		}
		most = max(most, left)
	}
	if most > time.Second || most < time.Second/2 {
		t.Errorf("they wait for up to %v", most)
	}
	l.now = l.now.Add(time.Second)
	if l.reconcile(); l.says() != "Unsynchronized, False ClockUnsynchronized" {
		t.Errorf("after a second it says %s", l.says())
	}
}
