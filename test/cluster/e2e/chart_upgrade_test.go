// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

const (
	// upgradeMessages is how many messages each node sends during an upgrade.
	upgradeMessages = 10000
	// upgradeCycle is the time between two of them, longer in further attempts.
	upgradeCycle = 2 * time.Millisecond
	// upgradeBefore is how many have left on each node when the upgrade begins.
	upgradeBefore = 500
	// manyUpgrades are as many as say how long departures pause.
	manyUpgrades = 20
	// pauseLimit is for the median of these.
	pauseLimit = 2 * time.Millisecond
)

// upgrades is how many upgrades are made; one, unless a longer run was asked for (`make upgrades`).
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

// pair are pods of two nodes that send to each other.
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

// send has both send at once, and returns what left and arrived; during is done when messages of both have left.
func (p pair) send(ctx context.Context, t *testing.T, id int, cycle time.Duration, during func()) [2]exchange {
	t.Helper()
	var had [2]uint64
	for i, pod := range p.pods {
		had[i] = chartStatus(ctx, t, pod.Spec.NodeName).Counters["sent"]
	}
	var got [2]exchange
	var errs [2]error
	var both sync.WaitGroup
	for i, from := range p.pods {
		to := p.pods[1-i]
		address := addressOn(t, to).String()
		both.Go(func() {
			got[i], errs[i] = talkOnce(ctx, from, to, address, id+i,
				[]string{"--count", strconv.Itoa(upgradeMessages), "--cycle", cycle.String(), "--lead", "5ms"},
				[]string{"--count", strconv.Itoa(upgradeMessages), "--block", "--idle-timeout", "60s"}, nil)
		})
	}
	for i, pod := range p.pods {
		waitSent(ctx, t, pod.Spec.NodeName, had[i]+upgradeBefore)
	}
	during()
	both.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// allArrived fails the test unless each message of both arrived, and once.
func allArrived(t *testing.T, got [2]exchange) {
	t.Helper()
	for _, one := range got {
		accounted(t, one, upgradeMessages, func() uint64 { return 0 })
	}
}

// upgradedTo are arguments of helm by which all pods are replaced.
func upgradedTo(t *testing.T, mark string, more ...string) []string {
	t.Helper()
	return slices.Concat([]string{"upgrade", release, chartFolder(t), "--set-string", "podAnnotations.upgraded=" + mark}, chartValues, more)
}

var pausedFor = regexp.MustCompile(`took over from another ktsnd; departures paused for (\d+) us`)

// pauses are for how long departures paused on each node when its ktsnd came.
func pauses(ctx context.Context, t *testing.T) []time.Duration {
	t.Helper()
	var all []time.Duration
	for _, host := range under.Nodes {
		pod, err := chartPodOn(ctx, ktsndPods, host.Name)
		if err != nil {
			t.Fatal(err)
		}
		said, err := logs(ctx, pod, "ktsnd")
		if err != nil {
			t.Fatal(err)
		}
		found := pausedFor.FindStringSubmatch(said)
		if found == nil {
			t.Errorf("ktsnd on %s has not taken over from another one; it says %s", host.Name, said)
			continue
		}
		us, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, time.Duration(us)*time.Microsecond)
	}
	return all
}

// longestWait is the longest time between two arrivals, less the cycle: what a listener sees of a pause, of the network, and of a
// machine that stops.
func longestWait(got [2]exchange, cycle time.Duration) time.Duration {
	var longest time.Duration
	for _, one := range got {
		for i := 1; i < len(one.received); i++ {
			longest = max(longest, time.Duration(one.received[i].Arrival-one.received[i-1].Arrival)-cycle)
		}
	}
	return longest
}

// upgradeFigures are what upgrades cost.
type upgradeFigures struct {
	Upgrades         int             `json:"upgrades"`
	Messages         int             `json:"messages"`
	PausesNs         []time.Duration `json:"pauses_ns"`
	PauseMedianNs    time.Duration   `json:"pause_median_ns"`
	PauseMaxNs       time.Duration   `json:"pause_max_ns"`
	LongestWaitsNs   []time.Duration `json:"longest_waits_ns"`
	LongestWaitMaxNs time.Duration   `json:"longest_wait_max_ns"`
	UpgradeTookNs    []time.Duration `json:"upgrade_took_ns"`
}

func TestUpgradesUnderLoadLoseNoMessage(t *testing.T) {
	count := upgrades(t)
	needChart(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(2+2*count)*time.Minute)
	t.Cleanup(cancel)
	p := newPair(ctx, t)
	figures := upgradeFigures{Upgrades: count, Messages: 2 * count * upgradeMessages}
	for i := range count {
		patiently(t, func(attempt, times int) string {
			waitForChart(ctx, t)
			before, err := chartStates(ctx)
			if err != nil {
				t.Fatal(err)
			}
			cycle := upgradeCycle * time.Duration(times)
			var took time.Duration
			got := p.send(ctx, t, 3000+10*i+2*attempt, cycle, func() {
				began := time.Now()
				mark := fmt.Sprintf("%d-%d", i, began.UnixNano())
				if said, err := helm(ctx, t, upgradedTo(t, mark, "--wait", "--timeout", "3m")...); err != nil {
					t.Errorf("%v: %s", err, said)
				}
				took = time.Since(began)
			})
			allArrived(t, got)
			if late := upgradedMeanwhile(ctx, t, before, got); late != "" {
				return late
			}
			figures.PausesNs = append(figures.PausesNs, pauses(ctx, t)...)
			figures.LongestWaitsNs = append(figures.LongestWaitsNs, longestWait(got, cycle))
			figures.UpgradeTookNs = append(figures.UpgradeTookNs, took.Round(time.Millisecond))
			return ""
		})
	}
	figures.judge(t)
}

// upgradedMeanwhile fails the test unless all pods are others, and says so where that was after the last message of a node.
func upgradedMeanwhile(ctx context.Context, t *testing.T, before map[string]*chartState, got [2]exchange) (late string) {
	t.Helper()
	for i, one := range got {
		end := time.Unix(0, one.sent[len(one.sent)-1].Txtime)
		if late := disturbed(ctx, t, under.Nodes[i].Name, before, true, true, end); late != "" {
			return late
		}
	}
	return ""
}

// judge says what the upgrades cost, and holds them against the limit where there are enough of them.
func (f *upgradeFigures) judge(t *testing.T) {
	t.Helper()
	if len(f.PausesNs) == 0 {
		t.Fatal("no ktsnd has taken over from another one")
	}
	sorted := slices.Sorted(slices.Values(f.PausesNs))
	f.PauseMedianNs, f.PauseMaxNs = sorted[(len(sorted)-1)/2], sorted[len(sorted)-1]
	f.LongestWaitMaxNs = slices.Max(f.LongestWaitsNs)
	t.Logf("%d upgrades, %d messages: departures paused for %v in the median and %v at most; the longest wait of a listener was %v; upgrades took %v",
		f.Upgrades, f.Messages, f.PauseMedianNs, f.PauseMaxNs, f.LongestWaitMaxNs, f.UpgradeTookNs)
	writeFigures(t, f, "upgrades.json")
	if f.Upgrades >= manyUpgrades && f.PauseMedianNs > pauseLimit {
		t.Errorf("departures paused for %v in the median, and may for %v", f.PauseMedianNs, pauseLimit)
	}
}

// A rollback finds one node with a ktsnd of the new chart and one of the old.
func TestARollbackInTheMiddleOfAnUpgradeLosesNoMessage(t *testing.T) {
	ctx := needChart(t)
	p := newPair(ctx, t)
	patiently(t, func(attempt, times int) string {
		waitForChart(ctx, t)
		mark := fmt.Sprintf("withdrawn-%d", time.Now().UnixNano())
		var back time.Time
		got := p.send(ctx, t, 4000+2*attempt, upgradeCycle*time.Duration(times), func() {
			if said, err := helm(ctx, t, upgradedTo(t, mark)...); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			waitHalfUpgraded(ctx, t, mark)
			if said, err := helm(ctx, t, "rollback", release, "--wait", "--timeout", "3m"); err != nil {
				t.Errorf("%v: %s", err, said)
			}
			back = time.Now()
		})
		allArrived(t, got)
		for _, host := range under.Nodes {
			pod, err := chartPodOn(ctx, ktsndPods, host.Name)
			if err != nil || pod.Annotations["upgraded"] == mark {
				t.Errorf("after the rollback %s has a pod of the upgrade, or none: %v", host.Name, err)
			}
		}
		if end := time.Unix(0, got[0].sent[upgradeMessages-1].Txtime); back.After(end) {
			return fmt.Sprintf("the rollback ended at %v, and the last message left at %v", back, end)
		}
		return ""
	})
}

// waitHalfUpgraded waits until the first node has a ktsnd of the upgrade that serves.
func waitHalfUpgraded(ctx context.Context, t *testing.T, mark string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		for _, host := range under.Nodes {
			if pod, err := chartPodOn(ctx, ktsndPods, host.Name); err == nil && pod.Annotations["upgraded"] == mark {
				return nil
			}
		}
		return fmt.Errorf("no node has a ktsnd of the upgrade yet")
	})
	if err != nil {
		t.Fatal(err)
	}
}
