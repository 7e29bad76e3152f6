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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/command"
)

const aboutRemove = `Usage: ktsn-operator remove [OPTION]...

Removes all TSNNetworks of the cluster, and waits until the operator has removed what belongs to them. Refuses while
there are pods on them, and changes nothing then. Runs in a pod, before helm uninstalls the chart.

Options:
`

// remove is the command of the chart's hook.
func remove(ctx context.Context, arguments []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("ktsn-operator remove", flag.ContinueOnError)
	timeout := flags.Duration("timeout", time.Minute, "how long all of it may take")
	if err := command.Parse(flags, aboutRemove, arguments, stdout); err != nil {
		return err
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
	return Remove(ctx, cluster)
}

// Remove removes all networks, unless there are pods on them, and takes the operator's label off nodes that still linger
// with it. The agents go with the label, when their kubelets do not need them any more.
func Remove(ctx context.Context, cluster client.Client) error {
	var pods corev1.PodList
	if err := cluster.List(ctx, &pods, client.MatchingLabels{v1alpha1.PodLabel: v1alpha1.LabelValue}); err != nil {
		return fmt.Errorf("list the pods on networks: %w", err)
	}
	if len(pods.Items) > 0 {
		var names []string
		for _, pod := range pods.Items {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
		slices.Sort(names)
		return fmt.Errorf("%d pods are on networks; remove them first, and what makes them: %s", len(names), strings.Join(some(names), ", "))
	}
	var networks v1alpha1.TSNNetworkList
	if err := cluster.List(ctx, &networks); err != nil {
		return fmt.Errorf("list the networks: %w", err)
	}
	for i := range networks.Items {
		if err := client.IgnoreNotFound(cluster.Delete(ctx, &networks.Items[i])); err != nil {
			return fmt.Errorf("remove network %s: %w", networks.Items[i].Name, err)
		}
	}
	if err := waitGone(ctx, cluster); err != nil {
		return err
	}
	return unlabel(ctx, cluster)
}

// waitGone waits until the operator has let the networks go.
func waitGone(ctx context.Context, cluster client.Client) error {
	for {
		var networks v1alpha1.TSNNetworkList
		if err := cluster.List(ctx, &networks); err != nil {
			return fmt.Errorf("list the networks: %w", err)
		}
		if len(networks.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("network %s is still there; does ktsn-operator run? It removes what belongs to the network", networks.Items[0].Name)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func unlabel(ctx context.Context, cluster client.Client) error {
	var nodes corev1.NodeList
	if err := cluster.List(ctx, &nodes, client.HasLabels{v1alpha1.NodeLabel}); err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.NodeLabel)
	for i := range nodes.Items {
		err := cluster.Patch(ctx, &nodes.Items[i], client.RawPatch(types.MergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take the label off node %s: %w", nodes.Items[i].Name, err)
		}
	}
	return nil
}
