// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func known(bound time.Duration) reading { return reading{bound: bound, state: "Synchronized"} }

func TestJudge(t *testing.T) {
	us := func(count int) time.Duration { return time.Duration(count) * time.Microsecond }
	held := reading{bound: us(30), state: "Holdover", why: "ptp4l has lost its master"}
	for name, test := range map[string]struct {
		by               judge
		talker, listener estimate
		doubt            string
		refused          bool
	}{
		"good ones": {judge{median: us(20), measured: true}, estimate{node: "a", worst: known(us(2))}, estimate{node: "b", worst: known(us(3))}, "", false},
		"as wrong as what was measured": {judge{median: us(32), measured: true}, estimate{node: "a", worst: known(us(2))}, estimate{node: "b", worst: held},
			"the clock of node a may be wrong by 2.00 µs, the clock of node b may be wrong by 30.0 µs (Holdover: ptp4l has lost its master): " +
				"together that is as much as was measured with them, where the median of the latencies is 32.0 µs", true},
		"a latency below zero":          {judge{median: -us(5000), measured: true}, estimate{node: "a", worst: known(us(2))}, estimate{node: "b", worst: known(us(3))}, "the median of the latencies is -5000 µs", true},
		"nothing was measured":          {judge{}, estimate{node: "a", worst: known(us(2000))}, estimate{node: "b", worst: known(us(3))}, "", false},
		"within the profile's limit":    {judge{limit: us(50), median: us(20), measured: true}, estimate{node: "a", worst: known(us(20))}, estimate{node: "b", worst: known(us(30))}, "", false},
		"beyond the profile's limit":    {judge{limit: us(4), median: us(20), measured: true}, estimate{node: "a", worst: known(us(2))}, estimate{node: "b", worst: known(us(3))}, "together that is more than max-clock-error of the profile, 4.00 µs", true},
		"one nobody knows":              {judge{median: us(20), measured: true}, estimate{node: "a", worst: known(0)}, estimate{node: "b", worst: notKnown("no agent watches it")}, "the error of the clock of node b is not known: no agent watches it", false},
		"both nobody knows":             {judge{median: us(20), measured: true}, estimate{node: "a", worst: notKnown("")}, estimate{node: "b", worst: notKnown("")}, "the error of the clock of node a is not known", false},
		"unknown, and there is a limit": {judge{limit: us(4)}, estimate{node: "a", worst: known(0)}, estimate{node: "b", worst: notKnown("why")}, "node b is not known: why; max-clock-error of the profile is 4.00 µs", true},
		"unknown and certainly apart":   {judge{apart: us(700)}, estimate{node: "a", worst: known(0)}, estimate{node: "b", worst: notKnown("why")}, "messages show that it differs from that of the other node by 700 µs at least", true},
		"apart by more than they say":   {judge{apart: us(6)}, estimate{node: "a", worst: known(us(2))}, estimate{node: "b", worst: known(us(3))}, "messages show that the clocks of nodes a and b differ by 6.00 µs at least, and they are said to be wrong by 5.00 µs together at most", true},
		"apart by what they say":        {judge{apart: us(5)}, estimate{node: "a", worst: known(us(2))}, estimate{node: "b", worst: known(us(3))}, "", false},
		"set meanwhile":                 {judge{median: us(20), measured: true}, estimate{node: "a", worst: known(0)}, estimate{node: "b", worst: known(0), stepped: true}, "the clock of node b was set while it was measured with it", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.by.of(&test.talker, &test.listener)
			if !strings.Contains(got.doubt, test.doubt) || (test.doubt == "") != (got.doubt == "") || (got.refused != "") != test.refused {
				t.Errorf("got %+v; want %q, refused: %v", got, test.doubt, test.refused)
			}
		})
	}
}

// agents are an API server that has what agents write of their clocks.
type agents struct {
	mutex  sync.Mutex
	clocks map[string]*v1alpha1.NodeClock
	asked  int
	// away are nodes whose agent is not ready.
	away map[string]bool
	// onAsked changes what they write.
	onAsked func(count int, clocks map[string]*v1alpha1.NodeClock)
}

func (a *agents) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	out.Header().Set("Content-Type", "application/json")
	if filepath.Base(request.URL.Path) == "pods" {
		_ = json.NewEncoder(out).Encode(a.pods(request.URL.Query()))
		return
	}
	if a.asked++; a.onAsked != nil {
		a.onAsked(a.asked, a.clocks)
	}
	clock, there := a.clocks[filepath.Base(request.URL.Path)]
	if !there {
		out.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(out).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		return
	}
	node := v1alpha1.TSNNode{Status: v1alpha1.TSNNodeStatus{AgentVersion: "0.9", Clock: clock}}
	_ = json.NewEncoder(out).Encode(node)
}

// pods are the agent's of the node that is asked for.
func (a *agents) pods(asked url.Values) *corev1.PodList {
	all := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	node, isNode := strings.CutPrefix(asked.Get("fieldSelector"), "spec.nodeName=")
	if !isNode || asked.Get("labelSelector") != agentPods {
		return all
	}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	if a.away[node] {
		ready.Status = corev1.ConditionFalse
	}
	all.Items = []corev1.Pod{{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready}}}}
	return all
}

// written is a clock whose error is at most so much; below zero: nobody knows.
func written(state string, boundNs int64) *v1alpha1.NodeClock {
	clock := &v1alpha1.NodeClock{State: state}
	if boundNs >= 0 {
		clock.ErrorBoundNanoseconds = &boundNs
	}
	return clock
}

// between is a target between nodes a and b whose clocks these agents watch.
func between(t *testing.T, watching *agents) *Target {
	t.Helper()
	server := httptest.NewServer(watching)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "k", "cluster": {"server": "`+server.URL+`"}}], "users": [{"name": "u", "user": {"token": "t"}}],
"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := connect(Where{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	c.config.QPS = -1 // questions follow each other as fast as the test wants
	if c.core, err = clientOf(c.config, "/api", corev1.SchemeGroupVersion); err != nil {
		t.Fatal(err)
	}
	a, b := usableNode("a"), usableNode("b")
	return &Target{connection: c, on: nodes{&a, &b}, clockEvery: time.Millisecond, settle: 30 * time.Millisecond,
		ends: [2]end{{node: "a", written: true}, {node: "b", written: true}}}
}

func TestReadAgentClock(t *testing.T) {
	held := written("Holdover", 20_000)
	held.Message, held.Steps = "ptp4l has lost its master", 3
	target := between(t, &agents{clocks: map[string]*v1alpha1.NodeClock{"good": written("Synchronized", 1000), "held": held,
		"unknown": written("Unknown", -1), "silent": nil}})
	for node, want := range map[string]reading{
		"good":    {bound: 1000, state: "Synchronized"},
		"held":    {bound: 20_000, state: "Holdover", why: "ptp4l has lost its master", steps: 3},
		"unknown": {bound: -1, state: "Unknown"},
		"silent":  {bound: -1, why: "its agent (0.9) says nothing of it"},
		"nowhere": {bound: -1, why: "no agent of KuberneTSN watches it (there is no TSNNode nowhere)"},
	} {
		if got, err := target.readWritten(t.Context(), node); err != nil || got != want {
			t.Errorf("%s: %+v, %v", node, got, err)
		}
	}
	forbidden := end{node: "good", mayNot: "the user may not get tsnnodes.kubernetsn.io"}
	if got, err := target.readExact(t.Context(), &forbidden); err != nil || got.known() || got.why != forbidden.mayNot {
		t.Errorf("without the right: %+v, %v", got, err)
	}
}

// watchWhile watches until the agents were asked so often.
func watchWhile(t *testing.T, target *Target, watching *agents, until int) [2]estimate {
	t.Helper()
	watch, err := target.watchClocks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.stop()
	testlab.Eventually(t, 10*time.Second, time.Millisecond, func() error {
		watching.mutex.Lock()
		asked := watching.asked
		watching.mutex.Unlock()
		if asked >= until {
			return nil
		}
		return fmt.Errorf("asked %d times", asked)
	})
	seen, err := watch.finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return *seen
}

func TestWatchTakesLargestError(t *testing.T) {
	good := func() map[string]*v1alpha1.NodeClock {
		return map[string]*v1alpha1.NodeClock{"a": written("Synchronized", 1000), "b": written("Synchronized", 2000)}
	}
	for name, test := range map[string]struct {
		change func(count int, clocks map[string]*v1alpha1.NodeClock)
		want   time.Duration
		step   bool
	}{
		"it stays": {nil, 2000, false},
		"worse for a while": {func(count int, clocks map[string]*v1alpha1.NodeClock) {
			clocks["b"] = written("Synchronized", 2000)
			if count > 6 && count <= 10 {
				clocks["b"] = written("Holdover", 50_000)
			}
		}, 50_000, false},
		"unknown for a while": {func(count int, clocks map[string]*v1alpha1.NodeClock) {
			clocks["b"] = written("Synchronized", 2000)
			if count > 6 && count <= 10 {
				clocks["b"] = written("Unknown", -1)
			}
		}, -1, false},
		"worse at the end": {func(count int, clocks map[string]*v1alpha1.NodeClock) {
			if count > 16 {
				clocks["b"] = written("Unsynchronized", 3_000_000)
			}
		}, 3_000_000, false},
		"set meanwhile": {func(count int, clocks map[string]*v1alpha1.NodeClock) {
			if count > 6 {
				clocks["b"].Steps = 1
			}
		}, 2000, true},
		"the agent has gone": {func(count int, clocks map[string]*v1alpha1.NodeClock) {
			if count > 6 {
				delete(clocks, "b")
			}
		}, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			watching := &agents{clocks: good(), onAsked: test.change}
			seen := watchWhile(t, between(t, watching), watching, 16)
			if seen[0].worst.bound != 1000 || seen[0].stepped || seen[1].worst.bound != test.want || seen[1].stepped != test.step {
				t.Errorf("a %+v, b %+v; want %v", seen[0], seen[1], test.want)
			}
		})
	}
}

func TestBadClocksAreRejectedFirst(t *testing.T) {
	for name, test := range map[string]struct {
		b        *v1alpha1.NodeClock
		limit    time.Duration
		apart    clocks
		oneBoot  bool
		anyClock bool
		want     string
	}{
		"good clocks":                         {written("Synchronized", 2000), 0, clocks{there: 10, back: 10}, false, false, ""},
		"good enough for the profile":         {written("Synchronized", 2000), 3 * time.Microsecond, clocks{there: 10, back: 10}, false, false, ""},
		"not good enough for the profile":     {written("Unsynchronized", 2_000_000), 3 * time.Microsecond, clocks{there: 10, back: 10}, false, false, "the clock of node b may be wrong by 2000 µs (Unsynchronized): together that is more than max-clock-error of the profile, 3.00 µs; have the clocks kept together (docs/guide/clocks.md; `ktsn clock` shows them), or measure nevertheless with --any-clock"},
		"and it is wanted":                    {written("Unsynchronized", 2_000_000), 3 * time.Microsecond, clocks{there: 10, back: 10}, false, true, ""},
		"unknown":                             {written("Unknown", -1), 0, clocks{there: 10, back: 10}, false, false, ""},
		"unknown and apart":                   {written("Unknown", -1), 0, clocks{there: -700_000, back: 720_000}, false, false, "messages show that it differs from that of the other node by 700 µs at least; have"},
		"apart by more than the agents say":   {written("Synchronized", 2000), 0, clocks{there: 720_000, back: -700_000}, false, false, "differ by 700 µs at least, and they are said to be wrong by 3.00 µs together at most; have"},
		"one boot ID, and they are apart":     {written("Synchronized", 2000), 0, clocks{there: 720_000, back: -700_000}, true, false, "differ by 700 µs at least"},
		"one boot ID, and nobody watches one": {nil, 3 * time.Microsecond, clocks{there: 10, back: 10}, true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := between(t, &agents{clocks: map[string]*v1alpha1.NodeClock{"a": written("Synchronized", 1000), "b": test.b}})
			target.maxClockError, target.AnyClock, target.oneClock = test.limit, test.anyClock, test.oneBoot
			target.clocks.add(test.apart)
			err := target.checkClocks(t.Context())
			if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAwaitClocks(t *testing.T) {
	watching := &agents{clocks: map[string]*v1alpha1.NodeClock{"a": written("Synchronized", 1000), "b": written("Unknown", -1)},
		onAsked: func(count int, clocks map[string]*v1alpha1.NodeClock) {
			if count > 6 {
				clocks["b"] = written("Synchronized", 1000)
			}
		}}
	target := between(t, watching)
	target.maxClockError, target.settle = 2*time.Microsecond, time.Minute
	if err := target.checkClocks(t.Context()); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := target.awaitClocks(ended, time.Nanosecond); err == nil {
		t.Error("a bench that was stopped goes on waiting")
	}
}

func TestReportNeedsRunningAgent(t *testing.T) {
	watching := &agents{clocks: map[string]*v1alpha1.NodeClock{"a": written("Synchronized", 1000), "b": written("Synchronized", 2000)},
		away: map[string]bool{"b": true}}
	target := between(t, watching)
	if got, err := target.readExact(t.Context(), &target.ends[0]); err != nil || got.bound != 1000 {
		t.Errorf("beside its agent: %+v, %v", got, err)
	}
	if got, err := target.readExact(t.Context(), &target.ends[1]); err != nil || got.known() || got.why != "no agent is ready there, so that what it has written may be old" {
		t.Errorf("without its agent: %+v, %v", got, err)
	}
	target.ends[0].unseen = "the user may not list pods"
	if got, err := target.readExact(t.Context(), &target.ends[0]); err != nil || got.known() || got.why != target.ends[0].unseen {
		t.Errorf("where nobody can tell: %+v, %v", got, err)
	}
	target.ends[0].unseen, watching.away = "", nil
	watching.onAsked = func(count int, _ map[string]*v1alpha1.NodeClock) {
		watching.away = map[string]bool{"b": count > 6 && count <= 10}
	}
	if seen := watchWhile(t, target, watching, 16); seen[0].worst.bound != 1000 || seen[1].worst.known() {
		t.Errorf("away during a run: %+v", seen)
	}
}

// follows is a clock that an agent has written, of something that it follows.
func follows(source, grandmaster string, tai int32) *v1alpha1.NodeClock {
	clock := written("Synchronized", 1000)
	clock.Source, clock.Grandmaster, clock.TAIOffset = source, grandmaster, &tai
	return clock
}

func TestDifferentSourcesHaveNoError(t *testing.T) {
	for name, test := range map[string]struct {
		a, b  *v1alpha1.NodeClock
		doubt string
	}{
		"one grandmaster":            {follows("PTP", "x", 37), follows("PTP", "x", 37), ""},
		"servers of NTP":             {follows("NTP", "192.0.2.1", 37), follows("NTP", "192.0.2.2", 37), ""},
		"nobody says what":           {follows("PTP", "x", 37), written("Synchronized", 1000), ""},
		"two grandmasters":           {follows("PTP", "x", 37), follows("PTP", "y", 37), "the clock of node a follows the PTP grandmaster x, and that of node b the PTP grandmaster y: nobody knows how far these are apart"},
		"PTP and NTP":                {follows("PTP", "x", 37), follows("NTP", "192.0.2.1", 37), "follows the PTP grandmaster x, and that of node b NTP"},
		"another TAI offset":         {follows("NTP", "r", 37), follows("NTP", "r", 0), "CLOCK_TAI of node a is 37 s ahead of UTC, and that of node b 0 s"},
		"both turned to another one": {follows("PTP", "x", 37), follows("PTP", "x", 37), "follows the PTP grandmaster x and the PTP grandmaster y"},
	} {
		t.Run(name, func(t *testing.T) {
			watching := &agents{clocks: map[string]*v1alpha1.NodeClock{"a": test.a, "b": test.b}}
			if strings.HasPrefix(name, "both") {
				watching.onAsked = func(count int, clocks map[string]*v1alpha1.NodeClock) {
					if count > 6 {
						clocks["a"], clocks["b"] = follows("PTP", "y", 37), follows("PTP", "y", 37)
					}
				}
			}
			seen := watchWhile(t, between(t, watching), watching, 16)
			clockError := errorOf(&seen[0], &seen[1])
			by := judge{median: time.Second, measured: true}
			got := by.of(&seen[0], &seen[1])
			if !strings.Contains(got.doubt, test.doubt) || (got.doubt == "") != (test.doubt == "") || (clockError.Combined == nil) != (test.doubt != "") || *clockError.Talker != 1000 {
				t.Errorf("it says %+v, %+v; want %q", got, clockError, test.doubt)
			}
			by.limit = time.Millisecond
			if got := by.of(&seen[0], &seen[1]); (got.refused == "") != (test.doubt == "") {
				t.Errorf("with a limit it is refused by %q", got.refused)
			}
		})
	}
}
