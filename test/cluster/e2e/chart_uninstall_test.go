// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// nodeListing lists, with contents, the files of a node that a network or a CSI driver could leave, and its interfaces
// and filters. It skips Flannel's, whose IPAM creates the folder of all networks with the node's first pod.
const nodeListing = `
for dir in /opt/cni/bin /etc/cni /var/lib/cni /run/ktsn /var/lib/kubelet/plugins /var/lib/kubelet/plugins_registry; do
	find $dir ! -path '/var/lib/cni/flannel*' ! -path /var/lib/cni/networks ! -path '/var/lib/cni/networks/cbr0*' ! -path '/var/lib/cni/results*' ! -path '/var/lib/cni/multus*' \
		\( -type f -exec sha256sum {} + -o -printf '%p\n' \) 2>/dev/null
done | sort
ip -o link | awk -F': ' '/: (tsn|ktsnr|veth.*tsn)/ { print "interface " $2 }'
nft list tables | grep kubernetsn
find /sys/fs/bpf/ktsn 2>/dev/null
for at in /sys/class/net/*; do tc filter show dev ${at##*/} ingress 2>/dev/null | grep -o 'ktsn_receive[^ ]*'; done
true
`

// clusterState is what an installation of the chart must leave as it was: files of nodes, objects, and everything that
// pods could leave.
type clusterState struct {
	files     map[string]string
	objects   map[string]bool
	inventory map[string]map[string]bool
}

func currentState(ctx context.Context, t *testing.T) clusterState {
	t.Helper()
	return clusterState{nodeFiles(ctx, t), objects(ctx, t), inventories(ctx, t)}
}

// isRestored fails the test unless nodes and cluster have, after a while, what they had before, and no more.
func (before clusterState) isRestored(ctx context.Context, t *testing.T) {
	t.Helper()
	for host, after := range nodeFiles(ctx, t) {
		if after != before.files[host] {
			t.Errorf("%s has changed: %s", host, difference(before.files[host], after))
		}
	}
	leavesNothing(ctx, t, before.inventory)
	await(ctx, t, func(ctx context.Context) error {
		after, err := objectsNow(ctx)
		if err != nil {
			return err
		}
		left, missing := without(after, before.objects), without(before.objects, after)
		if len(left)+len(missing) > 0 {
			return fmt.Errorf("left in the cluster: %s; missing in it: %s", strings.Join(left, ", "), strings.Join(missing, ", "))
		}
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.NodeLabel})
		if err == nil && len(nodes.Items) > 0 {
			err = fmt.Errorf("%d nodes are still labelled", len(nodes.Items))
		}
		return err
	})
}

// nodeFiles returns the listing of all nodes.
func nodeFiles(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, host := range under.Nodes {
		text, err := node.Output(ctx, under.Place(host.Name), nil, "sh", "-c", nodeListing)
		if err != nil {
			t.Fatal(err)
		}
		all[host.Name] = text
	}
	return all
}

// passing are kinds of objects that come and go by themselves.
var passing = []string{"events", "leases", "endpoints", "endpointslices", "pods", "controllerrevisions", "componentstatuses"}

// objects returns all objects of the cluster.
func objects(ctx context.Context, t *testing.T) map[string]bool {
	t.Helper()
	var all map[string]bool
	await(ctx, t, func(ctx context.Context) (err error) {
		all, err = objectsNow(ctx)
		return err
	})
	return all
}

// objectsNow fails while the API server still offers a kind that has just been removed.
func objectsNow(ctx context.Context) (map[string]bool, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds, err := discoverer.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, list := range kinds {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || slices.Contains(passing, kind.Name) {
				continue
			}
			items, err := dynamicClient.Resource(group.WithResource(kind.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list the %s: %w", kind.Name, err)
			}
			for _, item := range items.Items {
				// Namespaces of earlier tests may still be terminating.
				if !strings.HasPrefix(item.GetNamespace()+item.GetName(), "e2e-") {
					all[fmt.Sprintf("%s.%s %s/%s", kind.Name, group.Group, item.GetNamespace(), item.GetName())] = true
				}
			}
		}
	}
	return all, nil
}

func TestUninstall(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	users := []*corev1.Pod{onChart(waiting("receiver", under.Nodes[1].Name))}
	for i := range 8 {
		users = append(users, timed(waiting(fmt.Sprintf("user-%d", i), under.Nodes[i%2].Name)))
	}
	start(ctx, t, namespace, users...)
	output, err := helm(ctx, t, "uninstall", release, "--wait", "--timeout", "3m")
	want := fmt.Sprintf("are in use by pods %[1]s/receiver, %[1]s/user-0, ", namespace)
	if err == nil || !strings.Contains(output, want) || !strings.Contains(output, "; delete them first, nothing was removed") {
		t.Fatalf("got %v, %q; want %q in it", err, output, want)
	}
	waitForChart(ctx, t)
	// A hook also removes its rights if it fails.
	for object := range objects(ctx, t) {
		if strings.Contains(object, "ktsn-removal") && !strings.HasPrefix(object, "jobs.") {
			t.Errorf("after the refusal there is still %s", object)
		}
	}
	recovers(ctx, t)
	// Without grace, so that the pods are gone long before kubelets have unmounted so many volumes.
	deleteNamespace(t, namespace)
	// The pod of an earlier attempt that was killed half-way.
	stale := waiting("ktsn-clean-"+under.Nodes[0].Name, under.Nodes[0].Name)
	if _, err := client.CoreV1().Pods(chartSystem).Create(ctx, stale, createOptions); err != nil {
		t.Fatal(err)
	}
	if output, err = helm(ctx, t, "uninstall", release, "--wait", "--timeout", "5m"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	chart.installed = false
	chart.before.isRestored(ctx, t)
}

// recovers follows docs/guide/install.md for a refused uninstallation: helm upgrades no release that it has begun to remove,
// until it is rolled back.
func recovers(ctx context.Context, t *testing.T) {
	t.Helper()
	output, err := helm(ctx, t, "list", "--all", "--filter", "^"+release+"$", "--output", "json")
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	var releases []struct{ Revision, Status string }
	if err := json.Unmarshal([]byte(output), &releases); err != nil || len(releases) != 1 {
		t.Fatalf("%v, %v: %s", releases, err, output)
	}
	if releases[0].Status != "uninstalling" {
		t.Errorf("the release is %s", releases[0].Status)
	}
	// An attempt that fails later may have removed this.
	if err := client.AppsV1().DaemonSets(chartSystem).Delete(ctx, "ktsnd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mustHelm(ctx, t, "rollback", release, releases[0].Revision, "--wait", "--timeout", "3m")
	upgradeChart(ctx, t)
}

// without returns the members of set that other lacks.
func without(set, other map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(set)), func(name string) bool { return other[name] })
}

// difference returns the lines that only one of two texts has.
func difference(before, after string) string {
	had, has := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(before) {
		had[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(after) {
		has[strings.TrimSpace(line)] = true
	}
	return fmt.Sprintf("gone %q, new %q", without(had, has), without(has, had))
}
