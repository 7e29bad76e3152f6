// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const pollEvery = 100 * time.Millisecond

// Wait repeats a question until it returns nil or ctx ends, and then returns its last error. Errors of questions that
// ctx interrupted, or that the client did not send for that reason, do not count.
func Wait(ctx context.Context, question func(context.Context) error) error {
	var last error
	for {
		err := question(ctx)
		if err == nil {
			return nil
		}
		if last != nil && (ctx.Err() != nil || strings.Contains(err.Error(), "would exceed context deadline")) {
			return errors.Join(last, context.Cause(ctx))
		}
		last = err
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// ControlPlaneReady returns a question for Wait: whether the API server is ready.
func ControlPlaneReady(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("the API server is not ready: %w", err)
		}
		return nil
	}
}

// NodesReady returns a question for Wait: whether that many nodes are ready.
func NodesReady(client kubernetes.Interface, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		ready := 0
		var why []string
		for _, node := range nodes.Items {
			condition := readyCondition(&node)
			if condition.Status == corev1.ConditionTrue {
				ready++
				continue
			}
			why = append(why, node.Name+": "+condition.Message)
		}
		if ready < want {
			return fmt.Errorf("%d of %d nodes are ready: %s", ready, want, strings.Join(why, "; "))
		}
		return nil
	}
}

func readyCondition(node *corev1.Node) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}
	return corev1.NodeCondition{Message: "its kubelet has not reported yet"}
}

// SystemReady returns a question for Wait: whether Flannel, Multus and CoreDNS run.
func SystemReady(client kubernetes.Interface, nodes int) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := client.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list DaemonSets: %w", err)
		}
		for _, set := range sets.Items {
			if !daemonSetReady(&set, nodes) {
				return fmt.Errorf("daemon set %s: %d of %d pods are ready", set.Name, set.Status.NumberReady, nodes)
			}
		}
		deployments, err := client.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list Deployments: %w", err)
		}
		for _, deployment := range deployments.Items {
			if deployment.Status.ReadyReplicas < *deployment.Spec.Replicas {
				return fmt.Errorf("deployment %s: %d of %d pods are ready", deployment.Name,
					deployment.Status.ReadyReplicas, *deployment.Spec.Replicas)
			}
		}
		return nil
	}
}

func daemonSetReady(set *appsv1.DaemonSet, nodes int) bool {
	return set.Status.ObservedGeneration >= set.Generation && int(set.Status.NumberReady) >= nodes
}

// Restarts returns how often containers of a pod were restarted.
func Restarts(pod *corev1.Pod) (count int32) {
	for i := range pod.Status.ContainerStatuses {
		count += pod.Status.ContainerStatuses[i].RestartCount
	}
	return count
}
