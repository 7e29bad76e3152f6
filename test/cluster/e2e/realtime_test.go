// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
)

func TestKtsndMayUseRealTimeSchedulingInItsPod(t *testing.T) {
	ctx := needTSN(t)
	for _, host := range under.Nodes {
		if status := statusOn(ctx, t, host.Name); status.Scheduler != "SCHED_FIFO" {
			t.Errorf("%s: ktsnd has %s; it said: %s", host.Name, status.Scheduler, saidByKtsnd(ctx, t, host.Name))
		}
	}
}

// saidByKtsnd returns the log of a node's ktsnd, or why there is none.
func saidByKtsnd(ctx context.Context, t *testing.T, host string) string {
	t.Helper()
	pod, err := ktsndOn(ctx, host)
	if err != nil {
		return err.Error()
	}
	text, err := logs(ctx, pod, "ktsnd")
	if err != nil {
		return err.Error()
	}
	return text
}

func TestKtsndSaysThatItMayNotUseRealTimeScheduling(t *testing.T) {
	ctx := needTSN(t)
	if !cgroups.RealtimeDivided() {
		skip(t, "the kernel does not divide its real-time budget among cgroups")
	}
	namespace := newNamespace(ctx, t, privileged)
	// Without the cgroups of its node it cannot get a share.
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
	for _, want := range []string{"ktsn-realtime: no real-time budget", "no SCHED_FIFO, departures will be less exact"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	status := parseStatus(t, inKtsnd(ctx, t, pod, "status", "-o", "json", "--control", "/tmp/control.sock"))
	if status.Scheduler != "SCHED_OTHER" {
		t.Errorf("its status says %s", status.Scheduler)
	}
}
