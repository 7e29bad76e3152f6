// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// staticPolicy makes kubelet assign processors exclusively, except the one that it reserves: reserving a part reserves
// the whole processor, and pods can request the rest of it.
const staticPolicy = "cpuManagerPolicy: static\nkubeReserved: {cpu: 100m}\n"

// allocatableCPU is what a node with two processors can then allocate.
const allocatableCPU = "1900m"

// giveProcessors sets the static policy on the kubelet of a node, until the test ends.
func giveProcessors(ctx context.Context, t *testing.T, host string) {
	t.Helper()
	path := filepath.Join(under.Root(host), "etc/kubernetes/kubelet.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		restartKubelet(ctx, t, host, before, strconv.Itoa(runtime.NumCPU()))
		// Containers keep the processors that the policy has left them.
		onNode(ctx, t, host, "sh", "-c", fmt.Sprintf("find /sys/fs/cgroup -mindepth 3 -name cpuset.cpus | while read -r file; do echo 0-%d >$file; done",
			runtime.NumCPU()-1))
	})
	restartKubelet(ctx, t, host, append(slices.Clone(before), staticPolicy...), allocatableCPU)
}

// restartKubelet gives kubelet another configuration and waits until it reports the allocatable processors. It removes
// the state of the previous policy, which kubelet would refuse.
func restartKubelet(ctx context.Context, t *testing.T, host string, configuration []byte, allocatable string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(under.Root(host), "etc/kubernetes/kubelet.yaml"), configuration, 0o644); err != nil {
		t.Fatal(err)
	}
	// Stop kubelet first: while it runs it can write the state again.
	onNode(ctx, t, host, "sh", "-c", "sv -w 60 force-stop /etc/service/kubelet; rm -f /var/lib/kubelet/cpu_manager_state")
	if err := under.RestartService(ctx, host, "kubelet"); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
		if err == nil && node.Status.Allocatable.Cpu().String() != allocatable {
			err = fmt.Errorf("node %s has %s processors for pods, want %s", host, node.Status.Allocatable.Cpu(), allocatable)
		}
		return err
	})
}

// processorsOf returns the processors on which threads of a node's program may run, without duplicates.
func processorsOf(ctx context.Context, host, name string) ([]string, error) {
	output, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", "grep -h Cpus_allowed_list /proc/$(pgrep -o -x "+name+")/task/*/status")
	if err != nil {
		return nil, err
	}
	var lists []string
	for line := range strings.Lines(output) {
		lists = append(lists, strings.Fields(line)[1])
	}
	slices.Sort(lists)
	return slices.Compact(lists), nil
}

func TestExclusiveCore(t *testing.T) {
	ctx := needChart(t)
	if runtime.NumCPU() != 2 {
		testlab.Missing(t, fmt.Sprintf("this machine has %d processors; the test knows what a kubelet does with two", runtime.NumCPU()))
	}
	host := under.Nodes[1].Name
	giveProcessors(ctx, t, host)
	t.Cleanup(func() {
		if output, err := helm(context.WithoutCancel(ctx), t, "rollback", release, "--wait", "--timeout", "3m"); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		waitForChart(context.WithoutCancel(ctx), t)
	})
	// kubelet decides which processor it gets.
	upgradeChart(ctx, t, "--set", "ktsnd.exclusiveCore=true", "--set-json", `ktsnd.extraArgs=[]`)

	t.Run("kubelet gives it a processor, where its sending thread is", func(t *testing.T) { ownsProcessor(ctx, t, host) })
	t.Run("doctor sees it", func(t *testing.T) {
		output, err := ktsn(ctx, t, "doctor", "--node", host)
		if !strings.Contains(output, "ktsnd may run on processor 1 only (cpuset)") {
			t.Errorf("%v: %s", err, output)
		}
	})
	t.Run("messages leave at their times", func(t *testing.T) {
		namespace := newNamespace(ctx, t, restricted)
		listener := deploy(ctx, t, namespace, onChart(waiting("listener", under.Nodes[0].Name)))
		talker := deploy(ctx, t, namespace, timed(waiting("talker", host)))
		const count = 500
		before := chartStatus(ctx, t, host)
		got := talk(ctx, t, talker, listener, addressOn(t, listener).String(), 1300,
			[]string{"--count", strconv.Itoa(count), "--cycle", "5ms", "--lead", "2ms"}, []string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "30s"}, nil)
		accounted(t, got, count, func() uint64 { return 0 })
		after := chartStatus(ctx, t, host)
		if sent := after.Counters["sent"] - before.Counters["sent"]; sent != count {
			t.Errorf("ktsnd sent %d messages, want %d", sent, count)
		}
		t.Logf("%d of %d messages left late", after.late()-before.late(), count)
	})
}

// ownsProcessor checks that ktsnd has processor 1, that its sending thread is bound to it, and that the agent has the
// other: kubelet takes processors from containers that share them within seconds.
func ownsProcessor(ctx context.Context, t *testing.T, host string) {
	await(ctx, t, func(ctx context.Context) error {
		for program, want := range map[string]string{"ktsnd": "1", "ktsn-agent": "0"} {
			if lists, err := processorsOf(ctx, host, program); err != nil || !slices.Equal(lists, []string{want}) {
				return fmt.Errorf("%s may run on processors %q, want %s: %w", program, lists, want, err)
			}
		}
		return nil
	})
	if status := chartStatus(ctx, t, host); status.CPU != 1 || status.Scheduler != "SCHED_FIFO" {
		t.Errorf("ktsnd sends from processor %d with %s, want 1 and SCHED_FIFO", status.CPU, status.Scheduler)
	}
}
