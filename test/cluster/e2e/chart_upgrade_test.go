// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// upgradeMessages is how many messages each node sends during an upgrade.
	upgradeMessages = 10000
	// upgradeCycle is the time between two messages, longer in further attempts.
	upgradeCycle = 2 * time.Millisecond
	// upgradeLead is how long before its time a message is handed over: longer than a talker waits for a processor
	// while pods are replaced, so that gaps are ktsnd's.
	upgradeLead = 100 * time.Millisecond
	// upgradeBefore is how many have left on each node when the upgrade begins.
	upgradeBefore = 500
	// manyUpgrades are enough to judge how long departures pause.
	manyUpgrades = 20
	// pauseLimit is the limit of the pauses' median.
	pauseLimit = 2 * time.Millisecond
)

// upgrades returns how many upgrades to make: one, unless a longer run was requested (`make upgrades`).
func upgrades(t *testing.T) int {
	t.Helper()
	text := os.Getenv("E2E_UPGRADES")
	if text == "" {
		return 1
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		t.Fatalf("E2E_UPGRADES=%s: give a number of upgrades, 1 or more", text)
	}
	return count
}

// pair has pods of two nodes that send to each other.
type pair struct {
	namespace string
	pods      [2]*corev1.Pod
}

func newPair(ctx context.Context, t *testing.T) pair {
	t.Helper()
	p := pair{namespace: newNamespace(ctx, t, restricted)}
	for i := range p.pods {
		p.pods[i] = deploy(ctx, t, p.namespace, timed(waiting(fmt.Sprintf("pod-%d", i), under.Nodes[i].Name)))
	}
	return p
}

// send sends from both at once, and returns what left and arrived, and when it was on the wire. It calls during once
// messages of both have left.
func (p pair) send(ctx context.Context, t *testing.T, id int, cycle time.Duration, during func()) (got [2]exchange, wire [2][]int64) {
	t.Helper()
	taps, err := tapSwitch()
	if err != nil {
		t.Fatal(err)
	}
	var had [2]uint64
	for i, pod := range p.pods {
		had[i] = chartStatus(ctx, t, pod.Spec.NodeName).Counters["sent"]
	}
	var errs [2]error
	var both sync.WaitGroup
	for i, from := range p.pods {
		to := p.pods[1-i]
		address := addressOn(t, to).String()
		both.Go(func() {
			got[i], errs[i] = talkOnce(ctx, from, to, address, id+i,
				[]string{"--count", strconv.Itoa(upgradeMessages), "--cycle", cycle.String(), "--lead", upgradeLead.String()},
				[]string{"--count", strconv.Itoa(upgradeMessages), "--block", "--idle-timeout", "60s"}, nil)
		})
	}
	for i, pod := range p.pods {
		waitSent(ctx, t, pod.Spec.NodeName, had[i]+upgradeBefore)
	}
	during()
	both.Wait()
	for i, pod := range p.pods {
		capture, errTap := taps[pod.Spec.NodeName].Stop()
		if errTap == nil {
			wire[i], errTap = seen(capture, id+i)
		}
		if err := errors.Join(errs[i], errTap); err != nil {
			t.Fatal(err)
		}
	}
	return got, wire
}

// allArrived fails the test unless each message of both arrived exactly once.
func allArrived(t *testing.T, got [2]exchange) {
	t.Helper()
	for _, exchanged := range got {
		accounted(t, exchanged, upgradeMessages, func() uint64 { return 0 })
	}
}

// downgrade replaces the chart by the one of the previous release, if E2E_PREVIOUS is the folder of its files. The nodes have its images.
func downgrade(ctx context.Context, t *testing.T) {
	t.Helper()
	folder := os.Getenv("E2E_PREVIOUS")
	if folder == "" {
		return
	}
	charts, err := filepath.Glob(filepath.Join(folder, "kubernetsn-[0-9]*.tgz"))
	if err != nil || len(charts) != 1 {
		t.Fatalf("E2E_PREVIOUS=%s has the charts %v, %v; want one", folder, charts, err)
	}
	mustHelm(ctx, t, slices.Concat([]string{"upgrade", release, charts[0], "--wait", "--timeout", "3m", "--set", "image.prefix=localhost/kubernetsn"}, clusterValues)...)
}

// upgradedTo returns helm arguments that replace all pods.
func upgradedTo(t *testing.T, mark string, more ...string) []string {
	t.Helper()
	return slices.Concat([]string{"upgrade", release, chartFolder(t), "--set-string", "podAnnotations.upgraded=" + mark}, chartValues, more)
}

var pausedFor = regexp.MustCompile(`took over from another ktsnd; departures paused for (\d+) us`)

// takeover is when a ktsnd took over, by its log, and for how long departures paused, by its clock.
type takeover struct {
	at    time.Time
	pause time.Duration
}

// takeoverOn returns the takeover of the ktsnd that serves a node.
func takeoverOn(ctx context.Context, t *testing.T, host string) takeover {
	t.Helper()
	pod, err := chartPodOn(ctx, ktsndPods, host)
	if err != nil {
		t.Fatal(err)
	}
	log, err := client.CoreV1().Pods(chartSystem).GetLogs(pod.Name, &corev1.PodLogOptions{Container: ktsndPods, Timestamps: true}).DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		match := pausedFor.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		stamp, _, _ := strings.Cut(line, " ")
		at, errStamp := time.Parse(time.RFC3339Nano, stamp)
		us, errPause := strconv.Atoi(match[1])
		if err := errors.Join(errStamp, errPause); err != nil {
			t.Fatal(err)
		}
		return takeover{at, time.Duration(us) * time.Microsecond}
	}
	t.Fatalf("ktsnd on %s has not taken over from another one; it says %s", host, log)
	return takeover{}
}

// ktsnd's log has the time at which containerd read the line.
const (
	logLate  = 250 * time.Millisecond
	logEarly = 10 * time.Millisecond
)

// beforeTakeover is how long before a takeover the gap is measured for comparison, to show the machine's other load.
const beforeTakeover = time.Second

// gapAt returns the longest time without a frame on the wire around a takeover, minus the cycle: the pause, unless the
// machine stopped. CLOCK_TAI of the nodes is UTC.
func gapAt(at time.Time, wire []int64, cycle time.Duration) time.Duration {
	var longest time.Duration
	from, to := at.Add(-logLate).UnixNano(), at.Add(logEarly).UnixNano()
	for i := 1; i < len(wire); i++ {
		if wire[i] >= from && wire[i-1] <= to {
			longest = max(longest, time.Duration(wire[i]-wire[i-1])-cycle)
		}
	}
	return longest
}

// upgradeFigures are the pauses of upgrades.
type upgradeFigures struct {
	Upgrades int `json:"upgrades"`
	Messages int `json:"messages"`
	// PausesNs are of ktsnd's loop, GapsNs on the wire, and GapsBeforeNs on the wire a second before.
	PausesNs     []time.Duration `json:"pauses_ns"`
	GapsNs       []time.Duration `json:"gaps_ns"`
	GapsBeforeNs []time.Duration `json:"gaps_before_ns"`
	TookNs       []time.Duration `json:"took_ns"`
}

// median returns the lower one of two middle values.
func median(durations []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(durations))[(len(durations)-1)/2]
}

func TestUpgradeUnderLoad(t *testing.T) {
	count := upgrades(t)
	needChart(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(2+4*count)*time.Minute)
	t.Cleanup(cancel)
	p := newPair(ctx, t)
	figures := upgradeFigures{Upgrades: count, Messages: 2 * count * upgradeMessages}
	for i := range count {
		patiently(t, func(attempt, times int) string {
			downgrade(ctx, t)
			waitForChart(ctx, t)
			before, err := chartStates(ctx)
			if err != nil {
				t.Fatal(err)
			}
			cycle := upgradeCycle * time.Duration(times)
			var took time.Duration
			got, wire := p.send(ctx, t, 3000+10*i+2*attempt, cycle, func() {
				began := time.Now()
				mark := fmt.Sprintf("%d-%d", i, began.UnixNano())
				if output, err := helm(ctx, t, upgradedTo(t, mark, "--wait", "--timeout", "3m")...); err != nil {
					t.Errorf("%v: %s", err, output)
				}
				took = time.Since(began)
			})
			allArrived(t, got)
			if late := upgradedMeanwhile(ctx, t, before, got); late != "" {
				return late
			}
			for i, host := range under.Nodes {
				taken := takeoverOn(ctx, t, host.Name)
				figures.PausesNs = append(figures.PausesNs, taken.pause)
				figures.GapsNs = append(figures.GapsNs, gapAt(taken.at, wire[i], cycle))
				figures.GapsBeforeNs = append(figures.GapsBeforeNs, gapAt(taken.at.Add(-beforeTakeover), wire[i], cycle))
			}
			figures.TookNs = append(figures.TookNs, took.Round(time.Millisecond))
			return ""
		})
	}
	figures.judge(t)
}

// upgradedMeanwhile fails the test unless all pods are new, and reports if that was after the last message of a node.
func upgradedMeanwhile(ctx context.Context, t *testing.T, before map[string]*chartState, got [2]exchange) (late string) {
	t.Helper()
	for i, exchanged := range got {
		end := time.Unix(0, exchanged.sent[len(exchanged.sent)-1].Txtime)
		if late := disturbed(ctx, t, under.Nodes[i].Name, before, true, true, end); late != "" {
			return late
		}
	}
	return ""
}

// judge logs the pauses, and checks them against the limit if there are enough.
func (f *upgradeFigures) judge(t *testing.T) {
	t.Helper()
	if len(f.PausesNs) == 0 {
		t.Fatal("no ktsnd has taken over from another one")
	}
	t.Logf("%d upgrades, %d messages: departures paused for %v in the median and %v at most; gaps on the wire %v and %v, %v and %v a second before; "+
		"an upgrade took %v and %v", f.Upgrades, f.Messages, median(f.PausesNs), slices.Max(f.PausesNs), median(f.GapsNs), slices.Max(f.GapsNs),
		median(f.GapsBeforeNs), slices.Max(f.GapsBeforeNs), median(f.TookNs), slices.Max(f.TookNs))
	writeFigures(t, f, "upgrades.json")
	if paused := median(f.PausesNs); f.Upgrades >= manyUpgrades && paused > pauseLimit {
		t.Errorf("departures paused for %v in the median, and may for %v", paused, pauseLimit)
	}
}

// A rollback finds one node with a ktsnd of the new chart and one of the old, with E2E_PREVIOUS of two releases.
func TestRollbackDuringUpgrade(t *testing.T) {
	ctx := needChart(t)
	p := newPair(ctx, t)
	patiently(t, func(attempt, times int) string {
		downgrade(ctx, t)
		waitForChart(ctx, t)
		mark := fmt.Sprintf("withdrawn-%d", time.Now().UnixNano())
		var back time.Time
		got, _ := p.send(ctx, t, 4000+2*attempt, upgradeCycle*time.Duration(times), func() {
			mustHelm(ctx, t, upgradedTo(t, mark)...)
			waitHalfUpgraded(ctx, t, mark)
			if output, err := helm(ctx, t, "rollback", release, "--wait", "--timeout", "3m"); err != nil {
				t.Errorf("%v: %s", err, output)
			}
			back = time.Now()
		})
		allArrived(t, got)
		for _, host := range under.Nodes {
			// Helm does not wait for a ktsnd that stood by, and serves again a second after its successor ended.
			await(ctx, t, func(ctx context.Context) error {
				pod, err := chartPodOn(ctx, ktsndPods, host.Name)
				if err == nil && pod.Annotations["upgraded"] == mark {
					err = fmt.Errorf("%s of the upgrade serves %s after the rollback", pod.Name, host.Name)
				}
				return err
			})
		}
		if end := time.Unix(0, got[0].sent[upgradeMessages-1].Txtime); back.After(end) {
			return fmt.Sprintf("the rollback ended at %v, and the last message left at %v", back, end)
		}
		return ""
	})
}

// waitHalfUpgraded waits until the first node has a serving ktsnd of the upgrade.
func waitHalfUpgraded(ctx context.Context, t *testing.T, mark string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		for _, host := range under.Nodes {
			if pod, err := chartPodOn(ctx, ktsndPods, host.Name); err == nil && pod.Annotations["upgraded"] == mark {
				return nil
			}
		}
		return fmt.Errorf("no node has a ktsnd of the upgrade yet")
	})
}
