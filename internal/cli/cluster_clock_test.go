// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// now is the time at which clocks are shown.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// kept is a node whose clock is in a state.
func kept(name, state string, bound int64, conditions ...metav1.Condition) v1alpha1.TSNNode {
	node := said(name, append([]metav1.Condition{good}, conditions...)...)
	node.Status.Clock = &v1alpha1.NodeClock{
		State: state, Since: metav1.NewTime(now.Add(-90 * time.Second)), Source: "PTP", Grandmaster: "001122.fffe.334455", ErrorBoundNanoseconds: &bound,
		History: []v1alpha1.ClockTransition{{Time: metav1.NewMicroTime(now.Add(-90 * time.Second)), State: state, Reason: "PortLost"}},
	}
	return node
}

// asking are the networks tsn, which asks for a good clock, and other, which does not.
func asking() []v1alpha1.TSNNetwork {
	return []v1alpha1.TSNNetwork{
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}, Spec: v1alpha1.TSNNetworkSpec{Clock: &v1alpha1.ClockRequirement{MaxError: "10us", Holdover: "1m", OnLoss: "Hold"}}},
	}
}

// inColumns has one space between columns, whatever their widths.
func inColumns(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestClocksOfSortsWorstFirst(t *testing.T) {
	fine := metav1.Condition{Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
	silent, unknown, strict := said("silent"), kept("unknown", "Unknown", -1), kept("strict", "Unsynchronized", 20000, fine)
	unknown.Status.Clock.Source, unknown.Status.Clock.Grandmaster = "", ""
	lost, also := kept("lost", "Unsynchronized", 50000, drifts), kept("also-lost", "Unsynchronized", 50000, drifts)
	lost.Status.Clock.Message, also.Status.Clock.Message = "run ptp4l", "run ptp4l"
	lost.Status.Clock.Steps = 3
	all := clocksOf([]v1alpha1.TSNNode{kept("good", "Synchronized", 500, fine), silent, unknown, strict, lost, also, kept("held", "Holdover", 2000, fine)}, asking())
	var out strings.Builder
	if err := printClocks(&out, all, now); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"node clock for source grandmaster error at most steps lost to",
		"also-lost Unsynchronized 90s PTP 001122.fffe.334455 50µs 0 tsn",
		"lost Unsynchronized 90s PTP 001122.fffe.334455 50µs 3 tsn",
		"silent - - - - - - -",
		"unknown Unknown 90s - - unknown 0 -",
		"strict Unsynchronized 90s PTP 001122.fffe.334455 20µs 0 -",
		"held Holdover 90s PTP 001122.fffe.334455 2µs 0 -",
		"good Synchronized 90s PTP 001122.fffe.334455 500ns 0 -",
		"-> also-lost: run ptp4l",
	}
	if got := inColumns(out.String()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPrintNodeClock(t *testing.T) {
	clock := clocksOf([]v1alpha1.TSNNode{kept("a", "Unsynchronized", 50000, drifts)}, asking())[0]
	clock.Clock.Message, clock.Clock.TAIOffset, clock.Clock.LostSince = "run ptp4l", new(int32(37)), new(metav1.NewTime(now.Add(-5*time.Minute)))
	var out strings.Builder
	if err := printNodeClock(&out, &clock, now); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"node a: Unsynchronized for 90s",
		"kept by PTP, grandmaster or reference 001122.fffe.334455; its error is at most: 50µs; steps: 0",
		"TAI - UTC: 37 s",
		"without a source since 2026-11-23T11:55:00Z, for 5m",
		"-> run ptp4l",
		"",
		"network asks for holdover on loss good enough",
		"tsn 10us 1m Hold no; ClockUnsynchronized: run ptp4l",
		"",
		"since clock reason grandmaster",
		"2026-11-23 11:58:30.000Z Unsynchronized PortLost -",
	}
	if got := inColumns(out.String()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	written, err := json.Marshal(clock)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"node":"a","clock":{"state":"Unsynchronized"`, `"errorBoundNanoseconds":50000,"taiOffset":37,"lostSince":"2026-11-23T11:55:00Z"`,
		`"networks":[{"name":"tsn","maxError":"10us","holdover":"1m","onLoss":"Hold","good":"False","reason":"ClockUnsynchronized","message":"run ptp4l"}]`,
	} {
		if !strings.Contains(string(written), want) {
			t.Errorf("%s has no %s", written, want)
		}
	}
}

// TestPrintNodeClockWithoutTAIOffset is of an agent of before it, whose clock somebody keeps.
func TestPrintNodeClockWithoutTAIOffset(t *testing.T) {
	clock := clocksOf([]v1alpha1.TSNNode{kept("a", "Synchronized", 500)}, asking())[0]
	var out strings.Builder
	if err := printNodeClock(&out, &clock, now); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "TAI - UTC") || strings.Contains(out.String(), "nobody keeps it") {
		t.Errorf("it shows what nobody has said:\n%s", out.String())
	}
}

func TestPrintNodeClockWithoutReport(t *testing.T) {
	clock := clocksOf([]v1alpha1.TSNNode{said("a")}, asking())[0]
	var out strings.Builder
	if err := printNodeClock(&out, &clock, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"node a has not reported its clock; `ktsn doctor --node a`", "not reported yet"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s\nwant %q in it", out.String(), want)
		}
	}
}

func TestPrintClocksLimitsRows(t *testing.T) {
	var nodes []v1alpha1.TSNNode
	for i := range 1000 {
		nodes = append(nodes, kept(fmt.Sprintf("node-%04d", i), "Synchronized", 500))
		nodes[i].Status.Clock.Message = fmt.Sprint("sentence ", i)
	}
	nodes[987].Status.Clock.State = "Holdover"
	var out strings.Builder
	if err := printClocks(&out, clocksOf(nodes, asking()), now); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+maxRows+1+maxMessages || !strings.HasPrefix(lines[1], "node-0987") || !strings.Contains(out.String(), "and 950 more; -o json has all") {
		t.Errorf("it shows %d lines, the first %s", len(lines), lines[1])
	}
}

func TestOverviewShowsClockOfNetwork(t *testing.T) {
	held := metav1.Condition{Type: v1alpha1.ConditionClockSynchronized, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonClockHoldover}
	all := &overview{Networks: asking(), Nodes: []v1alpha1.TSNNode{kept("a", "Unsynchronized", 50000, drifts), kept("b", "Holdover", 5000, held)}}
	var out strings.Builder
	if err := printOverview(&out, all); err != nil {
		t.Fatal(err)
	}
	for want, count := range map[string]int{
		"clocks of nodes: an error of at most 10us, 1m without a source; messages where it is lost: Hold": 1,
		"ClockUnsynchronized: run ptp4l": 1, "yes, in holdover": 1, "error of one-way latencies between nodes: at most 55µs, between a and b": 2, // on both networks
	} {
		if got := strings.Count(out.String(), want); got != count {
			t.Errorf("%q is there %d times in\n%s", want, got, out.String())
		}
	}
}

func TestLatencyErrors(t *testing.T) {
	alone := kept("alone", "Synchronized", 500)
	alone.Spec.Networks = alone.Spec.Networks[:1] // only on network other
	nodes := []v1alpha1.TSNNode{kept("a", "Synchronized", 500), kept("b", "Synchronized", 200), kept("c", "Holdover", 5000), kept("d", "Unknown", -1), said("e"), alone}
	for i := range nodes[:5] {
		nodes[i].Spec.Networks = nodes[i].Spec.Networks[1:] // only on network tsn
	}
	clock := clocksOf(nodes[:1], nil)[0]
	clock.Clock, clock.LatencyErrors = nil, latencyErrors(&nodes[0], nodes)
	var out strings.Builder
	if err := printNodeClock(&out, &clock, now); err != nil {
		t.Fatal(err)
	}
	want := []string{"network other node error of one-way latencies at most", "tsn d unknown", "tsn e unknown", "tsn c 5.5µs", "tsn b 700ns"}
	if got := inColumns(out.String())[2:]; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, test := range map[string]struct {
		network string
		nodes   []v1alpha1.TSNNode
		want    string
	}{
		"the two worst":      {"tsn", nodes, "at most 5.5µs, between c and a; nodes without a known clock error: 2"},
		"all known":          {"tsn", nodes[:2], "at most 700ns, between a and b"},
		"one known":          {"tsn", nodes[2:4], "not known; nodes without a known clock error: 1"},
		"one node":           {"other", nodes, ""},
		"no node has a part": {"third", nodes, ""},
	} {
		if got := latencyErrorLine(test.network, test.nodes); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
