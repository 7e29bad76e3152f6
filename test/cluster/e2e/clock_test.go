// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// clockNetworks differ in the treatment of messages while the clock is lost. Software timestamps on a busy machine are
// wrong by milliseconds; the test only needs to detect whether the clock is synchronised.
const clockNetworks = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: held}
spec: {vni: 52, ipv4: {cidr: 10.52.0.0/16}, clock: {maxError: 500ms, holdover: 16s, onLoss: Hold}, limits: {horizon: 60s}}
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: refused}
spec: {vni: 53, ipv4: {cidr: 10.53.0.0/16}, clock: {maxError: 500ms, holdover: 16s, onLoss: Refuse}}
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: carried}
spec: {vni: 54, ipv4: {cidr: 10.54.0.0/16}, clock: {maxError: 500ms, holdover: 16s}}
`

var clockNetworkNames = []string{"held", "refused", "carried"}

// allClockNetworks is the annotation of pods on all of them.
const allClockNetworks = "held,refused,carried"

// freeRunning makes the chart run ptp4l between the nodes, one as master and one as slave. They share this machine's
// clock, which must not be set: ptp4l only measures, and announces no TAI offset, which would have to be set in the
// kernel.
func freeRunning() []string {
	return []string{"--set", "clock.mode=ptp,clock.ptp.freeRunning=true,clock.ptp.timeStamping=software,clock.ptp.utcOffset=0", "--set-json", fmt.Sprintf(
		`clock.ptp.interfaces=[{"name":"serves","nodeSelector":{%[1]q:%[2]q},"interface":"eth0","role":"grandmaster"},`+
			`{"name":"follows","nodeSelector":{%[1]q:%[3]q},"interface":"eth0","role":"receiver"}]`,
		corev1.LabelHostname, under.Nodes[0].Name, under.Nodes[1].Name)}
}

// kernelClock returns what must not change: whether this machine's clock is synchronised, and its frequency.
func kernelClock(t *testing.T) (kept bool, frequency int64) {
	t.Helper()
	var now unix.Timex // without modes it is only read
	if _, err := unix.Adjtimex(&now); err != nil {
		t.Fatal(err)
	}
	return now.Status&unix.STA_UNSYNC == 0, now.Freq
}

// TestClocks is one test, because the chart is installed once, and the order matters:
// nothing synchronises the clocks, ptp4l does, one node loses its master and finds it again, uninstallation.
func TestClocks(t *testing.T) {
	needTwoNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	uninstall := withOperator(ctx, t)
	keptBefore, frequencyBefore := kernelClock(t)
	applyText(ctx, t, clockNetworks)
	namespace := newNamespace(ctx, t, restricted)
	for i, name := range []string{"listener", "talker"} {
		create(ctx, t, namespace, annotated(waiting(name, under.Nodes[i].Name), allClockNetworks))
	}
	t.Run("external, and nobody keeps the clocks", func(t *testing.T) { nobodyKeepsClocks(ctx, t, namespace) })
	upgradeChart(ctx, t, slices.Concat(operatorValues, freeRunning())...)
	talker, listener := &corev1.Pod{}, &corev1.Pod{}
	t.Run("ptp, and pods start", func(t *testing.T) { talker, listener = clocksBecomeGood(ctx, t, namespace) })
	if t.Failed() {
		return
	}
	t.Run("ktsn bench writes the error of both clocks", func(t *testing.T) { benchBetweenTwoClocks(ctx, t) })
	t.Run("ptp4l is killed, and comes again", func(t *testing.T) { ptp4lIsKilled(ctx, t) })
	lossOfAClock(ctx, t, namespace, talker, listener)
	if kept, frequency := kernelClock(t); kept != keptBefore || !kept && frequency != frequencyBefore {
		t.Errorf("somebody has set the clock of this machine: kept %v, before %v; frequency %d, before %d", kept, keptBefore, frequency, frequencyBefore)
	}
	t.Run("uninstall leaves nothing", func(t *testing.T) {
		deleteNamespace(t, namespace)
		uninstall(t)
		for _, host := range under.Nodes {
			if lost := lostTo(ctx, t, host.Name); len(lost) > 0 {
				t.Errorf("%s is still labelled as lost to %v", host.Name, lost)
			}
		}
	})
}

// nobodyKeepsClocks expects pods to wait, unless this machine's clock is synchronised.
func nobodyKeepsClocks(ctx context.Context, t *testing.T, namespace string) {
	if kept, _ := kernelClock(t); kept {
		t.Skip("somebody keeps the clock of this machine, and the agents see that")
	}
	for _, name := range clockNetworkNames {
		says(ctx, t, name, v1alpha1.ConditionClockSynchronized, v1alpha1.ReasonClockUnknown, "node "+under.Nodes[1].Name+": ")
	}
	waitsForAClock(ctx, t, namespace, "talker")
	for _, host := range under.Nodes {
		awaitLost(ctx, t, host.Name, clockNetworkNames)
	}
	// Both pods were scheduled before the clocks were checked; a later one is not.
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, annotated(waiting("later", ""), "held"), createOptions); err != nil {
		t.Fatal(err)
	}
	hasUnplaced(ctx, t, namespace, "later")
}

// clocksBecomeGood waits for the pods that waited.
func clocksBecomeGood(ctx context.Context, t *testing.T, namespace string) (talker, listener *corev1.Pod) {
	began := time.Now()
	masters := map[string]bool{}
	for _, host := range under.Nodes {
		clock := awaitClock(ctx, t, host.Name, "Synchronized")
		masters[clock.Grandmaster] = true
		if clock.Source != "PTP" || clock.ErrorBoundNanoseconds == nil {
			t.Errorf("%s has %+v", host.Name, clock)
		}
		awaitLost(ctx, t, host.Name, nil)
	}
	if len(masters) != 1 || masters[""] {
		t.Errorf("the nodes follow %v, and one of them serves", masters)
	}
	t.Logf("both clocks are believed %v after the upgrade", time.Since(began).Round(100*time.Millisecond))
	for _, name := range clockNetworkNames {
		says(ctx, t, name, v1alpha1.ConditionClockSynchronized, v1alpha1.ReasonAsAsked, "")
	}
	talker, listener = waitReady(ctx, t, namespace, "talker"), waitReady(ctx, t, namespace, "listener")
	if kept, _ := kernelClock(t); !kept {
		waitReady(ctx, t, namespace, "later")
	}
	for i, name := range clockNetworkNames {
		got := talk(ctx, t, talker, listener, clockAddress(t, listener, i), 1200+i, []string{"--count", "100", "--lead", "5ms"},
			[]string{"--count", "100", "--block", "--idle-timeout", "30s"}, nil)
		accounted(t, got, 100, func() uint64 { return 0 })
		if t.Failed() {
			t.Errorf("that was on network %s", name)
		}
	}
	return talker, listener
}

// benchBetweenTwoClocks makes one node look like another machine, until its kubelet reports the machine again.
func benchBetweenTwoClocks(ctx context.Context, t *testing.T) {
	t.Cleanup(func() { deleteNamespace(t, benchNamespace) })
	profile, out := filepath.Join(t.TempDir(), "bench.yaml"), filepath.Join(t.TempDir(), "bench")
	if err := os.WriteFile(profile, []byte("paths: [tsn]\nmessages: 100\nrepetitions: 1\nwarm-up: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := client.CoreV1().Nodes().Patch(ctx, under.Nodes[1].Name, types.MergePatchType, []byte(`{"status":{"nodeInfo":{"bootID":"another"}}}`),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	// On such a machine, the error of software timestamps is as large as the latency.
	output, err := ktsn(ctx, t, "bench", "run", profile, "--namespace", benchNamespace, "--network", "carried", "--out", out, "--quiet", "--any-clock")
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	summary := results.ReadSummary(t, out)
	if len(summary.Runs) != 1 || !strings.Contains(summary.Clock.About, "The clock of node "+under.Nodes[1].Name+" may be wrong by ") {
		t.Fatalf("%d runs, clock %+v", len(summary.Runs), summary.Clock)
	}
	clockError := summary.Runs[0].ClockError
	if clockError == nil || clockError.SameClock || clockError.Combined == nil || *clockError.Listener <= 0 || *clockError.Combined != *clockError.Talker+*clockError.Listener || clockError.AnyClock != (clockError.Doubt != "") {
		t.Errorf("the error of the clocks is %+v: %s", clockError, output)
	}
	t.Logf("a latency of %d ns by clocks that may be wrong by %d ns", summary.Runs[0].Latency.P50, *clockError.Combined)
}

// ptp4lIsKilled expects ptp4l to restart within the time for which a clock without it is trusted, or soon after.
func ptp4lIsKilled(ctx context.Context, t *testing.T) {
	host := under.Nodes[1].Name
	killOn(ctx, t, host, "ptp4l")
	// An agent that has not seen the master for that long reports it.
	const seen = 6 * time.Second
	await(ctx, t, func(ctx context.Context) error {
		pod, err := chartPodOn(ctx, "clock", host)
		if err != nil {
			return err
		}
		container := pod.Status.ContainerStatuses[0]
		if container.RestartCount == 0 || container.State.Running == nil || time.Since(container.State.Running.StartedAt.Time) < seen {
			return fmt.Errorf("the container with ptp4l was started %d times again: %+v", container.RestartCount, container.State)
		}
		return nil
	})
	awaitClock(ctx, t, host, "Synchronized")
	awaitLost(ctx, t, host, nil)
}

// lossOfAClock cuts one node off its master.
func lossOfAClock(ctx context.Context, t *testing.T, namespace string, talker, listener *corev1.Pod) {
	host := under.Nodes[1].Name
	began := time.Now()
	cut(ctx, t, host)
	t.Run("a clock without its master is believed for a while", func(t *testing.T) {
		awaitClock(ctx, t, host, "Holdover")
		says(ctx, t, "held", v1alpha1.ConditionClockSynchronized, v1alpha1.ReasonClockHoldover, "node "+host+": ")
		awaitLost(ctx, t, host, nil)
	})
	t.Run("then it is lost, and takes no new pods", func(t *testing.T) {
		clock := awaitClock(ctx, t, host, "Unsynchronized")
		awaitLost(ctx, t, host, clockNetworkNames)
		// As the agent noted the change; the label follows within two seconds where the machine has time.
		t.Logf("lost %v after the cut, labelled %v later", clock.History[0].Time.Sub(began).Round(100*time.Millisecond),
			time.Since(clock.History[0].Time.Time).Round(10*time.Millisecond))
		says(ctx, t, "held", v1alpha1.ConditionClockSynchronized, v1alpha1.ReasonClockUnsynchronized, "node "+host+": ")
		if clock := clockNow(ctx, t, under.Nodes[0].Name); clock.State != "Synchronized" {
			t.Errorf("the clock of the node that serves is %+v", clock)
		}
		placed := annotated(waiting("placed", ""), "held")
		placed.Spec.NodeName = host
		for _, pod := range []*corev1.Pod{placed, annotated(waiting("unplaced", host), "held")} {
			if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, createOptions); err != nil {
				t.Fatal(err)
			}
		}
		waitsForAClock(ctx, t, namespace, "placed")
		hasUnplaced(ctx, t, namespace, "unplaced")
		elsewhere := start(ctx, t, namespace, annotated(waiting("elsewhere", ""), "held"))[0]
		if elsewhere.Spec.NodeName == host {
			t.Errorf("pod elsewhere was placed on %s", host)
		}
	})
	t.Run("Refuse", func(t *testing.T) { refusedWhileLost(ctx, t, talker, listener) })
	t.Run("Continue", func(t *testing.T) { carriedWhileLost(ctx, t, talker, listener) })
	t.Run("ktsn shows it", func(t *testing.T) { ktsnShowsTheLoss(ctx, t, host) })
	t.Run("Hold, until the clock is found again", func(t *testing.T) { heldWhileLost(ctx, t, host, talker, listener) })
	t.Run("the clock is believed again, and pods start", func(t *testing.T) {
		awaitClock(ctx, t, host, "Synchronized")
		awaitLost(ctx, t, host, nil)
		waitReady(ctx, t, namespace, "placed")
		waitReady(ctx, t, namespace, "unplaced")
		for _, name := range clockNetworkNames {
			says(ctx, t, name, v1alpha1.ConditionClockSynchronized, v1alpha1.ReasonAsAsked, "")
		}
		got := talk(ctx, t, talker, listener, clockAddress(t, listener, 1), 1230, []string{"--count", "50", "--lead", "5ms"},
			[]string{"--count", "50", "--block", "--idle-timeout", "30s"}, nil)
		accounted(t, got, 50, func() uint64 { return 0 })
	})
}

// refusedWhileLost expects each timed send to fail.
func refusedWhileLost(ctx context.Context, t *testing.T, talker, listener *corev1.Pod) {
	sent, complaint, err := talkRefused(ctx, talker, clockAddress(t, listener, 1))
	if count := errnos(sent)[syscall.ENETDOWN]; count != 20 {
		t.Errorf("%d of 20 sends fail with ENETDOWN: %v; %v, %s", count, errnos(sent), err, complaint)
	}
}

// talkRefused sends messages without a listener.
func talkRefused(ctx context.Context, talker *corev1.Pod, address string) (sent []tsnperf.Sent, complaint string, err error) {
	output, complaint, err := run(ctx, talker, "tsnperf", "/usr/bin/tsnperf", "talker", "--to", netip.AddrPortFrom(netip.MustParseAddr(address), 7799).String(),
		"--count", "20", "--cycle", "10ms", "--lead", "5ms", "--csv", "/dev/stdout", "--quiet")
	sent, errRead := tsnperf.ReadTalker(strings.NewReader(output))
	if len(sent) > 0 { // that some sends fail is what may be wanted
		err = nil
	}
	return sent, complaint, errors.Join(err, errRead)
}

// errnos counts the results of sends.
func errnos(sent []tsnperf.Sent) map[syscall.Errno]int {
	counts := map[syscall.Errno]int{}
	for _, message := range sent {
		counts[syscall.Errno(message.Errno)]++
	}
	return counts
}

// carriedWhileLost expects messages to leave, and to be counted.
func carriedWhileLost(ctx context.Context, t *testing.T, talker, listener *corev1.Pod) {
	before := chartStatus(ctx, t, talker.Spec.NodeName).Counters["clock-lost"]
	got := talk(ctx, t, talker, listener, clockAddress(t, listener, 2), 1210, []string{"--count", "100", "--lead", "5ms"},
		[]string{"--count", "100", "--block", "--idle-timeout", "30s"}, nil)
	accounted(t, got, 100, func() uint64 { return 0 })
	if now := chartStatus(ctx, t, talker.Spec.NodeName).Counters["clock-lost"]; now-before != 100 {
		t.Errorf("ktsnd counts %d messages that left by a clock that was lost, want 100", now-before)
	}
}

// heldWhileLost expects messages to wait, and to leave once the node has its master again.
func heldWhileLost(ctx context.Context, t *testing.T, host string, talker, listener *corev1.Pod) {
	const count = 150 // in 15 s, so that the talker is still there when they leave
	before := chartStatus(ctx, t, host).Counters
	var delayed int64
	got := talk(ctx, t, talker, listener, clockAddress(t, listener, 0), 1220, []string{"--count", strconv.Itoa(count), "--cycle", "100ms", "--lead", "5ms"},
		[]string{"--count", strconv.Itoa(count), "--block", "--first-timeout", "90s", "--idle-timeout", "60s"}, func() {
			time.Sleep(4 * time.Second) // messages are due all the time
			if now := chartStatus(ctx, t, host).Counters; now["sent"] != before["sent"] {
				t.Errorf("%d messages have left while the clock was lost", now["sent"]-before["sent"])
			}
			delayed = now(t, unix.CLOCK_TAI)
			mend(ctx, t, host)
		})
	accounted(t, got, count, func() uint64 { return 0 })
	if len(got.received) == 0 {
		t.Fatal("nothing has arrived")
	}
	first := slices.MinFunc(got.received, func(a, b tsnperf.Received) int { return int(a.Arrival - b.Arrival) })
	held := time.Duration(first.Arrival - first.Txtime)
	since := time.Duration(first.Arrival - delayed)
	if since < 0 || held < time.Second {
		t.Errorf("the first message has arrived %v after its time, and %v after the node could have its master again", held, since)
	}
	if late := chartStatus(ctx, t, host).Counters["late-clock"]; late <= before["late-clock"] {
		t.Errorf("ktsnd counts %d messages that were held, before %d", late, before["late-clock"])
	}
	t.Logf("the first message was held for %v, and left %v after the master was there again", held.Round(time.Millisecond),
		since.Round(time.Millisecond))
}

// now reads a clock of this machine.
func now(t *testing.T, clock int32) int64 {
	t.Helper()
	var read unix.Timespec
	if err := unix.ClockGettime(clock, &read); err != nil {
		t.Fatal(err)
	}
	return read.Nano()
}

// ktsnShowsTheLoss runs ktsn on a cluster in which one node has lost its clock.
func ktsnShowsTheLoss(ctx context.Context, t *testing.T, host string) {
	for _, look := range []struct {
		line string
		says []string
	}{
		{"clock", []string{host, "Unsynchronized", "Synchronized", "held", "-> " + host + ": "}},
		{"clock " + host, []string{"Unsynchronized", "Holdover", "Hold", "Refuse", "Continue", "500ms"}},
		{"clock -o json", []string{host, "Unsynchronized"}},
		{"status --cluster", []string{"network held", "node " + host}},
	} {
		output, err := ktsn(ctx, t, strings.Fields(look.line)...)
		if err != nil {
			t.Errorf("ktsn %s: %v, %s", look.line, err, output)
		}
		for _, want := range look.says {
			if !strings.Contains(output, want) {
				t.Errorf("ktsn %s says %s, want %q in it", look.line, output, want)
			}
		}
	}
	if output, _ := ktsn(ctx, t, "doctor", "--node", host); !strings.Contains(strings.ToLower(output), "clock") {
		t.Errorf("ktsn doctor --node %s says nothing of the clock: %s", host, output)
	}
}

// cut drops all PTP messages of a node.
func cut(ctx context.Context, t *testing.T, host string) {
	t.Helper()
	t.Cleanup(func() { mend(context.WithoutCancel(ctx), t, host) })
	onNode(ctx, t, host, "nft", `add table inet e2e_clock; add chain inet e2e_clock in { type filter hook input priority 0; }; `+
		`add rule inet e2e_clock in udp dport { 319, 320 } drop`)
}

// mend undoes cut.
func mend(ctx context.Context, t *testing.T, host string) {
	t.Helper()
	if _, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", "! nft list table inet e2e_clock >/dev/null 2>&1 || nft delete table inet e2e_clock"); err != nil {
		t.Error(err)
	}
}

// clockAddress returns a pod's address on one of its networks, in the order of its annotation.
func clockAddress(t *testing.T, pod *corev1.Pod, network int) string {
	t.Helper()
	return attachmentOf(t, pod, fmt.Sprintf("tsn%d", network)).IPs[0].String()
}

func nodeState(ctx context.Context, host string) (*v1alpha1.TSNNode, error) {
	return kube.Get[v1alpha1.TSNNode](ctx, dynamicClient, "tsnnodes", "", host)
}

// clockNow returns a node's clock status.
func clockNow(ctx context.Context, t *testing.T, host string) v1alpha1.NodeClock {
	t.Helper()
	state, err := nodeState(ctx, host)
	if err != nil {
		t.Fatal(err)
	}
	if state.Status.Clock == nil {
		return v1alpha1.NodeClock{}
	}
	return *state.Status.Clock
}

// awaitClock waits until a node reports a state of its clock, for itself and for each network.
func awaitClock(ctx context.Context, t *testing.T, host, want string) v1alpha1.NodeClock {
	t.Helper()
	var clock v1alpha1.NodeClock
	await(ctx, t, func(ctx context.Context) error {
		state, err := nodeState(ctx, host)
		if err != nil {
			return err
		}
		reported := state.Status.Clock
		if reported == nil || reported.State != want {
			return fmt.Errorf("the clock of %s is %+v, want %s", host, reported, want)
		}
		clock = *reported
		good := want == "Synchronized" || want == "Holdover"
		for _, name := range clockNetworkNames {
			at := slices.IndexFunc(state.Status.Networks, func(s v1alpha1.NodeNetworkStatus) bool { return s.Name == name })
			if at < 0 {
				return fmt.Errorf("%s says nothing of network %s", host, name)
			}
			if condition := meta.FindStatusCondition(state.Status.Networks[at].Conditions, v1alpha1.ConditionClockSynchronized); condition == nil ||
				(condition.Status == metav1.ConditionTrue) != good {
				return fmt.Errorf("%s says of network %s %+v, and its clock is %s", host, name, condition, want)
			}
		}
		return nil
	})
	return clock
}

// lostTo returns the networks for which a node is labelled as lost.
func lostTo(ctx context.Context, t *testing.T, host string) []string {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var lost []string
	for label, value := range node.Labels {
		if name, ok := strings.CutPrefix(label, v1alpha1.ClockLabelPrefix); ok && value == v1alpha1.ClockLost {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	return lost
}

// awaitLost waits until a node is labelled as lost for exactly these networks.
func awaitLost(ctx context.Context, t *testing.T, host string, networks []string) {
	t.Helper()
	want := slices.Sorted(slices.Values(networks))
	await(ctx, t, func(ctx context.Context) error {
		if lost := lostTo(ctx, t, host); !slices.Equal(lost, want) {
			return fmt.Errorf("%s is labelled as lost to %v, want %v", host, lost, want)
		}
		return nil
	})
}

// waitsForAClock waits for kubelet's Event that tsn-cni keeps a pod waiting for its node's clock.
func waitsForAClock(ctx context.Context, t *testing.T, namespace, name string) {
	t.Helper()
	awaitEvent(ctx, t, namespace, name, "FailedCreatePodSandBox", "the node's clock is not good enough for the network")
}

// hasUnplaced waits for the scheduler's Event that no node fits a pod.
func hasUnplaced(ctx context.Context, t *testing.T, namespace, name string) {
	t.Helper()
	awaitEvent(ctx, t, namespace, name, "FailedScheduling", "node affinity")
}

func awaitEvent(ctx context.Context, t *testing.T, namespace, name, reason, sentence string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=" + reason})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, sentence) {
				t.Logf("%s of pod %s: %s", reason, name, event.Message)
				return nil
			}
		}
		return fmt.Errorf("no Event %s of pod %s says %q; there are %s", reason, name, sentence, lastEvents(ctx, namespace, name))
	})
}
