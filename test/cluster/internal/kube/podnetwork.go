// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// PodNetworkFile is the first pod network's configuration for the container runtime and Multus.
const PodNetworkFile = "/etc/cni/net.d/10-flannel.conf"

// PodNetwork returns the configuration of the first network of a node's pods: the one that Flannel's own plugin would
// delegate to. It is a single plugin and not a list, because Multus 4.2.2 forgets most of a list before it deletes, so
// that addresses are never released (k8snetworkplumbingwg/multus-cni issue 1449).
func PodNetwork(ctx context.Context, client kubernetes.Interface, host string) ([]byte, error) {
	node, err := client.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the range of addresses of %s: %w", host, err)
	}
	if node.Spec.PodCIDR == "" {
		return nil, fmt.Errorf("%s has no range of addresses yet", host)
	}
	return json.MarshalIndent(map[string]any{
		"cniVersion":       "1.0.0",
		"name":             "cbr0",
		"type":             "bridge",
		"bridge":           "cni0",
		"isDefaultGateway": true,
		"hairpinMode":      true,
		"mtu":              plan.PodMTU,
		"ipam": map[string]any{
			"type":   "host-local",
			"ranges": [][]map[string]string{{{"subnet": node.Spec.PodCIDR}}},
		},
	}, "", "  ")
}
