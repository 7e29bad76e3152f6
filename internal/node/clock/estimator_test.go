// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/chrony"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// epoch is when virtual time begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// us is a microsecond, in which tests count.
const us = time.Microsecond

// virtual is a node in virtual time: each look is a second after the one before.
type virtual struct {
	*estimator
	now  time.Time
	next observation
	last Estimate
}

func newVirtual() *virtual {
	v := &virtual{estimator: newEstimator(DefaultDriftFloorPPB, 0), now: epoch}
	v.next.ptp = follower()
	return v
}

// follower is a ptp4l that follows grandmaster "gm", 3 us off by a path of 5 us.
func follower() *ptp4l.Status {
	return &ptp4l.Status{Identity: "own", Grandmaster: "gm", Offset: 3 * us, Measured: 1, PathDelay: 5 * us, StepsRemoved: 1, Class: 6, Accuracy: 0x23,
		Ports: []ptp4l.Port{{Number: 1, Interface: "eth0", State: ptp4l.Slave}}}
}

// look lets a second pass. change says what is different from the look before; a Sync message has come unless it says otherwise.
func (v *virtual) look(change ...func(*observation)) Estimate {
	v.now = v.now.Add(time.Second)
	if v.next.ptp != nil {
		status := *v.next.ptp
		status.Measured++
		v.next.ptp = &status
	}
	v.next.at, v.next.chronyAsked, v.next.step = v.now, v.now, 0
	for _, apply := range change {
		apply(&v.next)
	}
	v.last = v.observe(v.next)
	return v.last
}

// looks lets seconds pass.
func (v *virtual) looks(seconds int, change ...func(*observation)) Estimate {
	for range seconds {
		v.look(change...)
	}
	return v.last
}

// Changes of what is observed.
func noSync(o *observation) { o.ptp.Measured-- }
func noMaster(o *observation) {
	o.ptp.Ports = []ptp4l.Port{{Number: 1, Interface: "eth0", State: "LISTENING"}}
}
func noPTPAtAll(o *observation) { o.ptp = nil }

func ptp(change func(*ptp4l.Status)) func(*observation) {
	return func(o *observation) { change(o.ptp) }
}

func TestABoundIsTheSumOfWhatIsNotKnown(t *testing.T) {
	v := newVirtual()
	v.looks(20)
	e := v.look(ptp(func(s *ptp4l.Status) { s.Offset = -1 * us }))
	want := Parts{Offset: 1 * us, PathDelay: 5 * us, Accuracy: 1 * us, Jitter: 4 * us}
	drift := e.Parts.Drift
	e.Parts.Drift = 0
	if e.Parts != want || e.Bound != want.Sum()+drift || e.Source != PTP || e.Grandmaster != "gm" || !e.Lost.IsZero() || e.Offset != -1*us {
		t.Errorf("parts %+v, want %+v; %+v", e.Parts, want, e)
	}
	if drift < 200*time.Nanosecond || drift > us { // of 200 ppb, and of the slope that the last offset makes
		t.Errorf("a second of drift is %v", drift)
	}
}

func TestNothingIsBelievedBeforeItWasMeasured(t *testing.T) {
	for name, change := range map[string]func(*ptp4l.Status){
		"before the first Sync message":       func(s *ptp4l.Status) { s.Measured = 0 },
		"before the path delay was measured":  func(s *ptp4l.Status) { s.PathDelay, s.Offset = 0, 0 },
		"while the port listens for a master": func(s *ptp4l.Status) { s.Ports = []ptp4l.Port{{State: "LISTENING"}} },
		"while there is no port":              func(s *ptp4l.Status) { s.Ports = nil },
		"by an offset of unknown age":         func(s *ptp4l.Status) { s.Measured = 17 },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVirtual()
			if e := v.looks(10, ptp(change)); e.Source != None || e.Bound >= 0 || e.Why.Sentence == "" {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// The path delay, which ptp4l can have before the first offset, says nothing about the offset: a clock that was 3 s off was trusted within it.
func TestThePathDelayAloneIsNoMeasurement(t *testing.T) {
	v := newVirtual()
	nothing := ptp(func(s *ptp4l.Status) { s.PathDelay, s.Offset = 0, 0 })
	delay := ptp(func(s *ptp4l.Status) { s.PathDelay, s.Offset = 5*us, 0 })
	v.looks(3, nothing)
	for i, e := range []Estimate{v.look(delay), v.look(delay, noSync), v.look(delay, noSync)} {
		if e.Source != None || e.Bound >= 0 || e.Why.Reason != ReasonNotMeasured {
			t.Errorf("look %d, without an offset: %+v", i, e)
		}
	}
	if e := v.look(delay, ptp(func(s *ptp4l.Status) { s.Offset = 3 * time.Second })); e.Parts.Offset != 3*time.Second || e.Source != PTP {
		t.Errorf("with an offset: %+v", e)
	}
}

func TestALostSourceIsSeenAndItsBoundGrows(t *testing.T) {
	for name, test := range map[string]struct {
		lose   func(*observation)
		after  int // seconds, until it is seen
		reason string
	}{
		"no Sync message comes":         {noSync, 3, ReasonNoSync},
		"the port has no master":        {noMaster, 1, ReasonPortLost},
		"ptp4l is gone with its socket": {noPTPAtAll, 1, ReasonPTPGone},
		"ptp4l does not answer": {func(o *observation) { o.ptp, o.noPTP = nil, Fault{ReasonPTPGone, "it does not answer"} }, 1,
			ReasonPTPGone},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVirtual()
			before := v.looks(60)
			e := v.looks(test.after-1, test.lose)
			if test.after > 1 && !e.Lost.IsZero() {
				t.Errorf("lost already after %d s", test.after-1)
			}
			e = v.look(test.lose)
			if e.Why.Reason != test.reason || e.Why.Sentence == "" {
				t.Errorf("because of %+v, want %s", e.Why, test.reason)
			}
			if want := before.At.Add(-time.Second); !e.Lost.Equal(want) { // the last Sync message came after that look
				t.Errorf("lost since %v, want %v", e.Lost, want)
			}
			later := v.looks(100, test.lose)
			if grown, want := later.Bound-e.Bound, 100*200*time.Nanosecond; grown != want || later.DriftPPB != 200 || later.Source != PTP {
				t.Errorf("the bound grew by %v in 100 s, want %v; %+v", grown, want, later)
			}
		})
	}
}

func TestASlowSyncIntervalIsNoLoss(t *testing.T) {
	v := newVirtual()
	v.looks(5)
	for range 6 {
		for second := range 8 {
			change := noSync
			if second == 0 {
				change = func(*observation) {}
			}
			v.look(change)
		}
	}
	if !v.last.Lost.IsZero() {
		t.Errorf("a Sync message every 8 s counts as lost: %+v", v.last)
	}
	if want := 7 * 200 * time.Nanosecond; v.last.Parts.Drift < want {
		t.Errorf("drift of %v is that of less than 7 s", v.last.Parts.Drift)
	}
}

func TestTheOffsetOfTheGrandmasterBeforeIsNotBelieved(t *testing.T) {
	v := newVirtual()
	v.looks(30, ptp(func(s *ptp4l.Status) { s.Offset = 7 }))
	other := ptp(func(s *ptp4l.Status) { s.Grandmaster = "other" })
	if e := v.look(other); e.Grandmaster != "gm" || e.Lost.IsZero() || e.Why.Reason != ReasonNotMeasured {
		t.Errorf("trusted at once: %+v", e)
	}
	e := v.look(other, ptp(func(s *ptp4l.Status) { s.Offset = 900 * us }))
	if e.Grandmaster != "other" || !e.Lost.IsZero() || e.Parts.Offset != 900*us || e.Parts.Jitter != 0 {
		t.Errorf("when it is measured: %+v", e)
	}
}

func TestTheOffsetOfTheGrandmasterBeforeStaysForSomeSyncMessages(t *testing.T) {
	v := newVirtual()
	v.looks(30)
	// ptp4l gets eight Sync messages a second, and measures the path once: its offset and its path delay are still the old ones.
	other := ptp(func(s *ptp4l.Status) { s.Grandmaster = "other" })
	for i := range 3 {
		if e := v.look(other); e.Grandmaster != "gm" || e.Lost.IsZero() {
			t.Fatalf("look %d: %+v", i, e)
		}
	}
	if e := v.look(other, ptp(func(s *ptp4l.Status) { s.Offset++ })); e.Grandmaster != "other" || !e.Lost.IsZero() {
		t.Errorf("when it changes: %+v", e)
	}
	same := newVirtual()
	same.looks(30)
	if e := same.looks(8, other); e.Grandmaster != "other" || !e.Lost.IsZero() {
		t.Errorf("when it is the same after some seconds: %+v", e)
	}
}

func TestTheOffsetFromBeforeAGrandmasterWentIsNotBelievedWhenItComesBack(t *testing.T) {
	for name, called := range map[string]string{"it may become grandmaster itself": "own", "it goes on to name the one before": "gm"} {
		t.Run(name, func(t *testing.T) {
			v := newVirtual()
			v.looks(30)
			alone := ptp(func(s *ptp4l.Status) { s.Grandmaster, s.Measured = called, s.Measured-1 })
			v.looks(60, alone, noMaster)
			back := ptp(func(s *ptp4l.Status) { s.Grandmaster, s.Ports = "gm", follower().Ports })
			for i := range 3 {
				if e := v.look(back); e.Lost.IsZero() {
					t.Fatalf("look %d: %+v", i, e)
				}
			}
			if e := v.look(back, ptp(func(s *ptp4l.Status) { s.Offset = 900 * us })); !e.Lost.IsZero() || e.Parts.Offset != 900*us {
				t.Errorf("when it is measured: %+v", e)
			}
		})
	}
}

func TestAStepCountsUntilItWasMeasuredTwice(t *testing.T) {
	v := newVirtual()
	v.looks(30)
	step := func(o *observation) { o.step = -2 * time.Second }
	for i, want := range []time.Duration{2 * time.Second, 0} {
		var change []func(*observation)
		if i == 0 {
			change = append(change, step)
		}
		if e := v.look(change...); e.Parts.Step != want || e.Steps != 1 || e.LastStep != -2*time.Second {
			t.Errorf("look %d: %+v", i, e)
		}
	}
	lost := newVirtual()
	lost.looks(30)
	lost.looks(10, noMaster)
	if e := lost.look(noMaster, step); e.Bound < 2*time.Second || lost.looks(100, noMaster).Bound < e.Bound {
		t.Errorf("a step of a clock that nobody keeps: %+v", e)
	}
}

func TestAGrandmasterIsRightIfItWasMadeForThat(t *testing.T) {
	offset := ptp(func(s *ptp4l.Status) {
		s.Grandmaster, s.Class, s.Accuracy, s.Ports = "own", 248, 0xfe, []ptp4l.Port{{Number: 1, Interface: "eth0", State: ptp4l.Master}}
	})
	for name, test := range map[string]struct {
		change  func(*ptp4l.Status)
		follows int // seconds, before
		bound   time.Duration
		lost    bool
	}{
		"as everybody is":                                  {func(*ptp4l.Status) {}, 5, 0, true},
		"that announces an accuracy":                       {func(s *ptp4l.Status) { s.Accuracy = 0x23 }, 5, us, false},
		"of a class of its own":                            {func(s *ptp4l.Status) { s.Class = 6 }, 5, 0, false},
		"that may be none":                                 {func(s *ptp4l.Status) { s.Class = 255 }, 5, 0, true},
		"without a port that serves":                       {func(s *ptp4l.Status) { s.Class, s.Ports = 6, nil }, 5, 0, true},
		"with another TAI offset than the kernel's, by 1s": {func(s *ptp4l.Status) { s.Class, s.UTCOffset, s.UTCOffsetValid = 6, 1, true }, 0, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVirtual()
			v.looks(test.follows)
			e := v.looks(3, offset, ptp(test.change))
			if lost := !e.Lost.IsZero(); lost != test.lost || e.Source != PTP {
				t.Fatalf("lost %v, want %v; %+v", lost, test.lost, e)
			}
			if !test.lost && (e.Bound != test.bound || e.Grandmaster != "own") {
				t.Errorf("bound %v, want %v; %+v", e.Bound, test.bound, e)
			}
		})
	}
}

func TestANodeThatHearsNobodyIsNoGrandmaster(t *testing.T) {
	v := newVirtual()
	offset := ptp(func(s *ptp4l.Status) {
		s.Grandmaster, s.Class, s.Accuracy, s.Ports = "own", 248, 0xfe, []ptp4l.Port{{Number: 1, State: ptp4l.Master}}
	})
	if e := v.looks(10, offset); e.Source != None || e.Bound >= 0 || e.Why.Reason != ReasonPortLost || !strings.Contains(e.Why.Sentence, "clockClass") {
		t.Errorf("got %+v", e)
	}
}

func TestTheCardsClockIsPartOfTheBound(t *testing.T) {
	hardware := ptp(func(s *ptp4l.Status) {
		s.Ports = []ptp4l.Port{{Number: 1, Interface: "eth0", State: ptp4l.Slave, Hardware: true}}
	})
	tai := ptp(func(s *ptp4l.Status) { s.PTPTimescale = true })
	reads := func(ahead time.Duration) func(*observation) {
		return func(o *observation) { o.card = &phc.Reading{Ahead: ahead, Exact: 2 * us} }
	}
	kernels := func(seconds int) func(*observation) { return func(o *observation) { o.kernel.TAIOffset = seconds } }
	for name, test := range map[string]struct {
		change []func(*observation)
		want   time.Duration
	}{
		"in the time of the system":         {[]func(*observation){reads(-8 * us)}, 10 * us},
		"in TAI, as PTP has it":             {[]func(*observation){tai, kernels(37), reads(37*time.Second + 8*us)}, 10 * us},
		"in TAI, where the kernel has none": {[]func(*observation){tai, reads(37*time.Second + 8*us)}, 37*time.Second + 10*us},
	} {
		t.Run(name, func(t *testing.T) {
			if e := newVirtual().looks(20, append(test.change, hardware)...); e.Parts.Card != test.want || !e.Lost.IsZero() {
				t.Errorf("the card's part is %v, want %v; %+v", e.Parts.Card, test.want, e)
			}
		})
	}
	t.Run("not known if the card cannot be read", func(t *testing.T) {
		v := newVirtual()
		v.looks(20, hardware, reads(0))
		e := v.look(hardware, func(o *observation) { o.card, o.noCard = nil, Fault{ReasonCardClock, "no permission"} })
		if e.Lost.IsZero() || e.Why.Reason != ReasonCardClock || len(e.Faults) != 1 {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("also of a grandmaster, whose card serves", func(t *testing.T) {
		offset := ptp(func(s *ptp4l.Status) {
			s.Grandmaster, s.Ports = "own", []ptp4l.Port{{Number: 1, Interface: "eth0", State: ptp4l.Master, Hardware: true}}
		})
		if e := newVirtual().looks(3, offset, reads(4*us)); e.Bound != 7*us || !e.Lost.IsZero() { // of which the accuracy is 1 us
			t.Errorf("got %+v", e)
		}
		unread := func(o *observation) { o.noCard = Fault{ReasonCardClock, "no permission"} }
		if e := newVirtual().looks(3, offset, unread); e.Why.Reason != ReasonCardClock || e.Source != None {
			t.Errorf("if it cannot be read: %+v", e)
		}
	})
	t.Run("the largest of the last ones", func(t *testing.T) {
		v := newVirtual()
		v.looks(20, hardware, reads(0))
		v.look(hardware, reads(50*us))
		if e := v.looks(3, hardware, reads(0)); e.Parts.Card != 52*us {
			t.Errorf("got %v", e.Parts.Card)
		}
	})
}

func TestAnotherTAIOffsetThanTheGrandmastersIsAFault(t *testing.T) {
	says := func(valid bool) func(*observation) {
		return func(o *observation) {
			o.ptp.UTCOffset, o.ptp.UTCOffsetValid, o.kernel.TAIOffset = 37, valid, 36
		}
	}
	e := newVirtual().looks(5, says(true))
	if len(e.Faults) != 1 || e.Faults[0].Reason != ReasonTAIOffset || !strings.Contains(e.Faults[0].Sentence, "37 s, but the kernel has 36 s") ||
		e.Parts.TAI != time.Second || e.Bound < time.Second {
		t.Errorf("got %+v", e)
	}
	if e := newVirtual().looks(5, says(false)); len(e.Faults) > 0 || e.Parts.TAI != 0 {
		t.Errorf("an offset that is not valid: %+v", e)
	}
}

// tracked is a chronyd with a bound of 10 + 20 + 5 us.
func tracked(o *observation) {
	o.chrony = &chrony.Tracking{Synchronized: true, Reference: "192.0.2.1", Offset: -10 * us, RootDelay: 40 * us, RootDispersion: 5 * us, SkewPPB: 100,
		Updated: o.at.Add(-10 * time.Second)}
}

func TestChronysBoundCountsWithoutPTP(t *testing.T) {
	v := newVirtual()
	v.next.ptp = nil
	e := v.looks(10, tracked)
	if want := 36 * us; e.Source != NTP || e.Grandmaster != "192.0.2.1" || e.Bound != want { // 100 ppb in 10 s are 1 us
		t.Errorf("bound %v, want %v; %+v", e.Bound, want, e)
	}
	e = v.looks(10, func(o *observation) { o.chrony = nil })
	if want := 36*us + 10*us*200/1000 + us*0; e.Lost.IsZero() || e.Why.Reason != ReasonNTPLost || e.Bound != want {
		t.Errorf("without chronyd for 10 s: bound %v, want %v; %+v", e.Bound, want, e)
	}
}

func TestChronysAnswerIsAsOldAsTheQuestion(t *testing.T) {
	v := newVirtual()
	v.next.ptp = nil
	e := v.looks(10, tracked, func(o *observation) {
		o.chronyAsked = o.at.Add(-500 * time.Millisecond)
		o.chrony.Updated = o.chronyAsked.Add(-10 * time.Second)
	})
	if want := 36*us + 100; e.Bound != want { // 200 ppb in 0.5 s
		t.Errorf("bound %v, want %v; %+v", e.Bound, want, e)
	}
	asked := v.next.chronyAsked
	if e := v.look(func(o *observation) { o.chrony = nil }); !e.Lost.Equal(asked) {
		t.Errorf("lost since %v, want %v, when it was asked for the last time with an answer", e.Lost, asked)
	}
}

func TestChronyTakesOverWhenItsBoundIsTheSmallerOne(t *testing.T) {
	v := newVirtual()
	if e := v.looks(60, tracked); e.Source != PTP {
		t.Fatalf("with both: %+v", e)
	}
	if e := v.looks(10, noMaster, tracked); e.Source != PTP || e.Lost.IsZero() {
		t.Errorf("PTP's error is still smaller: %+v", e)
	}
	if e := v.looks(200, noMaster, tracked); e.Source != NTP || !e.Lost.IsZero() || e.Bound != 36*us {
		t.Errorf("PTP's error became larger: %+v", e)
	}
	back := func(o *observation) { o.ptp.Ports = follower().Ports }
	if e := v.looks(3, back); e.Source != NTP {
		t.Errorf("the offset may be the one from before: %+v", e)
	}
	if e := v.looks(maxUnchanged, back); e.Source != PTP || !e.Lost.IsZero() {
		t.Errorf("PTP is back: %+v", e)
	}
}

// stepBy is by how much somebody steps the clock.
func stepBy(step time.Duration) func(*observation) { return func(o *observation) { o.step = step } }

// measuredAt is a chronyd as tracked, whose last measurement was made at a second of virtual time.
func measuredAt(second int) func(*observation) {
	return func(o *observation) {
		tracked(o)
		o.chrony.Updated = epoch.Add(time.Duration(second) * time.Second)
	}
}

func TestAStepCountsUntilChronyHasMeasuredTwice(t *testing.T) {
	v := newVirtual()
	v.next.ptp = nil
	v.looks(10, measuredAt(5))
	if e := v.look(measuredAt(5), stepBy(-time.Second)); e.Parts.Step != time.Second || e.Bound < time.Second || e.Steps != 1 {
		t.Errorf("at the step: %+v", e)
	}
	if e := v.looks(60, measuredAt(5)); e.Bound < time.Second {
		t.Errorf("a minute later chronyd has not measured yet: %+v", e)
	}
	if e := v.looks(30, measuredAt(9)); e.Bound < time.Second {
		t.Errorf("a measurement of before the step that was asked for late: %+v", e)
	}
	if e := v.look(measuredAt(100)); e.Bound >= time.Second || !e.Lost.IsZero() {
		t.Errorf("chronyd has measured: %+v", e)
	}
}

func TestAStepThatChronyDoesNotKnowOfIsNotForgottenWithPTP(t *testing.T) {
	t.Run("after PTP was lost", func(t *testing.T) {
		v := newVirtual()
		v.looks(30, measuredAt(5))
		v.look(noMaster, measuredAt(5), stepBy(time.Second))
		if e := v.looks(300, noMaster, measuredAt(5)); e.Bound < time.Second {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("while PTP measured it away", func(t *testing.T) {
		v := newVirtual()
		v.looks(30, measuredAt(5))
		v.look(measuredAt(5), stepBy(time.Second))
		if e := v.looks(5, measuredAt(5)); e.Bound >= time.Second || e.Source != PTP {
			t.Errorf("PTP has measured: %+v", e)
		}
		if e := v.looks(300, noMaster, measuredAt(5)); e.Source != PTP || e.Lost.IsZero() {
			t.Errorf("chronyd takes over with what it measured before the step: %+v", e)
		}
	})
}

func TestTheKernelsWordAloneProvesNothing(t *testing.T) {
	for name, bound := range map[string]time.Duration{"that is 0, as linuxptp writes it": 0, "of some milliseconds": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synchronized := func(o *observation) { o.kernel = kernel.State{Synchronized: true, MaxError: bound} }
			v := newVirtual()
			v.next.ptp = nil
			if e := v.looks(5, synchronized); e.Source != None || e.Bound >= 0 || e.Why.Reason != ReasonStranger ||
				!strings.Contains(e.Why.Sentence, "says nothing of how well") {
				t.Errorf("got %+v", e)
			}
			followed := newVirtual()
			followed.looks(10)
			if e := followed.looks(2, noPTPAtAll, synchronized); e.Source != PTP || e.Lost.IsZero() || e.Why.Reason != ReasonPTPGone {
				t.Errorf("ptp4l marked the kernel's clock and is gone: %+v", e)
			}
		})
	}
}

func TestATAIOffsetThatNobodyHasSetIsAFault(t *testing.T) {
	timescale := ptp(func(s *ptp4l.Status) { s.PTPTimescale = true })
	valid := ptp(func(s *ptp4l.Status) { s.UTCOffset, s.UTCOffsetValid = 0, true })
	kernels := func(seconds int) func(*observation) { return func(o *observation) { o.kernel.TAIOffset = seconds } }
	for name, test := range map[string]struct {
		change []func(*observation)
		fault  bool
	}{
		"by PTP whose time is TAI":                       {[]func(*observation){timescale}, true},
		"by PTP whose time is TAI, which is 0 by itself": {[]func(*observation){timescale, valid}, false},
		"by PTP whose time is its own":                   {nil, false},
		"by chronyd":                                     {[]func(*observation){noPTPAtAll, tracked}, true},
		"by chronyd, but somebody has":                   {[]func(*observation){noPTPAtAll, tracked, kernels(37)}, false},
		"by PTP whose time is TAI, but somebody has":     {[]func(*observation){timescale, kernels(37)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVirtual()
			e := v.look(test.change...)
			for range 5 {
				if v.next.ptp == nil {
					v.next.ptp = follower()
				}
				e = v.look(test.change...)
			}
			if has := len(e.Faults) == 1 && e.Faults[0].Reason == ReasonTAIOffset; has != test.fault || e.Source == None || !e.Lost.IsZero() {
				t.Errorf("fault %v, want %v; %+v", has, test.fault, e)
			}
		})
	}
}

func TestAReadingOfACardFromBeforeAStepDoesNotCount(t *testing.T) {
	hardware := ptp(func(s *ptp4l.Status) {
		s.Ports = []ptp4l.Port{{Number: 1, Interface: "eth0", State: ptp4l.Slave, Hardware: true}}
	})
	reads := func(ahead, age time.Duration) func(*observation) {
		return func(o *observation) { o.card = &phc.Reading{Ahead: ahead, Exact: us, Age: age} }
	}
	v := newVirtual()
	v.looks(20, hardware, reads(0, 0))
	v.look(hardware, reads(0, 0), stepBy(time.Second))
	for age := range 3 {
		if e := v.look(hardware, reads(0, time.Duration(age+1)*time.Second)); e.Bound < time.Second || !e.Lost.IsZero() {
			t.Errorf("with a reading of before the step, %d s old: %+v", age+1, e)
		}
	}
	if e := v.look(hardware, reads(-time.Second, 0)); e.Parts.Card < time.Second || e.Parts.Step != 0 {
		t.Errorf("with one of after it: %+v", e)
	}
}

func TestWithoutAnybodyNothingIsKnown(t *testing.T) {
	v := newVirtual()
	v.next.ptp = nil
	if e := v.looks(3); e.Source != None || e.Bound >= 0 || e.Why.Reason != ReasonNobody || !e.Lost.IsZero() {
		t.Errorf("got %+v", e)
	}
}

func TestDriftIsWhatTheClockHasShown(t *testing.T) {
	for name, test := range map[string]struct {
		change func(second int, o *observation)
		atSec  int
		least  int64
		most   int64
	}{
		"the floor of a clock that is quiet":               {func(int, *observation) {}, 60, 200, 200},
		"by how much a servo changes the frequency":        {func(i int, o *observation) { o.kernel.FrequencyPPB = float64(i%2) * 3000 }, 60, 3200, 3200},
		"by how much a clock runs that nobody adjusts":     {func(i int, o *observation) { o.ptp.Offset = time.Duration(i) * 40 * us }, 60, 40_200, 40_201},
		"more while nothing was seen yet":                  {func(int, *observation) {}, 2, 10_200, 10_200},
		"no more than a minute ago":                        {func(i int, o *observation) { o.kernel.FrequencyPPB = float64(min(i, 3)) * 9000 }, 70, 200, 200},
		"what the kernel corrects at most, whatever it is": {func(i int, o *observation) { o.ptp.Offset = time.Duration(i%2) * time.Hour }, 5, 100_500_200, 100_500_200},
		"that of a servo that slews the clock by the tick": {func(i int, o *observation) { o.kernel.FrequencyPPB = float64(i%2) * 9_300_000 }, 60, 9_300_200, 9_300_200},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVirtual()
			for second := range test.atSec {
				v.look(func(o *observation) { test.change(second, o) })
			}
			if got := v.last.DriftPPB; got < test.least || got > test.most {
				t.Errorf("drift of %d ppb, want %d to %d", got, test.least, test.most)
			}
		})
	}
	t.Run("and more if the frequency is changed when nobody keeps the clock", func(t *testing.T) {
		v := newVirtual()
		v.looks(60)
		if e := v.look(noMaster, func(o *observation) { o.kernel.FrequencyPPB = 70_000 }); e.DriftPPB < 70_000 {
			t.Errorf("drift of %d ppb", e.DriftPPB)
		}
	})
}

func TestFaultsAreHandedOn(t *testing.T) {
	fault := Fault{ReasonTwoClockMasters, "two"}
	if e := newVirtual().look(func(o *observation) { o.faults = []Fault{fault} }); !slices.Contains(e.Faults, fault) {
		t.Errorf("got %+v", e.Faults)
	}
}
