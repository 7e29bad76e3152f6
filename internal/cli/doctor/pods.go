// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// ktsndPods checks the node's ktsnd that serves, and those that stand by.
func (d *Doctor) ktsndPods(ctx context.Context, node string) {
	const about = "ktsnd"
	pods := d.podsOn(ctx, about, node, clusterreader.KtsndPods, "ktsnd")
	if len(pods) == 0 {
		return
	}
	serving := d.instance(ctx, node)
	for i := range pods {
		pod := &pods[i]
		called := pod.Namespace + "/" + pod.Name
		switch {
		case slices.Contains(serving.StandingBy, pod.Name):
			d.report(Note, about, "an upgrade ends it; if none is under way, `kubectl -n "+pod.Namespace+" delete pod "+pod.Name+"`: a newer one comes, and takes over",
				"pod %s stands by, and pod %s serves", called, serving.Name)
		case !d.containersReady(about, pod):
		case pod.Name == serving.Name:
			d.ok(about, "pod %s serves", called)
		default:
			d.ok(about, "runs in pod %s", called)
		}
	}
}

// instance returns the instance that serves; empty if ktsnd does not answer, which another check reports.
func (d *Doctor) instance(ctx context.Context, node string) *control.Instance {
	state, err := d.AskKtsnd(ctx, node)
	if err != nil || state.Instance == nil {
		return &control.Instance{}
	}
	return state.Instance
}

// agentPods checks the node's agent.
func (d *Doctor) agentPods(ctx context.Context, node string) {
	const about = "agent"
	pods := d.podsOn(ctx, about, node, clusterreader.AgentPods, "ktsn-agent")
	for i := range pods {
		if d.containersReady(about, &pods[i]) {
			d.ok(about, "runs in pod %s/%s", pods[i].Namespace, pods[i].Name)
		}
	}
}

// podsOn lists the pods of a DaemonSet on a node, and reports if there is none.
func (d *Doctor) podsOn(ctx context.Context, about, node, selector, daemonSet string) []corev1.Pod {
	pods, err := d.Cluster.PodsOn(ctx, node, selector)
	switch {
	case err != nil:
		d.unreadable(about, err)
	case len(pods) == 0:
		d.report(Bad, about, fmt.Sprintf("`kubectl -n %s describe daemonset %s` says why", d.Cluster.System, daemonSet),
			"no pod of the DaemonSet %s is on node %s", daemonSet, node)
	}
	return pods
}

// containersReady reports the containers of a pod that are not ready.
func (d *Doctor) containersReady(about string, pod *corev1.Pod) bool {
	whole := true
	for _, status := range pod.Status.ContainerStatuses {
		logs := fmt.Sprintf("`kubectl -n %s logs %s -c %s` says why", pod.Namespace, pod.Name, status.Name)
		switch {
		case status.State.Waiting != nil:
			d.report(Bad, about, logs, "container %s of pod %s waits: %s %s", status.Name, pod.Name, status.State.Waiting.Reason, status.State.Waiting.Message)
			whole = false
		case !status.Ready:
			d.report(Bad, about, logs, "container %s of pod %s is not ready", status.Name, pod.Name)
			whole = false
		}
	}
	return whole
}
