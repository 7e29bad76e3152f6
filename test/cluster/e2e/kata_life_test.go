// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// machinesLeaveNothing removes pods, after a check that their leftovers would be seen.
func machinesLeaveNothing(ctx context.Context, t *testing.T, machines []*corev1.Pod, before map[string]map[string]bool) {
	isSeen(ctx, t, before, len(machines))
	host := machines[0].Spec.NodeName
	now := inventories(ctx, t)[host]
	for thing, most := range map[string]int{"machine ": 2, "clock of machine ": 2, "/run/kata/": 2, "/run/kata-containers/shared/sandboxes/": 2, danFolder + "/": 1} {
		seen := 0
		for left := range now {
			if strings.HasPrefix(left, thing) && !before[host][left] {
				seen++
			}
		}
		if seen != most {
			t.Errorf("of %d machines, %d things are seen that begin with %q, want %d", len(machines), seen, thing, most)
		}
	}
	// First kill the runtime of the pod with a device file, named after its sandbox: then its machine ends as well. The
	// other one ends in order.
	killed := onNode(ctx, t, host, "sh", "-c", "id=$(basename "+danFolder+"/*.json .json) && pid=$(pgrep -o -f \"containerd-shim-ktsnkat[a].* -id $id\") && "+
		"kill -KILL $pid && echo $pid of $id")
	t.Logf("killed is the runtime %s, of handler %s", strings.TrimSpace(killed), kataDAN)
	for _, machine := range machines {
		if err := client.CoreV1().Pods(machine.Namespace).Delete(ctx, machine.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	leavesNothing(ctx, t, before)
}

// machineStart is the time until a pod with a machine runs, and its part that is the boot, which varies most.
type machineStart struct{ whole, boot time.Duration }

// medianStart returns the medians of the whole time and of the time without the boot.
func medianStart(starts []machineStart) machineStart {
	var whole, noBoot []time.Duration
	for _, start := range starts {
		whole, noBoot = append(whole, start.whole), append(noBoot, start.whole-start.boot)
	}
	return machineStart{whole: median(whole), boot: median(whole) - median(noBoot)}
}

// minus returns how much longer a start took than another, with and without the boots.
func (s machineStart) minus(other machineStart) (whole, noBoot time.Duration) {
	return s.whole - other.whole, (s.whole - s.boot) - (other.whole - other.boot)
}

// kataStarts compares how long pods with a machine take to start with and without the network, one of each at a time,
// on one node each. The pods with the network alternate between the handlers, so the lower of two counts.
func kataStarts(ctx context.Context, t *testing.T, namespace string) {
	const rounds, limit = 4, 5 * time.Second // generous: the processors are shared, and the machine is emulated
	handlers := []string{kataVeth, kataDAN}
	with, without := map[string][]machineStart{}, []machineStart{}
	for round := range rounds {
		hosts := []string{under.Nodes[round/2%2].Name, under.Nodes[(round/2+1)%2].Name}
		handler := handlers[round%2]
		plain := plainKata(fmt.Sprintf("without-%d", round), hosts[0], handler)
		connected := annotated(plainKata(fmt.Sprintf("with-%d", round), hosts[1], handler), kataNetwork)
		took := startsOf(ctx, t, namespace, plain, connected)
		without, with[handler] = append(without, took[0]), append(with[handler], took[1])
	}
	for _, handler := range handlers {
		more, moreNoBoot := medianStart(with[handler]).minus(medianStart(without))
		t.Logf("a pod of handler %s starts in %v with the network, %v more than without; without the boot %v more (medians of %d and %d): %v; %v",
			handler, medianStart(with[handler]).whole, more, moreNoBoot, len(with[handler]), rounds, with[handler], without)
		if moreNoBoot > limit {
			t.Errorf("the network adds %v to the start of a pod of handler %s, and may add %v here", moreNoBoot, handler, limit)
		}
	}
}

// startsOf creates pods, and returns for each how long the API server took to admit it, and how long the node took from
// there until its container ran, by the runtime's log: kubelet only reports once a second. It removes the pods.
func startsOf(ctx context.Context, t *testing.T, namespace string, pods ...*corev1.Pod) (took []machineStart) {
	t.Helper()
	var admitted []time.Duration
	for _, pod := range pods {
		began := time.Now()
		create(ctx, t, namespace, pod)
		admitted = append(admitted, time.Since(began))
	}
	for i, pod := range pods {
		ready := waitReady(ctx, t, namespace, pod.Name)
		host, sandbox := ready.Spec.NodeName, "RunPodSandbox for &PodSandboxMetadata{Name:"+pod.Name+",Uid:"+string(ready.UID)
		container := strings.TrimPrefix(ready.Status.ContainerStatuses[0].ContainerID, "containerd://")
		_, returned := logged(t, host, sandbox, `returns sandbox id \"`)
		_, id, _ := strings.Cut(returned, `returns sandbox id \"`)
		began, _ := logged(t, host, sandbox)
		running, _ := logged(t, host, `StartContainer for \"`+container+`\" returns successfully`)
		_, there := logged(t, host, "the machine is there", id[:12])
		_, text, _ := strings.Cut(there, " boot=")
		boot, err := time.ParseDuration(strings.Fields(text)[0])
		if err != nil {
			t.Fatalf("%q: %v", there, err)
		}
		took = append(took, machineStart{whole: admitted[i] + running.Sub(began), boot: boot})
		if err := client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	return took
}

// logged returns the first line of containerd's log on a node that contains all parts, and its time.
func logged(t *testing.T, host string, parts ...string) (time.Time, string) {
	t.Helper()
	file, err := os.Open(filepath.Join(under.Root(host), node.LogFile("containerd")))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(lines.Text(), part) }) {
			continue
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), `time="`), `"`)
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return at, lines.Text()
	}
	t.Fatalf("containerd on %s has not written %q: %v", host, parts, lines.Err())
	return time.Time{}, ""
}
