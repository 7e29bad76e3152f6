// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/realtime"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
)

func TestKtsndHasRealTimeScheduling(t *testing.T) {
	ctx := needChart(t)
	for _, host := range under.Nodes {
		if status := chartStatus(ctx, t, host.Name); status.Scheduler != "SCHED_FIFO" {
			pod, err := chartPodOn(ctx, ktsndPods, host.Name)
			if err != nil {
				t.Fatal(err)
			}
			text, err := logs(ctx, pod, "ktsnd")
			t.Errorf("%s: ktsnd has %s; its log: %s %v", host.Name, status.Scheduler, text, err)
		}
	}
}

// TestMissingRealTimeBudgetIsLogged runs ktsnd in a pod without the cgroups of its node, by which it could
// get a share of the budget. If the kernel does not divide the budget, nothing is logged.
func TestMissingRealTimeBudgetIsLogged(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, privileged)
	pod := start(ctx, t, namespace, &corev1.Pod{
		ObjectMeta: agnhost("ktsnd", "").ObjectMeta,
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: under.Nodes[0].Name},
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: pointer(int64(0)),
			Containers: []corev1.Container{{
				Name: "ktsnd", Image: "localhost/kubernetsn/ktsnd:dev", ImagePullPolicy: corev1.PullNever,
				Args: []string{"--interface", "eth0", "--control", "/tmp/control.sock"},
				SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
					Drop: []corev1.Capability{"ALL"},
					Add:  []corev1.Capability{"NET_RAW", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE", "IPC_LOCK"},
				}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{
					Exec: &corev1.ExecAction{Command: []string{"/usr/bin/ktsn", "status", "--control", "/tmp/control.sock"}},
				}},
			}},
		},
	})[0]
	text, err := logs(ctx, pod, "ktsnd")
	if err != nil {
		t.Fatal(err)
	}
	status := parseStatus(t, inKtsnd(ctx, t, pod, "status", "-o", "json", "--control", "/tmp/control.sock"))
	if problem := realtimeProblem(status.Scheduler, text, cgroups.RealtimeDivided()); problem != "" {
		t.Errorf("%s; ktsnd has %s, and its log is %q", problem, status.Scheduler, text)
	}
}

// realtimeProblem compares ktsnd's scheduler with the pod's log. divided means that the kernel divides the budget among
// cgroups of version 1, so that a pod without its node's cgroups has none. With version 2 only the kernel knows.
func realtimeProblem(scheduler, log string, divided bool) string {
	const without, byVersion2 = "ktsn-realtime: no real-time budget", "of cgroups of version 2 only the root has a budget"
	refused := strings.Contains(log, without) && strings.Contains(log, "no SCHED_FIFO, departures will be less exact")
	switch {
	case scheduler == "SCHED_FIFO" && divided:
		return "the kernel refuses SCHED_FIFO in a cgroup without a share, and ktsnd says that it has it"
	case scheduler == "SCHED_FIFO" && strings.Contains(log, "ktsn-realtime"):
		return "there was nothing to do, and ktsn-realtime says something"
	case scheduler == "SCHED_FIFO":
		return ""
	case scheduler != "SCHED_OTHER" || !refused:
		return "nobody says why ktsnd has no SCHED_FIFO"
	case !divided && !strings.Contains(log, byVersion2):
		return "ktsn-realtime gives another reason than cgroups of version 2"
	}
	return ""
}

func TestRealtimeProblem(t *testing.T) {
	const refused = "ktsn-realtime: no real-time budget: %s\nktsnd: no SCHED_FIFO, departures will be less exact"
	hidden, root := fmt.Sprintf(refused, realtime.ErrHidden), fmt.Sprintf(refused, realtime.ErrRoot)
	for name, test := range map[string]struct {
		scheduler, log string
		divided, well  bool
	}{
		"a divided budget, which is said":             {"SCHED_OTHER", hidden, true, true},
		"a divided budget, which is not said":         {"SCHED_OTHER", "", true, false},
		"a divided budget that ktsnd has not noticed": {"SCHED_FIFO", "", true, false},
		"no divided budget":                           {"SCHED_FIFO", "", false, true},
		"no divided budget, and words about it":       {"SCHED_FIFO", hidden, false, false},
		"the root's budget of version 2":              {"SCHED_OTHER", root, false, true},
		"another reason where there can be none":      {"SCHED_OTHER", hidden, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if problem := realtimeProblem(test.scheduler, test.log, test.divided); (problem == "") != test.well {
				t.Errorf("got %q", problem)
			}
		})
	}
}
