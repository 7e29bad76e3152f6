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

// TestANodeThatWasCutOffComesBack mostly waits, in parallel with the tests of another cluster.
func TestANodeThatWasCutOffComesBack(t *testing.T) {
	t.Parallel()
	ctx := needTSN(t)
	namespace := tsnNamespace(ctx, t, restricted)
	away := under.Nodes[1]
	pods := start(ctx, t, namespace, onTSN(agnhost("a", under.Nodes[0].Name)), onTSN(agnhost("b", away.Name)))
	a, b := pods[0], pods[1]
	to, to6 := tsnAddresses(t, b)

	if err := under.CutNode(ctx, away.Name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { comeBack(context.WithoutCancel(ctx), t, away) })
	waitForNode(ctx, t, away.Name, corev1.ConditionUnknown)
	for name, address := range map[string]string{"Flannel": b.Status.PodIP, "the TSN network": to.String()} {
		if given, err := dial(ctx, a, "udp", address, udpPort, "hostname", 1); err == nil {
			t.Errorf("%s was reached over %s: %q", away.Name, name, given)
		}
	}
	comeBack(ctx, t, away)
	for _, address := range []string{b.Status.PodIP, to.String(), to6.String()} {
		eventuallyReaches(ctx, t, a, b, address)
	}
	c := start(ctx, t, namespace, onTSN(agnhost("c", away.Name)))[0]
	after, _ := tsnAddresses(t, c)
	reaches(ctx, t, a, c, after.String())
}

func TestANodeThatLostItsPowerComesBack(t *testing.T) {
	ctx := needTSN(t)
	before := inventories(ctx, t)
	namespace := tsnNamespace(ctx, t, restricted)
	off := under.Nodes[1]
	pods := start(ctx, t, namespace, onTSN(agnhost("a", under.Nodes[0].Name)), onTSN(agnhost("b", off.Name)))

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
	waitForKtsnd(ctx, t)
	restoreKtsnd(ctx, t, off.Name)
	b := waitRestarted(ctx, t, pods[1])
	to, to6 := tsnAddresses(t, b)
	for _, address := range []string{b.Status.PodIP, to.String(), to6.String()} {
		eventuallyReaches(ctx, t, pods[0], b, address)
	}
	deleteNamespace(t, namespace)
	// The node's system pods have new names.
	leavesNothing(ctx, t, map[string]map[string]bool{under.Nodes[0].Name: before[under.Nodes[0].Name]})
	leavesNoAddresses(ctx, t, off.Name)
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
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
	if err != nil {
		t.Fatal(err)
	}
}

func waitForSystem(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := kube.Wait(ctx, kube.SystemReady(client, len(under.Nodes))); err != nil {
		t.Fatal(err)
	}
}

// eventuallyReaches waits for neighbours and routes that were lost.
func eventuallyReaches(ctx context.Context, t *testing.T, from, to *corev1.Pod, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		given, err := dial(ctx, from, "udp", address, udpPort, "hostname", 1)
		if err == nil && given[0] != to.Name {
			err = fmt.Errorf("%q answered at %s, want %s", given[0], address, to.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	reaches(ctx, t, from, to, address)
}

// restoreKtsnd passes tsn-cni's records to a restarted ktsnd, as an agent does.
func restoreKtsnd(ctx context.Context, t *testing.T, host string) {
	t.Helper()
	pod, err := ktsndOn(ctx, host)
	if err != nil {
		t.Fatal(err)
	}
	inKtsnd(ctx, t, pod, "node", "restore")
}

// waitRestarted waits until a pod's container was restarted and Multus has reported its new addresses.
func waitRestarted(ctx context.Context, t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		current, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && (len(current.Status.ContainerStatuses) == 0 || current.Status.ContainerStatuses[0].RestartCount == 0) {
			err = fmt.Errorf("%s was not started again yet: %s", pod.Name, lastEvents(ctx, pod.Namespace, pod.Name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return waitReady(ctx, t, pod.Namespace, pod.Name)
}

// leavesNoAddresses checks for records of IPAM and tsn-cni about pods that are gone.
func leavesNoAddresses(ctx context.Context, t *testing.T, host string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		has, err := inventory(ctx, host)
		if err != nil {
			return err
		}
		for thing := range has {
			if isTSNLeftover(thing) {
				return fmt.Errorf("left on %s: %s", host, thing)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
