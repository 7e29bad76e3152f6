// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// makeNodes creates the network and starts the nodes.
func (s *start) makeNodes(ctx context.Context) error {
	credentials, err := kube.NewCredentials(s.Plan)
	if err != nil {
		return err
	}
	admin, err := credentials.Kubeconfig("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.Kubeconfig(), admin, 0o600); err != nil {
		return err
	}
	if err := network.CreateSwitch(ctx, s.Plan); err != nil {
		return err
	}
	budgets := make([]int, len(s.Nodes))
	if cgroups.RealtimeDivided() {
		budgets = perNode(s.options.RealtimeBudgets, len(s.Nodes))
	}
	if sum := sumOf(budgets); sum > 0 {
		if err := cgroups.GiveRealtime(ctx, s.Cgroup(), sum); err != nil {
			return err
		}
	}
	for i, host := range s.Nodes {
		if err := s.makeNode(ctx, credentials, host, budgets[i]); err != nil {
			return err
		}
	}
	return nil
}

// perNode returns each node's budget: nodes without one get the last.
func perNode(budgets []int, nodes int) []int {
	all := make([]int, nodes)
	for i := range all {
		if len(budgets) > 0 {
			all[i] = budgets[min(i, len(budgets)-1)]
		}
	}
	return all
}

func sumOf(numbers []int) int {
	sum := 0
	for _, number := range numbers {
		sum += number
	}
	return sum
}

func (s *start) makeNode(ctx context.Context, credentials *kube.Credentials, host plan.Node, budget int) error {
	setUp := s.setUpNode
	if s.Hub {
		setUp = s.setUpHub
	}
	setup, err := setUp(credentials, host)
	if err != nil {
		return err
	}
	place := s.Place(host.Name)
	place.RealtimeBudget = budget
	if err := node.WriteRoot(s.Root(host.Name), host.Name, setup); err != nil {
		return err
	}
	if err := node.WriteSpec(place, setup); err != nil {
		return err
	}
	if err := network.CreateNode(ctx, s.Plan, host); err != nil {
		return err
	}
	return node.Start(ctx, place)
}

// setUpNode returns the set-up of a node.
func (s *start) setUpNode(credentials *kube.Credentials, host plan.Node) (node.Setup, error) {
	version, err := cgroups.Version()
	if err != nil {
		return node.Setup{}, err
	}
	setup, err := kube.Setup(credentials, host, "kubernetsn.io/pause:"+components.Tag, version)
	if err != nil {
		return node.Setup{}, err
	}
	setup.Programs = map[string]string{kube.Programs: s.built.Programs[components.Kubernetes]}
	setup.Plugins, err = filepath.Glob(filepath.Join(s.built.Programs["cniplugins"], "*"))
	return setup, err
}
