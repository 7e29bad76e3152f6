// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func TestUpdaterSendsDifferences(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 42, "10us"))
	for _, step := range []struct {
		sentence string
		do       func()
		want     string
	}{
		{"the first time of all", func() { l.after(settleTime, 900) }, "clock synchronized 900, network 42 true hold"},
		{"not of what is the same", func() { l.after(time.Second, 900) }, ""},
		{"not of what is nearly the same", func() { l.after(time.Second, 950) }, ""},
		{"of a bound that is noticeably larger", func() { l.after(time.Second, 1200) }, "clock synchronized 1200"},
		{"of the clock now and then", func() { l.after(clockInterval, 1200) }, "clock synchronized 1200"},
		{"of a clock that is lost", func() { l.after(time.Second, 20000) }, "clock unsynchronized 20000, network 42 false hold"},
		{"not of other figures in the reason", func() { l.after(time.Second, 20100) }, ""},
		{"that the bound is not known", func() { l.after(time.Second, -5) }, "clock unknown -1, network 42 false hold"},
		{"of one that is good again", func() { l.after(time.Second, 900) }, "clock synchronized 900, network 42 true hold"},
		{"of all when it may be another one", func() {
			l.ktsnd.networks = map[uint32]control.ClockNeed{}
			l.Updater.Reset()
			l.after(time.Second, 900)
		}, "clock synchronized 900, network 42 true hold"},
		{"of what it has forgotten, after a while", func() {
			l.ktsnd.networks = map[uint32]control.ClockNeed{}
			for range 4 {
				l.ktsnd.asked = nil
				l.after(clockInterval, 900)
			}
		}, "clock synchronized 900"},
		{"of a network that comes, and one that goes", func() { l.setNetworks(newNetwork("other", 43, "1ms")); l.after(time.Second, 900) },
			"network 42 gone, network 43 true hold"},
		{"not that networks go while not all are known", func() {
			l.setNetworks(newNetwork("third", 44, "1ms"), newNetwork("fourth", 45, "1ms"))
			l.state.Networks[1].Object = nil
			l.after(time.Second, 900)
		}, "network 44 true hold"},
	} {
		step.do()
		if got := l.ktsnd.calls(); got != step.want {
			t.Errorf("%s: it is told %q", step.sentence, got)
		}
	}
}

func TestUpdaterResendsDriftedBound(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 42, "10us"))
	tell := func(pause, bound time.Duration) string {
		l.estimate(pause, clock.Estimate{Bound: bound, DriftPPB: 1000, Source: clock.PTP})
		return l.ktsnd.calls()
	}
	tell(settleTime, 5000)
	if got := tell(2*time.Second, 6900); got != "" {
		t.Errorf("what grew as it was told is told again: %s", got)
	}
	// ktsnd's extrapolation would reach 5 + 7 µs before the update after the next.
	if got := tell(2*time.Second, 8900); got != "clock synchronized 8900" {
		t.Errorf("a clock that it would soon take for lost is told as %q", got)
	}
	if got := tell(time.Second, 1000); got != "clock synchronized 1000" {
		t.Errorf("one that is much better than it believes is told as %q", got)
	}
}

func TestUpdaterSendsCurrentBound(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 42, "10us"))
	l.ktsnd.away = errAway
	l.estimate(settleTime, clock.Estimate{Bound: 2000, DriftPPB: 1000, Source: clock.PTP})
	l.ktsnd.away = nil
	l.now = l.now.Add(3 * time.Second)
	if err := l.Updater.update(t.Context()); err != nil || l.ktsnd.clock.ErrorBoundNs != 5000 {
		t.Errorf("3 s later it is told %+v: %v", l.ktsnd.clock, err)
	}
}

func TestUpdaterRetries(t *testing.T) {
	l := newLab(t, newNetwork("tsn", 42, "10us"))
	l.ktsnd.away = errAway
	l.after(settleTime, 900)
	l.after(time.Second, 900)
	l.ktsnd.away = nil
	l.after(time.Second, 900)
	if got := l.ktsnd.calls(); got != "clock synchronized 900, network 42 true hold" {
		t.Errorf("it was told %q", got)
	}
	if l.status() != "tsn True AsAsked" {
		t.Errorf("meanwhile it says %s", l.status())
	}
}

func TestOldestNetworkWinsVNI(t *testing.T) {
	young, old := newNetwork("a", 42, "1ms"), newNetwork("b", 42, "1us")
	young.CreationTimestamp, old.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0)), metav1.NewTime(time.Unix(1000, 0))
	l := newLab(t, young, old)
	l.after(settleTime, 900)
	if need := l.ktsnd.networks[42]; need.MaxErrorNs != 1000 {
		t.Errorf("ktsnd is told %+v", need)
	}
}

func TestUpdaterPrepare(t *testing.T) {
	for sentence, test := range map[string]struct {
		sent    bool
		refuses error
		want    string
		fails   bool
	}{
		"of a clock that is lost":          {true, nil, "clock unsynchronized 20000, network 42 false hold", false},
		"that nobody has judged the clock": {false, nil, "network 42 false hold", false},
		"not if it refuses":                {true, &control.Error{Field: "clock", Message: "no"}, "clock unsynchronized 20000", true},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLab(t, newNetwork("tsn", 42, "10us"))
			l.after(time.Second, -1)
			if test.sent {
				l.after(settleTime, 20000)
			}
			next := &fakeKtsnd{networks: map[uint32]control.ClockNeed{}, refuses: test.refuses}
			err := l.Updater.Prepare(t.Context(), next)
			if got := next.calls(); got != test.want || (err != nil) != test.fails {
				t.Errorf("it is told %q: %v", got, err)
			}
		})
	}
}

func TestUpdaterKeepsStateBeforeFirstJudgement(t *testing.T) {
	l := newLab(t, newNetwork("old", 42, "10us"), newNetwork("new", 43, "10us"))
	l.ktsnd.networks[42] = control.ClockNeed{MaxErrorNs: 5000, OnLoss: "hold", Good: true}
	l.after(time.Second, -1)
	if got := l.ktsnd.calls(); got != "network 43 false hold" || l.ktsnd.networks[43].Reason != unjudgedMessage {
		t.Errorf("it is told %q: %+v", got, l.ktsnd.networks)
	}
	next := &fakeKtsnd{networks: map[uint32]control.ClockNeed{42: {Good: true}}}
	if err := l.Updater.Prepare(t.Context(), next); err != nil || next.calls() != "network 43 false hold" {
		t.Errorf("one that took over is told otherwise: %+v, %v", next.networks, err)
	}
	l.after(time.Second, 900)
	if got := l.ktsnd.calls(); got != "clock synchronized 900, network 42 true hold, network 43 true hold" {
		t.Errorf("when the clock is judged it is told %q", got)
	}
}
