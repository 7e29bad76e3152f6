// SPDX-License-Identifier: Apache-2.0

package kubelab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	attachmentGroup    = "k8s.cni.cncf.io"
	attachmentResource = "network-attachment-definitions"
	// defaultImage is tsnperf where nothing says what the cluster's images are called.
	defaultImage = "kubernetsn.io/tsnperf:dev"
	// nodePods is how the chart marks the pods with ktsnd.
	nodePods       = "app.kubernetes.io/component=node"
	ktsndContainer = "ktsnd"
)

// nodes are the two between which is measured, the talkers' first.
type nodes struct {
	talkers, listeners *corev1.Node
}

// chooseNodes takes the first two, by name, that take pods.
func (c *connection) chooseNodes(ctx context.Context) (nodes, error) {
	list := &corev1.NodeList{}
	if err := c.core.Get().Resource("nodes").Do(ctx).Into(list); err != nil {
		return nodes{}, c.explain("list the nodes", err)
	}
	usable := slices.DeleteFunc(list.Items, func(node corev1.Node) bool { return !takesPods(&node) })
	slices.SortFunc(usable, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	if len(usable) < 2 {
		return nodes{}, fmt.Errorf("%d of the cluster's %d nodes are ready and take pods; a bench measures between two, so add one",
			len(usable), len(list.Items))
	}
	return nodes{&usable[0], &usable[1]}, nil
}

func takesPods(node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (c *connection) networkNamespace() string {
	namespace, _, _ := strings.Cut(c.Network, "/")
	return namespace
}

func (c *connection) networkName() string {
	_, name, _ := strings.Cut(c.Network, "/")
	return name
}

// checkNetwork tells whether pods can be on the tsn network.
func (c *connection) checkNetwork(ctx context.Context) error {
	err := c.core.Get().AbsPath("/apis", attachmentGroup, "v1", "namespaces", c.networkNamespace(),
		attachmentResource, c.networkName()).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster has no network %s (NetworkAttachmentDefinition) for path tsn; install the chart kubernetsn, name "+
			"another with --network, or leave the path out", c.Network)
	}
	return c.explain("look for the tsn network", err)
}

// findKtsnd returns the pod of ktsnd on a node; nil when there is none.
func (c *connection) findKtsnd(ctx context.Context, node string) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.core.Get().Namespace(c.networkNamespace()).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: nodePods,
		FieldSelector: "spec.nodeName=" + node}, parameters).Do(ctx).Into(pods)
	if err != nil {
		return nil, c.explain("look for ktsnd's pods", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && ready(pod) {
			return pod, nil
		}
	}
	return nil, nil
}

// imageBeside is tsnperf of the same origin and version as ktsnd.
func imageBeside(ktsnd *corev1.Pod) string {
	for _, container := range ktsnd.Spec.Containers {
		if at := strings.LastIndex(container.Image, "/ktsnd:"); container.Name == ktsndContainer && at >= 0 {
			return container.Image[:at] + "/tsnperf:" + container.Image[at+len("/ktsnd:"):]
		}
	}
	return defaultImage
}
