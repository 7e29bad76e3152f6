// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// maxRows limits the rows of a table. The worst rows come first.
const maxRows = 50

// nodeState is the state of a network on a node.
type nodeState struct {
	Name         string             `json:"name"`
	IPv4         string             `json:"ipv4"`
	IPv6         string             `json:"ipv6,omitempty"`
	Pods         int32              `json:"pods"`
	Uplink       string             `json:"uplink,omitempty"`
	LinkSpeed    string             `json:"linkSpeed,omitempty"`
	ScheduleHash string             `json:"scheduleHash,omitempty"`
	Conditions   []metav1.Condition `json:"conditions,omitempty"`
}

// listNodes lists the TSNNodes.
func listNodes(ctx context.Context, c *clusterreader.Cluster) ([]v1alpha1.TSNNode, error) {
	nodes, err := clusterreader.List[v1alpha1.TSNNode](ctx, c, clusterreader.TSNNodes, "", "", "")
	if err != nil {
		return nil, fmt.Errorf("list the cluster's TSNNodes: %w; `ktsn doctor` says what is missing", err)
	}
	return nodes, nil
}

// statesOf returns the states of the nodes with a subnet of a network, the worst first.
func statesOf(network string, nodes []v1alpha1.TSNNode) []nodeState {
	states := []nodeState{}
	for i := range nodes {
		part, status := tsnnetwork.OnNode(&nodes[i], network)
		if part == nil {
			continue
		}
		state := nodeState{Name: nodes[i].Name, IPv4: part.IPv4, IPv6: part.IPv6, Pods: part.Pods}
		if status != nil {
			state.Uplink, state.LinkSpeed, state.ScheduleHash, state.Conditions = status.Uplink, status.LinkSpeed, status.ScheduleHash, status.Conditions
		}
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b nodeState) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Name, b.Name))
	})
	return states
}

// rank is 0 for the worst.
func (n *nodeState) rank() int {
	ready := meta.FindStatusCondition(n.Conditions, v1alpha1.ConditionReady)
	gates := meta.FindStatusCondition(n.Conditions, v1alpha1.ConditionScheduleOperational)
	switch {
	case ready != nil && ready.Status != metav1.ConditionTrue:
		return 0
	case ready == nil && n.Pods > 0:
		return 1
	case gates != nil && gates.Status == metav1.ConditionFalse:
		return 2
	case meta.IsStatusConditionFalse(n.Conditions, v1alpha1.ConditionClockSynchronized):
		return 3
	case gates != nil && gates.Status != metav1.ConditionTrue:
		return 4
	}
	return 5
}

// printMore prints the number of omitted rows.
func printMore(table io.Writer, indent string, count int) {
	if count > maxRows {
		fmt.Fprintf(table, "%sand %d more; -o json has all\n", indent, count-maxRows)
	}
}
