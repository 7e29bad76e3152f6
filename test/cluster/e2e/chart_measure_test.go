// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// The experiment of the paper: a message each millisecond, of three sizes, over each path in turn, as in the demo.
// Disturbances of the machine affect all paths, another size and another path begins each time, and each path first
// sends a few messages that do not count. The lead is one and a half cycles, so that the talker's timer expires in the
// middle between two departures.
const (
	experimentWarmUp = 50
	experimentCycle  = time.Millisecond
	experimentLead   = 2500 * time.Microsecond
)

// long reports whether E2E_LONG=1 asks for measurements of time, too.
func long() bool { return os.Getenv("E2E_LONG") == "1" }

// experimentMessages are sent in each of experimentAlternations. The short form proves that everything works; the long
// form sends enough for figures.
var experimentMessages, experimentAlternations = func() (messages, alternations int) {
	if long() {
		return 1000, 5
	}
	return 300, 2
}()

var experimentPayloads = []int{64, 256, 1024}

// experimentPath is a path from pod to pod.
type experimentPath struct {
	name string
	// talker sends, listener receives at address.
	talker, listener *corev1.Pod
	address          string
	timed            bool
	// spinNs is how long the talker spins before each send, 0 if it sleeps; fifo are the options of its priority.
	spinNs int64
	fifo   []string
}

// TestPaperExperiment measures, but only checks what does not depend on the machine: that nothing on the
// tsn network is lost or early. The figures are in out/e2e/summary.json.
func TestPaperExperiment(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	host := under.Nodes[0].Name
	listener := deploy(ctx, t, namespace, onChart(waiting("listener", under.Nodes[1].Name)))
	talker := deploy(ctx, t, namespace, timed(waiting("talker", host)))
	paths, gaps := spinningPaths(ctx, t, listener)
	summary := experiment(ctx, t, namespace, talker, listener, paths...)
	summary.NotMeasured, summary.Setup.SpinNs = gaps, paths[0].spinNs
	summary.Figures = append(summary.Figures, restFigures(ctx, t, host)...)
	summary.Figures = append(summary.Figures, readyFigure(ctx, t, namespace, timed))
	writeSummary(t, summary, "summary.json")
}

// experiment compares the path from talker to listener on their network with Flannel's and with others.
func experiment(ctx context.Context, t *testing.T, namespace string, talker, listener *corev1.Pod, others ...experimentPath) *results.Summary {
	t.Helper()
	host := talker.Spec.NodeName
	paths := append([]experimentPath{
		{name: "tsn", talker: talker, listener: listener, address: addressOn(t, listener).String(), timed: true},
		{name: flannel, talker: deploy(ctx, t, namespace, waiting("plain", host)), listener: listener, address: listener.Status.PodIP},
	}, others...)
	began := time.Now()
	runs := map[string]*results.Run{}
	pooled := map[string]*experimentSamples{}
	id := 1000
	for _, path := range paths {
		id++
		measure(ctx, t, path, experimentPayloads[0], experimentWarmUp, id, host)
	}
	for alternation := range experimentAlternations {
		for i := range experimentPayloads {
			payload := experimentPayloads[(i+alternation)%len(experimentPayloads)]
			for j := range paths {
				path := paths[(j+alternation)%len(paths)]
				id++
				key := path.name + " " + strconv.Itoa(payload)
				if alternation == 0 {
					runs[key] = &results.Run{Path: path.name, Workload: results.WorkloadPlain, PayloadBytes: payload, CycleNs: int64(experimentCycle)}
					pooled[key] = &experimentSamples{}
				}
				measured, samples := measure(ctx, t, path, payload, experimentMessages, id, host)
				runs[key].Alternations = append(runs[key].Alternations, measured)
				pooled[key].add(samples)
			}
		}
	}
	summary := &results.Summary{Schema: results.Schema, Setup: results.Setup{
		Messages: experimentMessages * experimentAlternations, Alternations: experimentAlternations, SenderCPU: 0, ListenerCPU: 1,
		LeadNs: int64(experimentLead),
	}}
	var err error
	if summary.Host, err = results.DescribeHost(began); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		for _, payload := range experimentPayloads {
			key := path.name + " " + strconv.Itoa(payload)
			run := runs[key]
			run.Distributions = pooled[key].distributions()
			run.Pool()
			summary.Runs = append(summary.Runs, run)
			if problem := experimentProblem(path, run); problem != "" {
				summary.Problems = append(summary.Problems, problem)
				t.Error(problem)
			}
			t.Logf("%-17s latency p50 %8d ns  p99 %9d ns, lost %d, early %d, %.3f cores for sending", key, run.MedianOfAlternations.Latency.P50,
				run.MedianOfAlternations.Latency.P99, run.Lost, run.Early, *run.MedianOfAlternations.SendingCores)
		}
	}
	summary.Figures = experimentFigures(runs)
	return summary
}

// experimentProblem returns the violation of an expectation that holds on every machine, "" if there is none. A path
// whose talker sleeps need only have been measured; its losses do not matter.
func experimentProblem(path experimentPath, run *results.Run) string {
	want := experimentMessages * experimentAlternations
	if run.Sent != want || run.SendErrors > 0 || run.Received == 0 {
		return fmt.Sprintf("%s %d: %d messages sent, %d refused, %d received, of %d", path.name, run.PayloadBytes, run.Sent, run.SendErrors, run.Received, want)
	}
	if (path.timed || path.spinNs > 0) && (run.Lost > 0 || run.Early > 0 || run.Corrupt > 0 || run.Duplicated > 0) {
		return fmt.Sprintf("%s %d: %d lost, %d early, %d corrupt, %d duplicated", path.name, run.PayloadBytes, run.Lost, run.Early, run.Corrupt, run.Duplicated)
	}
	return ""
}

// measure performs one run.
func measure(ctx context.Context, t *testing.T, path experimentPath, payload, count, id int, host string) (results.Alternation, *experimentSamples) {
	t.Helper()
	talker := []string{"--count", strconv.Itoa(count), "--cycle", experimentCycle.String(), "--size", strconv.Itoa(payload), "--cpu", "0"}
	if path.timed {
		talker = append(talker, "--lead", fmt.Sprint(experimentLead.Nanoseconds(), "ns"))
	} else {
		talker = slices.Concat(talker, []string{"--no-txtime", "--spin", fmt.Sprint(path.spinNs, "ns")}, path.fifo)
	}
	before := chartStatus(ctx, t, host)
	got := talk(ctx, t, path.talker, path.listener, path.address, id, talker,
		[]string{"--count", strconv.Itoa(count), "--poll", "--cpu", "1", "--idle-timeout", "5s"}, nil)
	var alternation results.Alternation
	samples := &experimentSamples{}
	arrived := map[uint32]int64{}
	for _, message := range got.received {
		_, known := arrived[message.Sequence]
		switch {
		case !message.Valid:
			alternation.Corrupt++
			continue
		case known:
			alternation.Duplicated++
			continue
		}
		arrived[message.Sequence] = message.Arrival
	}
	for i, message := range got.sent {
		if message.Errno != 0 {
			alternation.SendErrors++
			continue
		}
		alternation.Sent++
		samples.sendCall = append(samples.sendCall, message.SendEnd-message.SendStart)
		arrival, known := arrived[message.Sequence]
		if !known {
			continue
		}
		alternation.Received++
		samples.latency = append(samples.latency, arrival-message.Txtime)
		if arrival < message.Txtime {
			alternation.Early++
		}
		if i > 0 {
			if before, known := arrived[message.Sequence-1]; known {
				samples.jitter = append(samples.jitter, arrival-(before+int64(experimentCycle)))
			}
		}
	}
	alternation.Lost = alternation.Sent - alternation.Received
	alternation.Distributions = samples.distributions()
	lasted := float64(time.Duration(count) * experimentCycle)
	alternation.CPUCores = map[string]float64{"talker": float64(got.busy) / lasted}
	if path.timed {
		after := chartStatus(ctx, t, host)
		since := after.late() - before.late()
		alternation.Late = &since
		alternation.CPUCores["ktsnd"] = float64(after.ProcessorTimeNs-before.ProcessorTimeNs) / lasted
	}
	alternation.AddSendingCores(path.name)
	if problem := spinProblem(path, got.sent); problem != "" {
		t.Error(problem)
	}
	// These show whether a tail is the path's: how late the talker itself was, and how many messages ktsnd counted as
	// late.
	t.Logf("%-12s %4d B: latency p50 %7d  p99 %8d ns; the talker woke p50 %6d  p99 %8d ns late; late %s", path.name, payload,
		alternation.Latency.P50, alternation.Latency.P99, woke(got.sent, path).P50, woke(got.sent, path).P99, lateText(alternation.Late))
	return alternation, samples
}

func lateText(late *uint64) string {
	if late == nil {
		return "not counted"
	}
	return strconv.FormatUint(*late, 10)
}

// woke returns how late the talker itself was, which is independent of the path.
func woke(sent []tsnperf.Sent, path experimentPath) *stats.Summary {
	lead := int64(0)
	if path.timed {
		lead = int64(experimentLead)
	}
	var late []int64
	for _, message := range sent {
		late = append(late, message.Wakeup-(message.Txtime-lead-path.spinNs))
	}
	return stats.Summarize(late)
}

// late returns the number of messages that left late.
func (s ktsndStatus) late() (count uint64) {
	for name, value := range s.Counters {
		if strings.HasPrefix(name, "late-") {
			count += value
		}
	}
	return count
}

type experimentSamples struct{ latency, jitter, sendCall []int64 }

func (s *experimentSamples) add(more *experimentSamples) {
	s.latency = append(s.latency, more.latency...)
	s.jitter = append(s.jitter, more.jitter...)
	s.sendCall = append(s.sendCall, more.sendCall...)
}

func (s *experimentSamples) distributions() results.Distributions {
	return results.Distributions{
		Latency: stats.Summarize(s.latency), ClockError: results.OneClock(), Jitter: stats.SummarizeJitter(s.jitter), SendCall: stats.Summarize(s.sendCall),
	}
}

// experimentFigures compares the tsn network with Flannel, and with the strongest program over Flannel if it was
// measured.
func experimentFigures(runs map[string]*results.Run) []results.Figure {
	figures := []results.Figure{
		ratioFigure(runs, "p50", flannelSpin, 0.8), ratioFigure(runs, "p99", flannelSpin, 0.8),
		ratioFigure(runs, "p50", flannel, 0.5), ratioFigure(runs, "p99", flannel, 0.7),
		countFigure(runs, "lost", func(run *results.Run) int { return run.Lost }),
		countFigure(runs, "early at the listener", func(run *results.Run) int { return run.Early }),
	}
	return slices.DeleteFunc(figures, func(figure results.Figure) bool { return len(figure.Values) == 0 })
}

// ratioFigure returns a percentile of the latency on the tsn network divided by that on another path, without values if
// the other was not measured.
func ratioFigure(runs map[string]*results.Run, percentile, path string, limit float64) results.Figure {
	percentiles := map[string]func(*stats.Summary) int64{
		"p50": func(s *stats.Summary) int64 { return s.P50 }, "p99": func(s *stats.Summary) int64 { return s.P99 },
	}[percentile]
	figure := results.Figure{Name: fmt.Sprintf("latency %s, tsn / %s", percentile, path), Unit: results.UnitRatio, Limit: limit,
		Values: map[string]float64{}, Reached: true}
	for _, payload := range experimentPayloads {
		size := strconv.Itoa(payload)
		tsn, other := runs["tsn "+size], runs[path+" "+size]
		if other == nil {
			continue
		}
		value := float64(percentiles(tsn.MedianOfAlternations.Latency)) / float64(percentiles(other.MedianOfAlternations.Latency))
		figure.Values[size], figure.Reached = value, figure.Reached && value <= limit
	}
	return figure
}

// countFigure counts messages of the tsn network. All counts should be 0.
func countFigure(runs map[string]*results.Run, name string, count func(*results.Run) int) results.Figure {
	figure := results.Figure{Name: name, Unit: results.UnitMessages, Values: map[string]float64{}, Reached: true}
	for _, payload := range experimentPayloads {
		size := strconv.Itoa(payload)
		count := count(runs["tsn "+size])
		figure.Values[size], figure.Reached = float64(count), figure.Reached && count == 0
	}
	return figure
}

// agentUsage returns the cores that the agent of a node uses within some seconds, and its memory.
func agentUsage(ctx context.Context, t *testing.T, host string, seconds int) (cores, mebibytes float64) {
	t.Helper()
	text, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", fmt.Sprintf(`
		pid=$(pgrep -x ktsn-agent); ticks() { awk '{ print $14 + $15 }' /proc/$pid/stat; }
		a=$(ticks); sleep %d; b=$(ticks); echo $((b - a)); awk '/VmRSS/ { print $2 }' /proc/$pid/status`, seconds))
	if err != nil {
		t.Fatal(err)
	}
	var ticks, kilobytes float64
	if _, err := fmt.Sscan(text, &ticks, &kilobytes); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return ticks / 100 / float64(seconds), kilobytes / 1024
}

// restFigures returns the agent's usage at rest.
func restFigures(ctx context.Context, t *testing.T, host string) []results.Figure {
	t.Helper()
	cores, mebibytes := agentUsage(ctx, t, host, 10)
	figure := func(name, unit string, limit, value float64) results.Figure {
		return results.Figure{Name: name, Unit: unit, Limit: limit, Values: map[string]float64{results.Independent: value}, Reached: value <= limit}
	}
	return []results.Figure{
		figure("processor time of the agent at rest", results.UnitCores, 0.02, cores),
		figure("memory of the agent at rest, MiB", "MiB", 64, mebibytes),
	}
}

// readyFigure compares the time until pods are ready with and without network and volume.
func readyFigure(ctx context.Context, t *testing.T, namespace string, onNetwork func(*corev1.Pod) *corev1.Pod) results.Figure {
	t.Helper()
	const pods = 5
	var with, without []time.Duration
	for i := range pods {
		for _, pod := range []*corev1.Pod{
			waiting(fmt.Sprintf("without-%d", i), under.Nodes[0].Name), onNetwork(waiting(fmt.Sprintf("with-%d", i), under.Nodes[0].Name)),
		} {
			began := time.Now()
			start(ctx, t, namespace, pod)
			if took := time.Since(began); strings.HasPrefix(pod.Name, "without") {
				without = append(without, took)
			} else {
				with = append(with, took)
			}
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	more := (with[pods/2] - without[pods/2]).Seconds()
	t.Logf("ready after %v with, %v without (medians of %d)", with[pods/2], without[pods/2], pods)
	return results.Figure{Name: "time until a pod is ready, with less without, s", Unit: "s", Limit: 1,
		Values: map[string]float64{results.Independent: more}, Reached: more <= 1}
}

func writeSummary(t *testing.T, summary *results.Summary, name string) {
	t.Helper()
	writeFigures(t, summary, name)
	for _, figure := range summary.Figures {
		t.Logf("%s: %v, limit %v, reached %v", figure.Name, figure.Values, figure.Limit, figure.Reached)
	}
}

// writeFigures writes figures as JSON into the run's output.
func writeFigures(t *testing.T, figures any, name string) {
	t.Helper()
	dir, err := filepath.Abs("../../../out/e2e")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
