// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	attachmentGroup    = "k8s.cni.cncf.io"
	attachmentResource = "network-attachment-definitions"
	networkResource    = "tsnnetworks"
	// defaultImage contains tsnperf if the names of the cluster's images are unknown.
	defaultImage = "localhost/kubernetsn/tsnperf:dev"
	// chartNamespace is the chart's default namespace.
	chartNamespace = "kubernetsn-system"
	// component is the chart's label of pods with ktsnd, and of the operator.
	component         = "app.kubernetes.io/component="
	ktsndPods         = component + "ktsnd"
	operatorPods      = component + "operator"
	agentPods         = component + "agent"
	ktsndContainer    = "ktsnd"
	operatorContainer = "operator"
)

// nodes are the two nodes of the measurement, the talkers' first.
type nodes struct {
	talkers, listeners *corev1.Node
}

// chooseNodes takes the first two nodes, by name, that accept pods.
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

// checkNetworkName rejects an invalid name of a network.
func checkNetworkName(network string) error {
	parts := strings.Split(network, "/")
	if len(parts) > 2 || slices.Contains(parts, "") {
		return fmt.Errorf("--network %q is neither the NAME of a TSNNetwork nor a NAMESPACE/NAME", network)
	}
	return nil
}

// networkNamespace returns the namespace of the chart, or of the NetworkAttachmentDefinition; without an operator they
// are one.
func (c *connection) networkNamespace() string {
	if namespace, _, both := strings.Cut(c.Network, "/"); both {
		return namespace
	}
	return chartNamespace
}

func (c *connection) networkName() string { return c.Network[strings.Index(c.Network, "/")+1:] }

// checkNetwork checks whether pods can be on the tsn network, and how.
func (c *connection) checkNetwork(ctx context.Context) error {
	err := c.core.Get().AbsPath("/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, networkResource,
		c.networkName()).Do(ctx).Error()
	c.annotated = err == nil
	switch {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return c.explain("look for TSNNetwork "+c.networkName(), err)
	case !strings.Contains(c.Network, "/"):
		return fmt.Errorf("the cluster has no TSNNetwork %s for path tsn; make it, name another with --network (NAMESPACE/NAME is a "+
			"NetworkAttachmentDefinition, where the chart has no operator), or leave the path out", c.Network)
	}
	return c.checkAttachment(ctx)
}

// checkAttachment checks for the network as a chart without an operator creates it.
func (c *connection) checkAttachment(ctx context.Context) error {
	err := c.core.Get().AbsPath("/apis", attachmentGroup, "v1", "namespaces", c.networkNamespace(),
		attachmentResource, c.networkName()).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster has no network %s for path tsn, neither TSNNetwork %s nor NetworkAttachmentDefinition %s; make a "+
			"TSNNetwork, or install the chart kubernetsn, name another with --network, or leave the path out", c.Network, c.networkName(),
			c.Network)
	}
	return c.explain("look for the tsn network", err)
}

// findKtsnd returns the pod of ktsnd on a node, nil if there is none.
func (c *connection) findKtsnd(ctx context.Context, node string) (*corev1.Pod, error) {
	return c.findPod(ctx, "ktsnd", metav1.ListOptions{LabelSelector: ktsndPods, FieldSelector: "spec.nodeName=" + node})
}

// findPod returns a ready pod of the chart, nil if there is none.
func (c *connection) findPod(ctx context.Context, whose string, which metav1.ListOptions) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.core.Get().Namespace(c.networkNamespace()).Resource("pods").VersionedParams(&which, parameters).Do(ctx).Into(pods)
	if err != nil {
		return nil, c.explain("look for the pods of "+whose, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && ready(pod) {
			return pod, nil
		}
	}
	return nil, nil
}

// imageOf returns the tsnperf image of the same registry and version as ktsnd's, or the operator's.
func imageOf(pod *corev1.Pod) string {
	called := map[string]string{ktsndContainer: "/ktsnd:", operatorContainer: "/ktsn-operator:"}
	for _, container := range pod.Spec.Containers {
		name, known := called[container.Name]
		if at := strings.LastIndex(container.Image, name); known && at >= 0 {
			return container.Image[:at] + "/tsnperf:" + container.Image[at+len(name):]
		}
	}
	return defaultImage
}
