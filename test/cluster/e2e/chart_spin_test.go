// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
)

// These paths use the kernel: over Flannel, with a talker that sleeps until it sends and with one that spins before, as
// ktsnd does; likewise over the nodes' own network.
const (
	flannel     = "flannel"
	flannelSpin = "flannel-spin"
	hostSpin    = results.PathHostSpin
)

// spinShare is the percentage of a processor's time that such a talker may use with real-time priority: more than it
// spins.
const spinShare = 17

// spinningPaths returns these two, with their own pods. The gaps say what their talkers could not have.
func spinningPaths(ctx context.Context, t *testing.T, listener *corev1.Pod) (paths []experimentPath, gaps []results.Gap) {
	t.Helper()
	namespace := newNamespace(ctx, t, privileged)
	near, far := under.Nodes[0].Name, listener.Spec.NodeName
	paths = []experimentPath{
		{name: flannelSpin, talker: deploy(ctx, t, namespace, mayUseFIFO(waiting("talker-spin", near))), listener: listener},
		{name: hostSpin, talker: deploy(ctx, t, namespace, mayUseFIFO(onHostNetwork(waiting("talker-host-spin", near)))),
			listener: deploy(ctx, t, namespace, onHostNetwork(waiting("listener-host", far)))},
	}
	status := chartStatus(ctx, t, near)
	for i := range paths {
		path := &paths[i]
		path.address = path.listener.Status.PodIP
		path.spinNs = status.SpinNs
		if status.Scheduler != "SCHED_FIFO" {
			continue
		}
		fifo := []string{"--fifo", strconv.Itoa(status.SchedulerPriority)}
		if why := refusedFIFO(ctx, t, path.talker, fifo); why != "" {
			t.Logf("%s: no SCHED_FIFO: %s", path.name, why)
			gaps = append(gaps, results.Gap{What: "path " + path.name + " with a talker under SCHED_FIFO, as ktsnd is", Why: why})
			continue
		}
		path.fifo = fifo
	}
	return paths, gaps
}

func onHostNetwork(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.HostNetwork = true
	return pod
}

// mayUseFIFO gives a pod the rights that SCHED_FIFO needs, as the chart does for ktsnd.
func mayUseFIFO(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SecurityContext.RunAsNonRoot, pod.Spec.SecurityContext.RunAsUser = nil, pointer(int64(0))
	only := &pod.Spec.Containers[0]
	only.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_NICE"}
	if cgroups.RealtimeDivided() {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "cgroup", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup"}}})
		only.VolumeMounts = append(only.VolumeMounts, corev1.VolumeMount{Name: "cgroup", MountPath: "/host/sys/fs/cgroup"})
	}
	return pod
}

// refusedFIFO returns why the kernel refuses SCHED_FIFO to a pod's programs after the pod has requested its share of
// the budget, "" if it does not. Any other failure ends the test.
func refusedFIFO(ctx context.Context, t *testing.T, pod *corev1.Pod, fifo []string) string {
	t.Helper()
	_, output, err := run(ctx, pod, "tsnperf", append([]string{"/usr/bin/ktsn-realtime", "--share", strconv.Itoa(spinShare), "--", "/usr/bin/tsnperf",
		"talker", "--quiet", "--no-txtime", "--to", "127.0.0.1:9", "--count", "1"}, fifo...)...)
	if err == nil {
		return ""
	}
	why := fmt.Sprintf("%v: %s", err, strings.Join(strings.Fields(output), " "))
	if !strings.Contains(why, "SCHED_FIFO") {
		t.Fatalf("try SCHED_FIFO in pod %s: %s", pod.Name, why)
	}
	return why
}

// spinProblem reports a talker that was not awake before most of its sends, or sent before their times; "" if there is
// none. A talker that sleeps until the time is never awake before it, however fast the machine.
func spinProblem(path experimentPath, sent []tsnperf.Sent) string {
	ahead, early := 0, 0
	for _, message := range sent {
		if message.Wakeup < message.Txtime {
			ahead++
		}
		if message.SendStart < message.Txtime {
			early++
		}
	}
	switch {
	case path.timed:
		return ""
	case early > 0:
		return fmt.Sprintf("%s: %d of %d messages were sent before their times", path.name, early, len(sent))
	case path.spinNs == 0 && ahead > 0:
		return fmt.Sprintf("%s: a talker that sleeps was awake before %d of %d sends", path.name, ahead, len(sent))
	case path.spinNs > 0 && 2*ahead < len(sent):
		return fmt.Sprintf("%s: the talker was awake before %d of %d sends", path.name, ahead, len(sent))
	}
	return ""
}
