// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Cluster uninstalls the project from a cluster.
type Cluster struct {
	Client kubernetes.Interface
	// Namespace is the project's namespace, Selector selects the pods of its DaemonSets.
	Namespace, Selector string
	// DaemonSets are the names of the DaemonSets.
	DaemonSets []string
	// Driver is the name of the CSI driver, Networks are the project's networks.
	Driver   string
	Networks []Network
	// Pod is the template of the pod that cleans a node. Nodes are cleaned if the pod may run on them, or if a pod of
	// the DaemonSets does.
	Pod *corev1.Pod
	// Out gets progress messages.
	Out io.Writer
}

// pollInterval is the time between two checks of the API server.
const pollInterval = 500 * time.Millisecond

// Remove uninstalls the project until ctx ends.
func (c *Cluster) Remove(ctx context.Context) error {
	var pods []string
	err := retry.Until(ctx, pollInterval, func() (err error) {
		pods, err = podsInUse(ctx, c.Client, c.Driver, c.Networks)
		return err
	})
	if err != nil {
		return err
	}
	if len(pods) > 0 {
		return inUseError(pods)
	}
	var served map[string]bool
	err = retry.Until(ctx, pollInterval, func() (err error) {
		served, err = c.servedNodes(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.removeDaemonSets(ctx, served); err != nil {
		return err
	}
	return c.cleanNodes(ctx, served)
}

// servedNodes returns the nodes with a pod of the DaemonSets.
func (c *Cluster) servedNodes(ctx context.Context) (map[string]bool, error) {
	pods, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: c.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of ktsnd and agents: %w", err)
	}
	served := map[string]bool{}
	for i := range pods.Items {
		served[pods.Items[i].Spec.NodeName] = true
	}
	return served, nil
}

func (c *Cluster) removeDaemonSets(ctx context.Context, served map[string]bool) error {
	policy := metav1.DeletePropagationForeground
	for _, name := range c.DaemonSets {
		err := retry.Until(ctx, pollInterval, func() error {
			err := c.Client.AppsV1().DaemonSets(c.Namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove the DaemonSet %s: %w", name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(c.Out, "waiting for ktsnd and the agents to end")
	return retry.Until(ctx, pollInterval, func() error {
		// Pods of unreachable nodes stay until the node is removed.
		pods, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: c.Selector})
		if err != nil {
			return fmt.Errorf("list the pods of ktsnd and agents: %w", err)
		}
		ready, err := c.readyNodes(ctx, served)
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

// cleanNodes starts a pod on each ready node, and waits for all of them.
func (c *Cluster) cleanNodes(ctx context.Context, served map[string]bool) error {
	var nodes map[string]bool
	var pods map[string][]string
	err := retry.Until(ctx, pollInterval, func() (err error) {
		if nodes, err = c.readyNodes(ctx, served); err == nil {
			pods, err = podsByNode(ctx, c.Client)
		}
		return err
	})
	if err != nil {
		return err
	}
	var unreachable, started []string
	// Remove the pods in any case.
	defer func() {
		for _, name := range started {
			c.removePod(ctx, podName(name))
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if !nodes[name] {
			unreachable = append(unreachable, name)
			continue
		}
		if err := c.startCleaning(ctx, name, pods[name]); err != nil {
			return err
		}
		started = append(started, name)
	}
	var errs error
	for _, name := range started {
		errs = errors.Join(errs, c.waitCleaned(ctx, name))
	}
	if len(unreachable) > 0 {
		fmt.Fprintf(c.Out, "not cleaned, because they are not ready: nodes %s; run `ktsn-agent clean-node` there when they are back\n",
			strings.Join(unreachable, ", "))
	}
	return errs
}

// podName returns the name of the pod that cleans a node.
func podName(node string) string { return "ktsn-clean-" + node }

// startCleaning starts the pod on a node, which leaves the node's pods attached. It replaces the pod of an earlier attempt.
func (c *Cluster) startCleaning(ctx context.Context, node string, pods []string) error {
	pod := c.Pod.DeepCopy()
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Args = append(pod.Spec.Containers[i].Args, "--pods="+strings.Join(pods, ","))
	}
	pod.Name, pod.Namespace, pod.Spec.NodeName = podName(node), c.Namespace, node
	err := retry.Until(ctx, pollInterval, func() error {
		_, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err):
			c.removePod(ctx, pod.Name)
			return err
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err):
			return fmt.Errorf("%w: %w", retry.ErrFinal, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("start the pod that cleans node %s: %w", node, err)
	}
	return nil
}

// removePod removes a pod at once, even after ctx has ended.
func (c *Cluster) removePod(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	none := int64(0)
	err := c.Client.CoreV1().Pods(c.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &none})
	if err != nil && !apierrors.IsNotFound(err) {
		fmt.Fprintf(c.Out, "cannot remove pod %s: %v\n", name, err)
	}
}

// cleanupTimeout limits the removal of a pod.
const cleanupTimeout = 5 * time.Second

// waitCleaned waits until the pod on a node has ended.
func (c *Cluster) waitCleaned(ctx context.Context, node string) error {
	return retry.Until(ctx, pollInterval, func() error {
		pod, err := c.Client.CoreV1().Pods(c.Namespace).Get(ctx, podName(node), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: node %s is not cleaned: pod %s was removed", retry.ErrFinal, node, podName(node))
		}
		if err != nil {
			return fmt.Errorf("get pod %s: %w", podName(node), err)
		}
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			fmt.Fprintf(c.Out, "node %s is clean\n", node)
			return nil
		case corev1.PodFailed:
			return fmt.Errorf("%w: node %s could not be cleaned: %s", retry.ErrFinal, node, terminationMessage(pod))
		}
		return fmt.Errorf("node %s is not cleaned yet: pod %s is %s%s", node, pod.Name, pod.Status.Phase, whyWaiting(pod))
	})
}

// whyWaiting returns what a pod waits for, such as an image.
func whyWaiting(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			return ": " + waiting.Reason + " " + waiting.Message
		}
	}
	return ""
}

// terminationMessage returns the termination message of a container.
func terminationMessage(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if ended := container.State.Terminated; ended != nil {
			return strings.TrimSpace(ended.Message)
		}
	}
	return pod.Status.Message
}

// readyNodes returns whether nodes are ready: those with a pod of the DaemonSets, or on which the cleaning pod may run.
func (c *Cluster) readyNodes(ctx context.Context, served map[string]bool) (map[string]bool, error) {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	ready := map[string]bool{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !served[node.Name] && !c.isEligible(node) {
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

// isEligible reports whether the chart's selector and tolerations allow the project on a node.
func (c *Cluster) isEligible(node *corev1.Node) bool {
	if os := node.Labels[corev1.LabelOSStable]; os != "" && os != "linux" {
		return false
	}
	if !labels.SelectorFromSet(c.Pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return false
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		// DaemonSets tolerate the taints by which Kubernetes describes a node's state.
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			continue
		}
		if !slices.ContainsFunc(c.Pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(taint) }) {
			return false
		}
	}
	return true
}
