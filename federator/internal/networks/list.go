// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Name returns the name of a network's policies.
func Name(network string) string { return "kubernetsn-network-" + network }

// List returns the networks of the hub.
func List(ctx context.Context, kept hub.Lister) (*federation.Networks, error) {
	var (
		list      tsn.TSNNetworkList
		overrides policyv1alpha1.ClusterOverridePolicyList
		bindings  workv1alpha2.ClusterResourceBindingList
	)
	for _, row := range []struct {
		what string
		into client.ObjectList
	}{{"list the networks", &list}, {"list the parts of networks", &overrides}, {"list the reports of clusters about networks", &bindings}} {
		if err := kept.List(ctx, row.into); err != nil {
			return nil, fmt.Errorf("%s: %w", row.what, err)
		}
	}
	all := &federation.Networks{Items: []federation.Network{}}
	for i := range list.Items {
		network := &list.Items[i]
		currentNetwork := Describe(network)
		if at := slices.IndexFunc(overrides.Items, func(policy policyv1alpha1.ClusterOverridePolicy) bool { return policy.Name == Name(network.Name) }); at >= 0 {
			addParts(currentNetwork, &overrides.Items[at], reportsIn(bindings.Items, network.Name))
		}
		all.Items = append(all.Items, *currentNetwork)
	}
	slices.SortFunc(all.Items, func(a, b federation.Network) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// reportsIn returns the reports of clusters about a network.
func reportsIn(bindings []workv1alpha2.ClusterResourceBinding, network string) map[string]report {
	at := slices.IndexFunc(bindings, func(binding workv1alpha2.ClusterResourceBinding) bool {
		return binding.Name == spread.BindingName("TSNNetwork", network)
	})
	if at < 0 {
		return nil
	}
	return spread.Reports[reportedStatus](&bindings[at].Status)
}

// addParts adds the subnets of a network. A network that does not span clusters has none.
func addParts(network *federation.Network, override *policyv1alpha1.ClusterOverridePolicy, reports map[string]report) {
	for cluster, share := range sharesOf(override) {
		report := reports[cluster]
		network.Clusters = append(network.Clusters, federation.NetworkOnCluster{
			Cluster: cluster, IPv4: share.ipv4, IPv6: share.ipv6, Applied: report.Applied, Nodes: len(report.Status.Peers), MTU: report.Status.MTU,
		})
	}
	slices.SortFunc(network.Clusters, func(a, b federation.NetworkOnCluster) int { return cmp.Compare(a.Cluster, b.Cluster) })
}

// Describe returns a network as the API shows it, without its subnets.
func Describe(network *tsn.TSNNetwork) *federation.Network {
	currentNetwork := &federation.Network{
		Name: network.Name, VNI: network.Spec.VNI, IPv4: network.Spec.IPv4.CIDR, Clusters: []federation.NetworkOnCluster{}, Conditions: spread.APIConditions(network.Status.Conditions),
	}
	if network.Spec.IPv6 != nil {
		currentNetwork.IPv6 = network.Spec.IPv6.CIDR
	}
	return currentNetwork
}

// report is the report of a cluster about a network.
type report = spread.Report[reportedStatus]

// reportedStatus is the part of a member's status that is read. It is not trusted.
type reportedStatus struct {
	Peers      []tsn.PeerNode     `json:"peers"`
	MTU        int32              `json:"mtu"`
	Conditions []metav1.Condition `json:"conditions"`
	// ClusterKeys are the cluster keys that the cluster's nodes trust; the key without a name is its own.
	ClusterKeys []tsn.ClusterKey `json:"clusterKeys"`
}

// readReports reads the reports that Karmada has collected from the clusters.
func readReports(ctx context.Context, c client.Reader, network string) (map[string]report, error) {
	var binding workv1alpha2.ClusterResourceBinding
	err := c.Get(ctx, types.NamespacedName{Name: spread.BindingName("TSNNetwork", network)}, &binding)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the reports of clusters about network %s: %w", network, err)
	}
	return spread.Reports[reportedStatus](&binding.Status), nil
}
