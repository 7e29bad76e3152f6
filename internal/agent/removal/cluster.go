// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Cluster is what is removed from a cluster.
type Cluster struct {
	Client kubernetes.Interface
	// Namespace is the project's, DaemonSet its name there and Selector that of its pods.
	Namespace, DaemonSet, Selector string
	// Driver is the name of the CSI driver, Networks are the project's.
	Driver   string
	Networks []Network
	// Pod is what cleans a node; its name and node are filled in.
	Pod *corev1.Pod
	// Out is told what is done.
	Out io.Writer
}

// askEvery is how often to look whether something has happened.
const askEvery = 500 * time.Millisecond

// Remove does it all, as far as ctx gives time.
func (c *Cluster) Remove(ctx context.Context) error {
	pods, err := users(ctx, c.Client, c.Driver, c.Networks)
	if err != nil {
		return err
	}
	if len(pods) > 0 {
		return inUse(pods)
	}
	if err := c.removeDaemonSet(ctx); err != nil {
		return err
	}
	return c.cleanNodes(ctx)
}

func (c *Cluster) removeDaemonSet(ctx context.Context) error {
	policy := metav1.DeletePropagationForeground
	err := c.Client.AppsV1().DaemonSets(c.Namespace).Delete(ctx, c.DaemonSet, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the DaemonSet: %w", err)
	}
	fmt.Fprintln(c.Out, "waiting for ktsnd and the agents to end")
	return wait(ctx, func() error {
		// Of nodes that do not answer they stay until somebody removes the node.
		pods, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: c.Selector})
		if err != nil {
			return err
		}
		ready, err := c.readyNodes(ctx)
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if ready[pods.Items[i].Spec.NodeName] {
				return fmt.Errorf("pod %s has not ended", pods.Items[i].Name)
			}
		}
		return nil
	})
}

// cleanNodes starts a pod on each node that answers, and waits for them.
func (c *Cluster) cleanNodes(ctx context.Context) error {
	nodes, err := c.readyNodes(ctx)
	if err != nil {
		return err
	}
	var unreachable []string
	for name, ready := range nodes {
		if !ready {
			unreachable = append(unreachable, name)
			continue
		}
		pod := c.Pod.DeepCopy()
		pod.Name, pod.Namespace, pod.Spec.NodeName = podName(name), c.Namespace, name
		_, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("start what cleans node %s: %w", name, err)
		}
	}
	var all error
	for name, ready := range nodes {
		if ready {
			all = errors.Join(all, c.waitCleaned(ctx, name))
		}
	}
	if len(unreachable) > 0 {
		fmt.Fprintf(c.Out, "not cleaned, because they do not answer: nodes %s; run `ktsn-agent clean-node` there when they are back\n",
			strings.Join(unreachable, ", "))
	}
	return all
}

// podName is that of the pod that cleans a node.
func podName(node string) string { return "ktsn-clean-" + node }

// waitCleaned waits until the pod on a node has ended, and removes it.
func (c *Cluster) waitCleaned(ctx context.Context, node string) error {
	var failed error
	err := wait(ctx, func() error {
		pod, err := c.Client.CoreV1().Pods(c.Namespace).Get(ctx, podName(node), metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			return nil
		case corev1.PodFailed:
			failed = fmt.Errorf("node %s could not be cleaned: %s", node, lastWords(pod))
			return nil
		}
		return fmt.Errorf("node %s is not cleaned yet: pod %s is %s", node, pod.Name, pod.Status.Phase)
	})
	if err != nil {
		return err
	}
	if failed == nil {
		fmt.Fprintf(c.Out, "node %s is clean\n", node)
	}
	none := int64(0)
	err = c.Client.CoreV1().Pods(c.Namespace).Delete(ctx, podName(node), metav1.DeleteOptions{GracePeriodSeconds: &none})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(failed, err)
}

// lastWords are what a container wrote at the end.
func lastWords(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if ended := container.State.Terminated; ended != nil {
			return strings.TrimSpace(ended.Message)
		}
	}
	return pod.Status.Message
}

// readyNodes are the cluster's nodes, and whether each answers.
func (c *Cluster) readyNodes(ctx context.Context) (map[string]bool, error) {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	ready := map[string]bool{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		// What runs on other systems was never served.
		if node.Labels[corev1.LabelOSStable] != "" && node.Labels[corev1.LabelOSStable] != "linux" {
			continue
		}
		ready[node.Name] = false
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				ready[node.Name] = condition.Status == corev1.ConditionTrue
			}
		}
	}
	return ready, nil
}

// wait asks until there is no error, or ctx ends.
func wait(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting: %w", err)
		case <-time.After(askEvery):
		}
	}
}
