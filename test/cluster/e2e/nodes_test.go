// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// TestNodeCutOff mostly waits, in parallel with the tests of another cluster.
func TestNodeCutOff(t *testing.T) {
	t.Parallel()
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	away := under.Nodes[1]
	pods := start(ctx, t, namespace, onChart(agnhost("a", under.Nodes[0].Name)), onChart(agnhost("b", away.Name)))
	a, b := pods[0], pods[1]

	if err := under.CutNode(ctx, away.Name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { comeBack(context.WithoutCancel(ctx), t, away) })
	waitForNode(ctx, t, away.Name, corev1.ConditionUnknown)
	for name, address := range map[string]string{"Flannel": b.Status.PodIP, "the TSN network": addressOn(t, b).String()} {
		if given, err := dial(ctx, a, "udp", address, udpPort, "hostname", 1); err == nil {
			t.Errorf("%s was reached over %s: %q", away.Name, name, given)
		}
	}
	comeBack(ctx, t, away)
	for _, address := range []string{b.Status.PodIP, addressOn(t, b).String()} {
		eventuallyReaches(ctx, t, a, b, address)
	}
	c := start(ctx, t, namespace, onChart(agnhost("c", away.Name)))[0]
	reaches(ctx, t, a, c, addressOn(t, c).String())
}

func TestNodePowerLoss(t *testing.T) {
	ctx := needChart(t)
	before := inventories(ctx, t)
	namespace := newNamespace(ctx, t, restricted)
	off := under.Nodes[1]
	pods := start(ctx, t, namespace, onChart(agnhost("a", under.Nodes[0].Name)), onChart(agnhost("b", off.Name)))

	t.Cleanup(func() { comeBack(context.WithoutCancel(ctx), t, off) })
	// Switching on again at once must work, too: everything that a node held is free as soon as it is off.
	for _, change := range []func(context.Context, string) error{under.StopNode, under.StartNode, under.StopNode} {
		if err := change(ctx, off.Name); err != nil {
			t.Fatal(err)
		}
	}
	waitForNode(ctx, t, off.Name, corev1.ConditionUnknown)
	comeBack(ctx, t, off)
	waitForSystem(ctx, t)
	waitForChart(ctx, t)
	b := waitRestarted(ctx, t, pods[1])
	for _, address := range []string{b.Status.PodIP, addressOn(t, b).String()} {
		eventuallyReaches(ctx, t, pods[0], b, address)
	}
	deleteNamespace(t, namespace)
	// The node's system pods have new names.
	leavesNothing(ctx, t, map[string]map[string]bool{under.Nodes[0].Name: before[under.Nodes[0].Name]})
	leavesNoAttachments(ctx, t, off.Name, before[off.Name])
}

func comeBack(ctx context.Context, t *testing.T, which plan.Node) {
	t.Helper()
	if err := under.StartNode(ctx, which.Name); err != nil {
		t.Fatal(err)
	}
	waitForNode(ctx, t, which.Name, corev1.ConditionTrue)
}

// waitForNode waits until the condition Ready of a node has a value.
func waitForNode(ctx context.Context, t *testing.T, name string, want corev1.ConditionStatus) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == want {
				return nil
			}
		}
		return fmt.Errorf("the condition Ready of %s is not %s", name, want)
	})
}

func waitForSystem(ctx context.Context, t *testing.T) {
	t.Helper()
	await(ctx, t, kube.SystemReady(client, len(under.Nodes)))
}

// eventuallyReaches waits for neighbours and routes that were lost.
func eventuallyReaches(ctx context.Context, t *testing.T, from, to *corev1.Pod, address string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		given, err := dial(ctx, from, "udp", address, udpPort, "hostname", 1)
		if err == nil && given[0] != to.Name {
			err = fmt.Errorf("%q answered at %s, want %s", given[0], address, to.Name)
		}
		return err
	})
	reaches(ctx, t, from, to, address)
}

// waitRestarted waits until a pod's container was restarted and Multus has reported its new addresses.
func waitRestarted(ctx context.Context, t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		current, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && (len(current.Status.ContainerStatuses) == 0 || current.Status.ContainerStatuses[0].RestartCount == 0) {
			err = fmt.Errorf("%s was not started again yet: %s", pod.Name, lastEvents(ctx, pod.Namespace, pod.Name))
		}
		return err
	})
	return waitReady(ctx, t, pod.Namespace, pod.Name)
}

// leavesNoAttachments waits until a node has nothing of attachments that it did not have before.
func leavesNoAttachments(ctx context.Context, t *testing.T, host string, before map[string]bool) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		has, err := inventory(ctx, host)
		if err != nil {
			return err
		}
		for thing := range has {
			if isAttachment(thing) && !before[thing] {
				return fmt.Errorf("left on %s: %s", host, thing)
			}
		}
		return nil
	})
}
