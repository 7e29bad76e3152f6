// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func TestNetworkJudgedByOwnRequirement(t *testing.T) {
	strict, lax := newNetwork("strict", 1, "1us"), newNetwork("lax", 2, "1ms")
	wrong := newNetwork("wrong", 3, "much")
	for sentence, test := range map[string]struct {
		networks []*v1alpha1.TSNNetwork
		estimate clock.Estimate
		node     clock.State
		want     string
	}{
		"good enough for both": {[]*v1alpha1.TSNNetwork{strict, lax}, clock.Estimate{Bound: 900}, clock.Synchronized, "lax True AsAsked, strict True AsAsked"},
		"good enough for one, not the strictest": {[]*v1alpha1.TSNNetwork{strict, lax}, clock.Estimate{Bound: 2000}, clock.Unsynchronized,
			"lax True AsAsked, strict False ClockUnsynchronized"},
		"nobody keeps it any more": {[]*v1alpha1.TSNNetwork{strict}, clock.Estimate{Bound: 900, Lost: time.Now()}, clock.Holdover, "strict True ClockHoldover"},
		"nobody keeps it":          {[]*v1alpha1.TSNNetwork{lax}, clock.Estimate{Bound: -1}, clock.Unknown, "lax False ClockUnknown"},
		"one that cannot be read":  {[]*v1alpha1.TSNNetwork{lax, wrong}, clock.Estimate{Bound: 900}, clock.Synchronized, "lax True AsAsked, wrong False ClockUnknown"},
		"no network asks: 10 us":   {nil, clock.Estimate{Bound: 11000}, clock.Unsynchronized, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLab(t, test.networks...)
			l.estimate(settleTime, test.estimate)
			if l.status() != test.want || l.Node() == nil || l.Node().State != string(test.node) || l.figure != test.node {
				t.Errorf("it says %s, of the node %+v\nwant %s, %s", l.status(), l.Node(), test.want, test.node)
			}
		})
	}
}

func TestNetworkJudgedAfterChange(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 1, "1us"))
	l.after(settleTime, 2000)
	if l.status() != "tsn False ClockUnsynchronized" {
		t.Fatalf("it says %s", l.status())
	}
	for _, step := range []struct {
		sentence string
		change   func()
		want     string
	}{
		{"it asks for less", func() { l.setNetworks(newNetwork("tsn", 1, "5us")) }, "tsn True AsAsked"},
		{"its object is not known any more", func() { l.state.Networks[0].Object = nil }, "tsn True AsAsked"},
		{"nobody knows what the node shall do", func() { l.state = network.Cluster{Unknown: errAway} }, "tsn True AsAsked"},
		{"it asks for nothing", func() {
			l.state = network.Cluster{Node: &v1alpha1.TSNNode{}}
			tsnNetwork := newNetwork("tsn", 1, "")
			tsnNetwork.Spec.Clock = nil
			l.setNetworks(tsnNetwork)
		}, ""},
	} {
		step.change()
		if l.update(); l.status() != step.want {
			t.Errorf("%s: it says %s", step.sentence, l.status())
		}
	}
}

func TestFollowerSettlesBeforeFirstReport(t *testing.T) {
	before := &v1alpha1.NodeClock{State: "Synchronized", Since: metav1.NewTime(time.Unix(1000, 0)), Steps: 4, Grandmaster: "gm1", Source: "PTP",
		History: []v1alpha1.ClockTransition{{Time: metav1.NewMicroTime(time.Unix(1000, 0)), State: "Synchronized"}}}
	for sentence, test := range map[string]struct {
		pause  time.Duration
		bound  time.Duration
		state  string
		events int
	}{
		"it has heard of nobody so far": {settleTime - time.Second, -1, "Synchronized", 0},
		"it has heard that all is well": {time.Second, 100, "Synchronized", 0},
		"it has heard of an error":      {time.Second, 1e6, "Unsynchronized", 1},
		"it hears of nobody for long":   {settleTime, -1, "Unknown", 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLab(t)
			l.state.Node.Status.Clock = before
			l.after(test.pause, test.bound)
			nodeClock := l.Node()
			if nodeClock == nil { // nothing: what was said before holds
				nodeClock = before
			}
			if nodeClock.State != test.state || len(l.events) != test.events || nodeClock.Steps != 4 || len(nodeClock.History) != 1+test.events {
				t.Errorf("it says %+v, and %q", nodeClock, l.events)
			}
			if asked := l.ktsnd.calls(); (asked == "") != (l.Node() == nil) {
				t.Errorf("ktsnd was told %q", asked)
			}
			if test.events == 0 && !nodeClock.Since.Equal(&before.Since) {
				t.Errorf("it is so since %v", nodeClock.Since)
			}
		})
	}
}

func TestTimelineContinuesHistory(t *testing.T) {
	l := newLab(t)
	for range 20 {
		l.after(time.Minute, 100)
		l.after(time.Minute, 1e6)
	}
	if history := l.Node().History; len(history) != maxHistory || history[0].State != "Unsynchronized" || history[1].State != "Synchronized" ||
		history[0].Reason != "ErrorTooLarge" || history[0].Grandmaster != "gm1" || !history[0].Time.After(history[1].Time.Time) {
		t.Fatalf("the history is %+v", history)
	}
	l.state.Node.Status.Clock = l.Node()
	oldest, newest := l.Node().History[maxHistory-1], l.Node().History[0]
	l.Follower = l.agent()
	l.after(time.Minute, 1e6)
	if history := l.Node().History; history[0] != newest || history[maxHistory-1] != oldest {
		t.Errorf("another agent that finds the same says %+v", history)
	}
	l.after(time.Minute, 100)
	if history := l.Node().History; len(history) != maxHistory || history[1] != newest {
		t.Errorf("another agent that finds something else says %+v", history)
	}
	// The API server is heard only after the clock.
	nodeClock := l.Node()
	l.Follower = l.agent()
	known := l.state
	l.state = network.Cluster{Unknown: errAway}
	l.after(time.Minute, 100)
	l.state = known
	l.state.Node.Status.Clock = nodeClock
	l.after(time.Second, 100)
	if history := l.Node().History; history[0] != nodeClock.History[0] || !l.Node().Since.Equal(&nodeClock.Since) {
		t.Errorf("an agent that heard late says %+v, before it was %+v", l.Node(), nodeClock)
	}
}

func TestFollowerReportsChangesOnly(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 1, "10us"))
	l.after(settleTime, 900)
	for _, step := range []struct {
		sentence      string
		pause         time.Duration
		estimate      clock.Estimate
		changes       int
		event         string
		networkEvents int
	}{
		{"nothing happens", time.Second, clock.Estimate{Bound: 910}, 0, "", 0},
		{"the bound is larger than what was said", time.Second, clock.Estimate{Bound: 1100}, 1, "", 0},
		{"and larger", time.Second, clock.Estimate{Bound: 1900}, 0, "", 0},
		{"the bound is less, and back", boundInterval, clock.Estimate{Bound: 900}, 0, "", 0},
		{"it is much larger", time.Second, clock.Estimate{Bound: 9000}, 1, "", 0},
		{"it is much less for a moment", time.Second, clock.Estimate{Bound: 100}, 0, "", 0},
		{"it is much less for longer", boundInterval, clock.Estimate{Bound: 100}, 1, "", 0},
		{"it is too large", time.Second, clock.Estimate{Bound: 11000}, 1, "ClockUnsynchronized: its error may be 11µs; see ptp4l", 1},
		{"only the figure of the sentence changes", time.Second, clock.Estimate{Bound: 12000}, 0, "", 0},
		{"all is well again", time.Second, clock.Estimate{Bound: 400}, 1, "ClockSynchronized: the error of the clock is within 10µs", 1},
		{"another grandmaster", time.Second, clock.Estimate{Bound: 400, Grandmaster: "gm2"}, 1, "", 0},
		{"somebody sets the clock", time.Second, clock.Estimate{Bound: 400, Grandmaster: "gm2", Steps: 1, LastStep: -3 * time.Second}, 0,
			"ClockStepped: the clock was stepped back by 3s; messages at this moment left early or late by as much, and schedules restart", 0},
		{"two set it", time.Second, clock.Estimate{Bound: 400, Grandmaster: "gm2", Steps: 1,
			Faults: []clock.Fault{{Reason: v1alpha1.ReasonTwoClockMasters, Sentence: "chronyd and phc2sys set it; end one"}}}, 1,
			"TwoClockMasters: chronyd and phc2sys set it; end one", 0},
		{"the number of steps is said later", boundInterval, clock.Estimate{Bound: 400, Grandmaster: "gm2", Steps: 1,
			Faults: []clock.Fault{{Reason: v1alpha1.ReasonTwoClockMasters, Sentence: "chronyd and phc2sys set it; end one"}}}, 1, "", 0},
		{"they still do", time.Second, clock.Estimate{Bound: 400, Grandmaster: "gm2", Steps: 1,
			Faults: []clock.Fault{{Reason: v1alpha1.ReasonTwoClockMasters, Sentence: "chronyd and phc2sys set it; end one"}}}, 0, "", 0},
	} {
		if step.estimate.Grandmaster == "" {
			step.estimate.Grandmaster = "gm1"
		}
		step.estimate.Source = clock.PTP
		l.changes, l.events, l.networkEvents = 0, nil, nil
		l.estimate(step.pause, step.estimate)
		if l.changes != step.changes || strings.Join(l.events, "|") != step.event || len(l.networkEvents) != step.networkEvents {
			t.Errorf("%s: %d changes, Events %q and %q", step.sentence, l.changes, l.events, l.networkEvents)
		}
	}
	if nodeClock := l.Node(); nodeClock.Steps != 1 || nodeClock.Grandmaster != "gm2" || nodeClock.Message != "chronyd and phc2sys set it; end one" || *nodeClock.ErrorBoundNanoseconds != 500 {
		t.Errorf("it says %+v", nodeClock)
	}
}

func TestTimelineLimitsWrites(t *testing.T) {
	const minutes = 10
	for sentence, test := range map[string]struct {
		estimate func(second int) clock.Estimate
		most     int
		events   int
	}{
		"the error is about what is allowed": {func(second int) clock.Estimate {
			return clock.Estimate{Source: clock.PTP, Bound: []time.Duration{9200, 10900, 9900, 7000, 7500, 10100, 9300}[second%7]}
		}, 2, 1},
		"two programs set it": {func(second int) clock.Estimate {
			return clock.Estimate{Source: clock.PTP, Bound: 5000, Steps: uint64(second), LastStep: time.Millisecond}
		}, 2 * minutes, minutes},
		"two grandmasters in turns": {func(second int) clock.Estimate {
			return clock.Estimate{Source: clock.PTP, Bound: 5000, Grandmaster: []string{"gm1", "gm2"}[second%2]}
		}, 2 * minutes, 0},
		"two sources in turns": {func(second int) clock.Estimate {
			return clock.Estimate{Source: []clock.Source{clock.PTP, clock.NTP}[second%2], Bound: 5000}
		}, 2 * minutes, 0},
		"it is lost and found in turns": {func(second int) clock.Estimate {
			return clock.Estimate{Source: clock.PTP, Bound: 11000, Lost: time.Unix(int64(second), 0).Add(time.Duration(second%2) * time.Hour)}
		}, 2*minutes + 1, 0},
		"a fault that comes and goes": {func(second int) clock.Estimate {
			return clock.Estimate{Source: clock.PTP, Bound: 5000,
				Faults: []clock.Fault{{Reason: "TAIOffset", Sentence: "the kernel's offset of TAI is not that of PTP"}}[second%2:]}
		}, 1, 301},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLab(t, newNetwork("tsn", 1, "10us"))
			l.NewJudge = NewJudge
			for range 10 {
				l.estimate(time.Second, test.estimate(0))
			}
			l.changes, l.events = 0, nil
			for second := range minutes * 60 {
				l.estimate(time.Second, test.estimate(second))
			}
			if l.changes > test.most || len(l.events) > test.events {
				t.Errorf("%d changes, Events %q", l.changes, l.events)
			}
		})
	}
}

func TestStepsAreCounted(t *testing.T) {
	l := newLab(t)
	l.estimate(settleTime, clock.Estimate{Source: clock.PTP, Bound: 400})
	for steps := range 10 {
		l.estimate(time.Second, clock.Estimate{Source: clock.PTP, Bound: 400, Steps: uint64(steps + 1), LastStep: time.Second})
	}
	l.estimate(time.Minute, clock.Estimate{Source: clock.PTP, Bound: 400, Steps: 10, LastStep: time.Second})
	if len(l.events) != 2 || !strings.Contains(l.events[1], "9 times, the last time forward by 1s") || l.Node().Steps != 10 {
		t.Errorf("it says %d steps, and %q", l.Node().Steps, l.events)
	}
	l.estimate(time.Second, clock.Estimate{Source: clock.PTP, Bound: 1e6, Steps: 11, LastStep: time.Second})
	if l.Node().Steps != 11 || l.Node().State != "Unsynchronized" {
		t.Errorf("with another state it says %+v", l.Node())
	}
}

func TestLastingReasonIsReported(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 1, "10us"))
	l.NewJudge = NewJudge
	l.estimate(settleTime, clock.Estimate{Source: clock.PTP, Bound: 11000})
	for range 40 {
		l.estimate(time.Second, clock.Estimate{Source: clock.PTP, Bound: 9000})
	}
	if condition, _ := l.Network("tsn"); !strings.Contains(condition.Message, "it is trusted when") {
		t.Errorf("after 40 s it says %+v", condition)
	}
}

func TestSilentWatchMakesClockUnknown(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 1, "10us"))
	l.after(settleTime, 900)
	l.now = l.now.Add(silenceTimeout)
	l.handleSilence()
	if condition, _ := l.Network("tsn"); condition.Status != metav1.ConditionFalse || condition.Message != silentMessage || l.Node().State != "Unknown" {
		t.Errorf("it says %+v, of the node %+v", condition, l.Node())
	}
	l.after(time.Second, 900)
	if l.status() != "tsn True AsAsked" {
		t.Errorf("when it speaks again it says %s", l.status())
	}
}

func TestNodeJudgedWithoutOperator(t *testing.T) {
	l := newLab(t)
	l.State = nil
	l.ktsnd.networks[7] = control.ClockNeed{Good: true} // an operator was there once
	l.after(settleTime, 900)
	if got := l.ktsnd.calls(); got != "clock synchronized 900, network 7 gone" || l.figure != clock.Synchronized {
		t.Errorf("ktsnd was asked %s", got)
	}
}

func TestRounded(t *testing.T) {
	for bound, want := range map[time.Duration]int64{0: 1, 1: 1, 2: 2, 3: 5, 6: 10, 850: 1000, 1001: 2000, 4e9: 5e9, 1 << 62: 1e16} {
		if got := rounded(bound); *got != want {
			t.Errorf("%d becomes %d, want %d", bound, *got, want)
		}
	}
	if rounded(-1) != nil {
		t.Error("what is not known becomes a number")
	}
}

func TestEqualExceptNumbers(t *testing.T) {
	for _, pair := range [][3]string{
		{"its error may be 11µs; see ptp4l", "its error may be 1.2ms; see ptp4l", "same"},
		{"silent for 3 s", "silent for 40 s", "same"},
		{"port 1 is lost", "port 2 is lost", "same"},
		{"ptp4l is lost", "chronyd is lost", "another"},
		{"grandmaster 00a0.fffe.01", "grandmaster 00b0.fffe.01", "another"},
		{"", "lost", "another"},
	} {
		if got := equalExceptNumbers(pair[0], pair[1]); got != (pair[2] == "same") {
			t.Errorf("%q and %q: %v", pair[0], pair[1], got)
		}
	}
}

func TestNetworkEvents(t *testing.T) {
	l := newLab(t, newNetwork("strict", 1, "1us"), newNetwork("lax", 2, "1ms"))
	l.state.Node.Spec.Networks = []v1alpha1.NodeNetwork{{Name: "lax"}, {Name: "strict"}}
	l.state.Node.Status.Networks = []v1alpha1.NodeNetworkStatus{{Name: "strict", Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}}}}
	l.after(settleTime, 2000)
	want := []string{"ClockUnsynchronized: network strict: its error may be 2µs; see ptp4l"}
	if !slices.Equal(l.networkEvents, want) {
		t.Errorf("against what an agent before it said: %q", l.networkEvents)
	}
}

func TestTimelineReportsTAIOffsetAndLoss(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 7, "10us"))
	l.estimate(time.Second, clock.Estimate{Bound: time.Microsecond, Source: clock.PTP, Grandmaster: "gm1", TAIOffset: 37})
	if nodeClock := l.Node(); nodeClock.TAIOffset == nil || *nodeClock.TAIOffset != 37 || nodeClock.LostSince != nil {
		t.Errorf("it says %+v", nodeClock)
	}
	lost := l.now
	for range 3 {
		l.estimate(time.Second, clock.Estimate{Bound: time.Microsecond, Source: clock.PTP, Grandmaster: "gm1", Lost: lost})
	}
	status := l.Node()
	if status.TAIOffset == nil || *status.TAIOffset != 0 || status.LostSince == nil || !status.LostSince.Equal(&metav1.Time{Time: lost.Truncate(time.Second)}) {
		t.Errorf("it says %+v", status)
	}
	l.estimate(time.Second, clock.Estimate{Bound: time.Microsecond, Source: clock.PTP, Grandmaster: "gm1", Lost: lost.Add(time.Minute)})
	if equal := l.Node(); !equal.LostSince.Equal(status.LostSince) {
		t.Errorf("a loss that goes on began at %v, and now at %v", status.LostSince, equal.LostSince)
	}
	l.estimate(time.Second, clock.Estimate{Bound: time.Microsecond, Source: clock.PTP, Grandmaster: "gm1", TAIOffset: 37})
	if equal := l.Node(); equal.LostSince != nil {
		t.Errorf("a clock that somebody keeps has been lost since %v", equal.LostSince)
	}
}
