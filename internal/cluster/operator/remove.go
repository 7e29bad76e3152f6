// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

const aboutRemove = `Usage: ktsn-operator remove [OPTION]...

Deletes all TSNNetworks of the cluster, and waits until the operator has removed everything that belongs to them. Fails
without a change while there are pods on networks or with links. Runs in a pod, before helm uninstalls the chart.

Options:
`

// remove is the subcommand that the chart's hook runs.
func remove(ctx context.Context, arguments []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("ktsn-operator remove", flag.ContinueOnError)
	namespace := flags.String("namespace", "", "`NAME` of the operator's namespace (required)")
	timeout := flags.Duration("timeout", time.Minute, "how long the command may take")
	if err := commandline.Parse(flags, aboutRemove, arguments, stdout); err != nil {
		return err
	}
	if *namespace == "" {
		return fmt.Errorf("--namespace is missing; %w", commandline.ErrUsage)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; this command runs in a pod with a service account", err)
	}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return err
	}
	cluster, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	return Remove(ctx, cluster, *namespace)
}

// Remove deletes all networks, the operator's labels of nodes, and the attachment of pods with links. It fails without a change if there
// are pods on networks or with links. Agents are removed with their labels, when kubelet does not need them any more.
func Remove(ctx context.Context, cluster client.Client, namespace string) error {
	var names []string
	err := retry.Until(ctx, pollInterval, func() (err error) {
		names, err = onNetworks(ctx, cluster)
		return err
	})
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("%d pods are on networks or have links; delete them and their controllers first: %s", len(names), strings.Join(abbreviate(names), ", "))
	}
	for _, step := range []func(context.Context, client.Client) error{deleteNetworks, checkDeleted, removeLabels} {
		if err := retry.Until(ctx, pollInterval, func() error { return step(ctx, cluster) }); err != nil {
			return err
		}
	}
	return retry.Until(ctx, pollInterval, func() error {
		err := cluster.Delete(ctx, newAttachment(v1alpha1.LinksAttachment, namespace))
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the NetworkAttachmentDefinition %s: %w", v1alpha1.LinksAttachment, err)
		}
		return nil
	})
}

// pollInterval is the interval between attempts.
const pollInterval = 200 * time.Millisecond

// onNetworks lists the pods on networks.
func onNetworks(ctx context.Context, cluster client.Client) ([]string, error) {
	var pods corev1.PodList
	if err := cluster.List(ctx, &pods, client.MatchingLabels{v1alpha1.PodLabel: v1alpha1.LabelValue}); err != nil {
		return nil, fmt.Errorf("list the pods on networks: %w", err)
	}
	var names []string
	for i := range pods.Items {
		if isMirror(&pods.Items[i]) {
			continue
		}
		pod := &pods.Items[i]
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(names)
	return names, nil
}

// remainingNetworks lists the networks. It returns none if their kind is already removed.
func remainingNetworks(ctx context.Context, cluster client.Client) ([]v1alpha1.TSNNetwork, error) {
	var networks v1alpha1.TSNNetworkList
	if err := cluster.List(ctx, &networks); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list the networks: %w", err)
	}
	return networks.Items, nil
}

func deleteNetworks(ctx context.Context, cluster client.Client) error {
	networks, err := remainingNetworks(ctx, cluster)
	if err != nil {
		return err
	}
	for i := range networks {
		if err := client.IgnoreNotFound(cluster.Delete(ctx, &networks[i])); err != nil {
			return fmt.Errorf("delete network %s: %w", networks[i].Name, err)
		}
	}
	return nil
}

// checkDeleted returns an error while there are networks, with the reason.
func checkDeleted(ctx context.Context, cluster client.Client) error {
	networks, err := remainingNetworks(ctx, cluster)
	if err != nil || len(networks) == 0 {
		return err
	}
	first := &networks[0]
	// A pod may have been admitted while the networks were deleted.
	if condition := meta.FindStatusCondition(first.Status.Conditions, v1alpha1.ConditionReady); condition != nil && condition.Reason == v1alpha1.ReasonInUse {
		return fmt.Errorf("network %s is still there: %s", first.Name, condition.Message)
	}
	return fmt.Errorf("network %s is still there; does ktsn-operator run? It removes the finalizer", first.Name)
}

// removeLabels removes the operator's labels from nodes. A running operator has already removed those of clocks with the networks.
func removeLabels(ctx context.Context, cluster client.Client) error {
	var nodes corev1.NodeList
	if err := cluster.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for i := range nodes.Items {
		labels := map[string]any{}
		for label := range nodes.Items[i].Labels {
			if nodeLabel(label) {
				labels[label] = nil
			}
		}
		if err := patchNodeLabels(ctx, cluster, nodes.Items[i].Name, labels); err != nil {
			return err
		}
	}
	return nil
}
