// SPDX-License-Identifier: Apache-2.0

//go:build healing

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// kills returns a failure that kills programs on all nodes.
func kills(names ...string) func(*watched, context.Context, *testing.T) {
	return func(_ *watched, ctx context.Context, t *testing.T) {
		t.Helper()
		clustertest.Kill(ctx, t, under, names...)
		time.Sleep(answered) // kubelet notices
	}
}

// killsAtOnce is kills without waiting, so that what follows happens before anything reacts.
func killsAtOnce(name string) func(*watched, context.Context, *testing.T) {
	return func(_ *watched, ctx context.Context, t *testing.T) {
		t.Helper()
		clustertest.Kill(ctx, t, under, name)
	}
}

// then returns a failure that causes second soon after first.
func then(first, second func(*watched, context.Context, *testing.T)) func(*watched, context.Context, *testing.T) {
	return func(w *watched, ctx context.Context, t *testing.T) {
		t.Helper()
		first(w, ctx, t)
		second(w, ctx, t)
	}
}

// deaths returns all failures of the test.
func deaths() []death {
	const first, second = 0, 1
	all := []death{
		{name: "endpoint's pod is deleted", spare: first, die: (*watched).deleteEndpoint},
		{name: "endpoint's pod is deleted, the other endpoint is on its node", spare: second, die: (*watched).deleteEndpoint},
		{name: "endpoint's pod is deleted, and recreated", spare: nowhere, die: (*watched).remakeEndpoint},
		{name: "endpoint's program is killed", spare: first, die: (*watched).killEndpoint},
		{name: "endpoint's program is killed, there is no other endpoint", spare: nowhere, die: (*watched).killEndpoint, stays: true},
		{name: "client's pod is deleted, and recreated", spare: first, die: (*watched).remakeClient, stays: true, replaced: true},
		{name: "agents of both nodes are killed", spare: first, die: kills("ktsn-agent"), stays: true, unnoticed: true, timed: 15 * time.Second},
		{name: "ktsnd of both nodes is killed", spare: first, die: kills("ktsnd"), stays: true, timed: 15 * time.Second},
		{name: "agents and ktsnd of both nodes are killed", spare: first, die: kills("ktsn-agent", "ktsnd"), stays: true, timed: 15 * time.Second},
		{name: "both operators are killed", spare: first, die: kills("ktsn-operator"), stays: true, unnoticed: true, timed: 15 * time.Second},
		{name: "operators, agents and ktsnd are killed", spare: first, die: kills("ktsn-operator", "ktsn-agent", "ktsnd"), stays: true, timed: 15 * time.Second},
		{name: "endpoint's pod is deleted while there is no operator for 5 s", spare: first, die: withoutOperator((*watched).deleteEndpoint)},
		{name: "endpoint's pod is deleted while the client's agent hangs for 5 s and is killed", spare: first, die: (*watched).deleteWithoutAgent},
		{name: "the API server is killed, then endpoint's pod deleted", spare: first, die: then((*watched).killServer, (*watched).deleteEndpoint)},
		{name: "endpoint's pod is deleted, then the API server killed", spare: first, die: then((*watched).deleteEndpoint, (*watched).killServer)},
		{name: "endpoint's node is switched off", spare: first, nodeAway: true, die: nodeIsOff(nil)},
		{name: "endpoint's node is switched off, and with it the operator that leads", spare: first, nodeAway: true, die: then((*watched).leadsThere, nodeIsOff(nil))},
		{name: "endpoint's node is cut off", spare: first, nodeAway: true, die: (*watched).cutNode},
	}
	for _, other := range []string{"ktsn-agent", "ktsnd", "ktsn-operator"} {
		kill := killsAtOnce(other)
		all = append(all,
			death{name: "each " + other + " is killed, then endpoint's pod deleted", spare: first, die: then(kill, (*watched).deleteEndpoint)},
			death{name: "endpoint's pod is deleted, then each " + other + " killed", spare: first, die: then((*watched).deleteEndpoint, kill)})
	}
	for _, other := range []string{"ktsn-agent", "ktsn-operator"} {
		all = append(all,
			death{name: "each " + other + " is killed, then endpoint's node switched off", spare: first, nodeAway: true, die: then(killsAtOnce(other), nodeIsOff(nil))},
			death{name: "endpoint's node is switched off, then " + other + " of the client's node killed", spare: first, nodeAway: true, die: nodeIsOff(killsNearby(other))})
	}
	return all
}

func (w *watched) deleteEndpoint(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := client.CoreV1().Pods(w.namespace).Delete(ctx, w.endpoint.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// remakeEndpoint replaces the pod by another of that name once it is gone, as a Deployment would.
func (w *watched) remakeEndpoint(ctx context.Context, t *testing.T) {
	t.Helper()
	w.deleteEndpoint(ctx, t)
	waitGone(ctx, t, w.namespace, w.endpoint.Name)
	w.spare = start(ctx, t, w.namespace, answering("endpoint", under.Nodes[1].Name))[0]
}

// remakeClient replaces the client by another of that name, which its endpoint does not notice. The new client's
// requests are counted.
func (w *watched) remakeClient(ctx context.Context, t *testing.T) {
	t.Helper()
	before := w.client.UID
	if err := client.CoreV1().Pods(w.namespace).Delete(ctx, w.client.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitGone(ctx, t, w.namespace, w.client.Name)
	w.client = start(ctx, t, w.namespace, asking("client", under.Nodes[0].Name))[0]
	w.began, w.restarts = w.died, kube.Restarts(w.client)
	endpoint := waitReady(ctx, t, w.namespace, w.endpoint.Name)
	if w.client.UID == before || endpoint.UID != w.endpoint.UID || kube.Restarts(endpoint) > 0 {
		t.Errorf("the client is not another one, or the endpoint is: %+v", endpoint.Status)
	}
}

// waitGone waits until there is no pod of that name.
func waitGone(ctx context.Context, t *testing.T, namespace, name string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %w", name, err)
	})
}

// killEndpoint kills the program that answers, but not its pod.
func (w *watched) killEndpoint(ctx context.Context, t *testing.T) {
	t.Helper()
	onNode(ctx, t, w.endpoint.Spec.NodeName, "sh", "-c",
		`kill -KILL $(grep -l `+string(w.endpoint.UID)+` $(grep -lx agnhost /proc/[0-9]*/comm | sed s/comm/cgroup/) | cut -d/ -f3)`)
}

// withoutOperator returns a failure that happens while no operator pairs clients.
func withoutOperator(die func(*watched, context.Context, *testing.T)) func(*watched, context.Context, *testing.T) {
	return func(w *watched, ctx context.Context, t *testing.T) {
		t.Helper()
		scaleOperator(ctx, t, 0)
		defer scaleOperator(ctx, t, 2)
		w.died = time.Now()
		die(w, ctx, t)
		time.Sleep(away)
	}
}

// scaleOperator scales the operator, and waits until it has that many replicas.
func scaleOperator(ctx context.Context, t *testing.T, replicas int32) {
	t.Helper()
	scale(ctx, t, chartSystem, "ktsn-operator", replicas)
	if replicas > 0 {
		return
	}
	await(ctx, t, func(ctx context.Context) error {
		list, err := client.CoreV1().Pods(chartSystem).List(ctx, metav1.ListOptions{LabelSelector: operatorPods})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d operators are still there", len(list.Items))
		}
		return err
	})
}

const operatorPods = "app.kubernetes.io/component=operator"

// deleteWithoutAgent deletes the endpoint while no agent runs at the client's node.
func (w *watched) deleteWithoutAgent(ctx context.Context, t *testing.T) {
	t.Helper()
	host := w.client.Spec.NodeName
	onNode(ctx, t, host, "pkill", "-STOP", "-x", "ktsn-agent")
	w.deleteEndpoint(ctx, t)
	time.Sleep(away)
	killOn(ctx, t, host, "ktsn-agent")
}

// killServer kills the API server, which is restarted.
func (w *watched) killServer(ctx context.Context, t *testing.T) {
	t.Helper()
	killOn(ctx, t, under.ControlPlane().Name, "kube-apiserver")
	await(ctx, t, kube.ControlPlaneReady(client))
}

// killsNearby returns a failure that kills a program on the client's node.
func killsNearby(name string) func(*watched, context.Context, *testing.T) {
	return func(w *watched, ctx context.Context, t *testing.T) {
		t.Helper()
		killOn(ctx, t, w.client.Spec.NodeName, name)
	}
}

// nodeIsOff returns a failure that switches the endpoint's node off until the test has ended, followed by next unless
// it is nil.
func nodeIsOff(next func(*watched, context.Context, *testing.T)) func(*watched, context.Context, *testing.T) {
	return func(w *watched, ctx context.Context, t *testing.T) {
		t.Helper()
		w.died = time.Now()
		w.loses(ctx, t, under.StopNode, next)
	}
}

func (w *watched) cutNode(ctx context.Context, t *testing.T) {
	t.Helper()
	w.loses(ctx, t, under.CutNode, nil)
}

func (w *watched) loses(ctx context.Context, t *testing.T, how func(context.Context, string) error, next func(*watched, context.Context, *testing.T)) {
	t.Helper()
	host := w.endpoint.Spec.NodeName
	if err := how(ctx, host); err != nil {
		t.Fatal(err)
	}
	if next != nil {
		next(w, ctx, t)
	}
	died := w.died
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	go func() { // which is only told
		for ctx.Err() == nil {
			node, err := client.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
			if err == nil && !nodeIsReady(node) {
				t.Logf("Kubernetes found the node not ready %.1f s after", time.Since(died).Seconds())
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	w.isAnswered(ctx, t, w.spare)
	waitForNode(ctx, t, host, corev1.ConditionUnknown)
}

func nodeIsReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// leader returns the leading operator.
func leader(ctx context.Context) (*corev1.Pod, error) {
	lease, err := client.CoordinationV1().Leases(chartSystem).Get(ctx, "ktsn-operator", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if lease.Spec.HolderIdentity == nil {
		return nil, fmt.Errorf("no operator leads")
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return client.CoreV1().Pods(chartSystem).Get(ctx, name, metav1.GetOptions{})
}

// operatorOn makes one of the operators run on a node: the scheduler only prefers different nodes.
func operatorOn(ctx context.Context, t *testing.T, host string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		leads, err := leader(ctx)
		if err != nil {
			return err
		}
		list, err := client.CoreV1().Pods(chartSystem).List(ctx, metav1.ListOptions{LabelSelector: operatorPods})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if pod := &list.Items[i]; pod.Spec.NodeName == host && kube.Ready(pod) {
				return nil
			}
		}
		for i := range list.Items {
			if pod := &list.Items[i]; pod.UID != leads.UID && pod.DeletionTimestamp == nil && kube.Ready(pod) {
				err = client.CoreV1().Pods(chartSystem).Delete(ctx, pod.Name, metav1.DeleteOptions{})
			}
		}
		return fmt.Errorf("no operator is ready on %s: %w", host, err)
	})
}

// leadsThere makes an operator on the endpoint's node the leader.
func (w *watched) leadsThere(ctx context.Context, t *testing.T) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		leads, err := leader(ctx)
		if err != nil {
			return err
		}
		if leads.Spec.NodeName == w.endpoint.Spec.NodeName {
			return nil
		}
		if leads.DeletionTimestamp == nil {
			err = client.CoreV1().Pods(chartSystem).Delete(ctx, leads.Name, metav1.DeleteOptions{})
		}
		return fmt.Errorf("the operator that leads is on %s: %w", leads.Spec.NodeName, err)
	})
}
