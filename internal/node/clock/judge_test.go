// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"strings"
	"testing"
	"time"
)

// usual is what a network asks for without saying more.
var usual = Need{MaxError: 10 * us, Holdover: time.Minute}

// estimates that a judge is shown, one a second.
func kept(bound time.Duration) Estimate {
	return Estimate{Source: PTP, Bound: bound, Parts: Parts{PathDelay: bound}}
}

func alone(seconds int, bound time.Duration) Estimate {
	return Estimate{Source: PTP, Bound: bound, Lost: epoch.Add(-time.Duration(seconds) * time.Second), Parts: Parts{Drift: bound},
		Why: Fault{ReasonPortLost, "the port is LISTENING"}}
}

// drifting is one that may be 8.2 us in 2 s.
var drifting = Estimate{Source: PTP, Bound: 4 * us, DriftPPB: 2100, Parts: Parts{PathDelay: 4 * us}}

var nobody = Estimate{Source: None, Bound: -1, Why: Fault{ReasonNobody, "nobody"}}

// judged shows estimates to a judge, one a second, and returns the last verdict. The moments of alone are relative to the last one.
func judged(need Need, estimates ...Estimate) Verdict {
	var judge Judge
	var verdict Verdict
	for i, e := range estimates {
		e.At = epoch.Add(time.Duration(i-len(estimates)+1) * time.Second)
		verdict = judge.Look(need, e)
	}
	return verdict
}

func TestAJudgeIsSlowToBelieveAndQuickToDoubt(t *testing.T) {
	good, poor, bad := kept(5*us), kept(9*us), kept(11*us)
	for name, test := range map[string]struct {
		estimates []Estimate
		want      State
		reason    string
	}{
		"nobody keeps the clock":                  {[]Estimate{nobody}, Unknown, ReasonNobody},
		"the first good one":                      {[]Estimate{good}, Unknown, ReasonSettling},
		"two good ones":                           {[]Estimate{good, good}, Unknown, ReasonSettling},
		"three good ones":                         {[]Estimate{good, good, good}, Synchronized, ReasonSynchronized},
		"three that are only just good":           {[]Estimate{poor, poor, poor}, Unknown, ReasonSettling},
		"three good ones with a poor one between": {[]Estimate{good, good, poor, good}, Unknown, ReasonSettling},
		"one that is only just good, afterwards":  {[]Estimate{good, good, good, poor}, Synchronized, ReasonSynchronized},
		"a bad one":                               {[]Estimate{good, good, good, bad}, Unsynchronized, ReasonErrorTooLarge},
		"three that may soon be poor":             {[]Estimate{drifting, drifting, drifting}, Unknown, ReasonSettling},
		"one that may soon be poor, afterwards":   {[]Estimate{good, good, good, drifting}, Synchronized, ReasonSynchronized},
		"one that may soon be bad":                {[]Estimate{good, good, good, {Source: PTP, Bound: 9 * us, DriftPPB: 600}}, Unsynchronized, ReasonErrorTooLarge},
		"two good ones after a bad one":           {[]Estimate{good, good, good, bad, good, good}, Unsynchronized, ReasonSettling},
		"three good ones after a bad one":         {[]Estimate{bad, good, good, good}, Synchronized, ReasonSynchronized},
		"nobody any more":                         {[]Estimate{good, good, good, nobody}, Unknown, ReasonNobody},
		"lost":                                    {[]Estimate{good, good, good, alone(1, 6*us)}, Holdover, ReasonPortLost},
		"lost, with an error that grew":           {[]Estimate{good, good, good, alone(1, 11*us)}, Unsynchronized, ReasonErrorTooLarge},
		"lost for a minute":                       {[]Estimate{good, good, good, alone(60, 6*us)}, Holdover, ReasonPortLost},
		"lost for longer than a minute":           {[]Estimate{good, good, good, alone(61, 6*us)}, Unsynchronized, ReasonHoldoverOver},
		"lost before it was ever good":            {[]Estimate{good, alone(1, 6*us)}, Unsynchronized, ReasonPortLost},
		"lost, and not good before":               {[]Estimate{bad, alone(1, 6*us)}, Unsynchronized, ReasonPortLost},
		"back for a second":                       {[]Estimate{good, good, good, alone(1, 6*us), good}, Holdover, ReasonSettling},
		"back for three":                          {[]Estimate{good, good, good, alone(4, 6*us), good, good, good}, Synchronized, ReasonSynchronized},
		"back, with a large error":                {[]Estimate{good, good, good, alone(1, 6*us), bad}, Unsynchronized, ReasonErrorTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := judged(usual, test.estimates...)
			if verdict.State != test.want || verdict.Reason != test.reason {
				t.Errorf("got %s %s (%s), want %s %s", verdict.State, verdict.Reason, verdict.Sentence, test.want, test.reason)
			}
			if (verdict.Sentence == "") != (verdict.State == Synchronized) {
				t.Errorf("%s says %q", verdict.State, verdict.Sentence)
			}
		})
	}
}

func TestWithoutHoldoverALossIsUnsynchronized(t *testing.T) {
	good := kept(us)
	if verdict := judged(Need{MaxError: 10 * us}, good, good, good, alone(1, 2*us)); verdict.State != Unsynchronized || verdict.Reason != ReasonHoldoverOver {
		t.Errorf("got %+v", verdict)
	}
}

// The sentence rounds, the judgement does not.
func TestHoldoverEndsAtOnce(t *testing.T) {
	good := kept(us)
	if verdict := judged(Need{MaxError: 10 * us, Holdover: 4*time.Second - 300*us}, good, good, good, alone(4, 2*us)); verdict.Reason != ReasonHoldoverOver {
		t.Errorf("got %+v", verdict)
	}
}

func TestManyEstimatesInAMomentAreNoPatience(t *testing.T) {
	var judge Judge
	for i := range 20 {
		e := kept(us)
		e.At = epoch.Add(time.Duration(i) * 90 * time.Millisecond)
		if verdict := judge.Look(usual, e); verdict.State == Synchronized {
			t.Fatalf("trusted after %v", e.At.Sub(epoch))
		}
	}
}

func TestEachNeedHasItsOwnVerdict(t *testing.T) {
	good := kept(5 * us)
	if verdict := judged(Need{MaxError: us, Holdover: time.Minute}, good, good, good); verdict.State != Unsynchronized {
		t.Errorf("an error of 5 us, where 1 us is allowed: %+v", verdict)
	}
	var judge Judge
	for second := range 4 {
		e := good
		e.At = epoch.Add(time.Duration(second) * time.Second)
		judge.Look(usual, e)
	}
	e := good
	e.At = epoch.Add(5 * time.Second)
	if verdict := judge.Look(Need{MaxError: us}, e); verdict.State != Unsynchronized {
		t.Errorf("when less is allowed: %+v", verdict)
	}
}

func TestAVerdictSaysSinceWhen(t *testing.T) {
	var judge Judge
	for second := range 10 {
		e := kept(us)
		e.At = epoch.Add(time.Duration(second) * time.Second)
		judge.Look(usual, e)
	}
	if since := judge.Verdict().Since; !since.Equal(epoch.Add(2 * time.Second)) {
		t.Errorf("since %v", since)
	}
}

func TestASentenceNamesTheLargestPart(t *testing.T) {
	for name, parts := range map[string]Parts{
		"the offset":                 {Offset: 20 * us, Jitter: us},
		"the path delay":             {PathDelay: 20 * us},
		"the accuracy of the source": {Accuracy: 20 * us},
		"the jitter":                 {Jitter: 20 * us},
		"the network card's clock":   {Card: 20 * us},
		"the TAI offset":             {TAI: 20 * us},
		"a step of the clock":        {Step: 20 * us},
		"the drift":                  {Drift: 20 * us},
	} {
		t.Run(name, func(t *testing.T) {
			if verdict := judged(usual, Estimate{Source: PTP, Bound: parts.Sum(), Parts: parts}); !strings.Contains(verdict.Sentence, name+" (20µs)") {
				t.Errorf("got %q", verdict.Sentence)
			}
		})
	}
}
