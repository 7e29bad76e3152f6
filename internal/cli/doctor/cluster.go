// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// webhook is the used part of a MutatingWebhookConfiguration.
type webhook struct {
	Webhooks []struct {
		ClientConfig struct {
			CABundle string `json:"caBundle"`
		} `json:"clientConfig"`
	} `json:"webhooks"`
}

// CheckCluster checks what a cluster needs before there are pods on networks.
func (d *Doctor) CheckCluster(ctx context.Context) ([]Finding, error) {
	d.operator(ctx)
	d.webhook(ctx)
	d.multus(ctx)
	networks, err := clusterreader.List[v1alpha1.TSNNetwork](ctx, d.Cluster, clusterreader.Networks, "", "", "")
	switch {
	case apierrors.IsNotFound(err):
		d.report(Bad, "networks", "install the chart with operator.enabled", "the cluster knows no TSNNetworks")
	case err != nil:
		d.unreadable("networks", err)
	case len(networks) == 0:
		d.report(Note, "networks", "create one; docs/guide/networks.md has an example", "there is no TSNNetwork yet")
	}
	for i := range networks {
		d.conditions("network "+networks[i].Name, &networks[i])
	}
	d.detachedPods(ctx)
	d.links(ctx, "links", everyLink)
	d.activeNodes(ctx)
	return d.take(), nil
}

func (d *Doctor) operator(ctx context.Context) {
	const about = "operator"
	pods, err := clusterreader.List[corev1.Pod](ctx, d.Cluster, clusterreader.Pods, d.Cluster.System, clusterreader.OperatorPods, "")
	if err != nil {
		d.unreadable(about, err)
		return
	}
	ready := 0
	for i := range pods {
		if podstatus.Ready(&pods[i]) {
			ready++
		}
	}
	mend := "`kubectl -n " + d.Cluster.System + " describe deployment ktsn-operator` says why"
	switch {
	case len(pods) == 0:
		d.report(Bad, about, mend+"; with operator.enabled the chart has it", "no ktsn-operator is in namespace %s", d.Cluster.System)
	case ready == 0:
		d.report(Bad, about, mend, "none of %d is ready, and annotated pods are refused until one is", len(pods))
	default:
		d.ok(about, "%d of %d are ready", ready, len(pods))
	}
}

func (d *Doctor) webhook(ctx context.Context) {
	const about = "webhook"
	var known webhook
	err := d.Cluster.Get(ctx, clusterreader.Webhooks, "", "kubernetsn", &known)
	switch {
	case apierrors.IsNotFound(err):
		d.report(Bad, about, "install the chart with operator.enabled", "the API server calls no webhook for annotated pods, so that they are on no network")
	case err != nil:
		d.unreadable(about, err)
	case len(known.Webhooks) == 0 || known.Webhooks[0].ClientConfig.CABundle == "":
		d.report(Bad, about, "the operator's log has the reason why it could not write it", "the API server has no certificate to verify it")
	default:
		d.ok(about, "the API server knows it and its certificate")
	}
}

func (d *Doctor) multus(ctx context.Context) {
	const about = "Multus"
	_, err := clusterreader.List[map[string]any](ctx, d.Cluster, clusterreader.Attachments, d.Cluster.System, "", "")
	switch {
	case apierrors.IsNotFound(err):
		d.report(Bad, about, "install Multus", "the cluster knows no NetworkAttachmentDefinitions, by which pods get a second network")
	case err != nil:
		d.unreadable(about, err)
	default:
		d.ok(about, "the cluster knows NetworkAttachmentDefinitions")
	}
}

// maxPods limits the pods that are named.
const maxPods = 10

// detachedPods reports the pods whose agents find no interface on a network that they name.
func (d *Doctor) detachedPods(ctx context.Context) {
	pods, err := clusterreader.List[corev1.Pod](ctx, d.Cluster, clusterreader.Pods, metav1.NamespaceAll, v1alpha1.PodLabel, "")
	if err != nil {
		d.unreadable("pods", err)
		return
	}
	detached := 0
	for i := range pods {
		if condition := podstatus.Attached(&pods[i]); condition != nil && condition.Status == corev1.ConditionFalse {
			if detached++; detached <= maxPods {
				d.report(Bad, "pod "+pods[i].Namespace+"/"+pods[i].Name, makeAnew, "%s: %s", condition.Reason, condition.Message)
			}
		}
	}
	if detached > maxPods {
		d.report(Bad, "pods", "`kubectl get pods -A -l "+v1alpha1.PodLabel+"` lists them", "%d more pods lack an interface", detached-maxPods)
	}
}

// maxNodes limits the nodes that are checked one by one, each with several requests.
const maxNodes = 50

// activeNodes checks the nodes with ktsnd; of many only those that are not ready.
func (d *Doctor) activeNodes(ctx context.Context) {
	nodes, err := clusterreader.List[corev1.Node](ctx, d.Cluster, clusterreader.Nodes, "", v1alpha1.NodeLabel, "")
	if err != nil {
		d.unreadable("nodes", err)
		return
	}
	if len(nodes) > maxNodes {
		nodes = d.unready(ctx, nodes)
	}
	for i := range nodes[:min(len(nodes), maxNodes)] {
		d.node(ctx, nodes[i].Name)
	}
}

// unready returns the nodes that are not ready, or have no ready ktsnd or agent.
func (d *Doctor) unready(ctx context.Context, nodes []corev1.Node) []corev1.Node {
	const about = "nodes"
	ready := map[string]map[string]bool{}
	for _, selector := range []string{clusterreader.KtsndPods, clusterreader.AgentPods} {
		pods, err := clusterreader.List[corev1.Pod](ctx, d.Cluster, clusterreader.Pods, d.Cluster.System, selector, "")
		if err != nil {
			d.unreadable(about, err)
			return nil
		}
		ready[selector] = map[string]bool{}
		for i := range pods {
			if podstatus.Ready(&pods[i]) {
				ready[selector][pods[i].Spec.NodeName] = true
			}
		}
	}
	var bad []corev1.Node
	for i := range nodes {
		if name := nodes[i].Name; !ready[clusterreader.KtsndPods][name] || !ready[clusterreader.AgentPods][name] || !nodeReady(&nodes[i]) {
			bad = append(bad, nodes[i])
		}
	}
	if well := len(nodes) - len(bad); len(bad) <= maxNodes {
		d.report(OK, about, "", "%d of %d have a ktsnd and an agent that are ready", well, len(nodes))
	} else {
		d.report(Bad, about, "find what these nodes have in common", "%d of %d have a ktsnd and an agent that are ready; %d of the others follow",
			well, len(nodes), maxNodes)
	}
	return bad
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}
