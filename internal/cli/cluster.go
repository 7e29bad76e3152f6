// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// clusterFlags has the options that select a cluster.
type clusterFlags struct{ kubeconfig, context, system string }

func addClusterFlags(command *cobra.Command, w *clusterFlags) {
	flags := command.Flags()
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig `FILE`, as for kubectl")
	flags.StringVar(&w.context, "context", "", "`NAME` of a context in that file")
	flags.StringVar(&w.system, "system-namespace", clusterreader.DefaultSystem, "`NAME` of the namespace of ktsnd and operator")
}

func (w *clusterFlags) open() (*clusterreader.Cluster, error) {
	return clusterreader.Open(w.kubeconfig, w.context, w.system)
}

// onNode runs ktsn next to the ktsnd of a node of the cluster.
func (w *clusterFlags) onNode(ctx context.Context, node string, out io.Writer, arguments ...string) error {
	c, err := w.open()
	if err != nil {
		return err
	}
	return c.Ktsn(ctx, node, out, arguments...)
}

func (w *clusterFlags) status(ctx context.Context, out io.Writer, format string) error {
	c, err := w.open()
	if err != nil {
		return err
	}
	all, err := readOverview(ctx, c)
	if err != nil {
		return err
	}
	return show(out, format, all, printOverview)
}

// overview is the output of `ktsn status --cluster`.
type overview struct {
	Operators []podState            `json:"operators"`
	Ktsnd     []podState            `json:"ktsnd"`
	Agents    []podState            `json:"agents"`
	Networks  []v1alpha1.TSNNetwork `json:"networks"`
	Nodes     []v1alpha1.TSNNode    `json:"nodes"`
	Links     []v1alpha1.TSNLink    `json:"links"`
}

// podState is the state of a pod of the chart.
type podState struct {
	Node  string `json:"node"`
	Pod   string `json:"pod"`
	Ready bool   `json:"ready"`
}

func readOverview(ctx context.Context, c *clusterreader.Cluster) (*overview, error) {
	var all overview
	var err error
	if all.Networks, err = listNetworks(ctx, c); err != nil {
		return nil, err
	}
	if all.Nodes, err = listNodes(ctx, c); err != nil {
		return nil, err
	}
	if all.Links, err = listLinks(ctx, c); err != nil {
		return nil, err
	}
	for selector, into := range map[string]*[]podState{
		clusterreader.OperatorPods: &all.Operators, clusterreader.KtsndPods: &all.Ktsnd, clusterreader.AgentPods: &all.Agents,
	} {
		if *into, err = podStates(ctx, c, selector); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

func podStates(ctx context.Context, c *clusterreader.Cluster, selector string) ([]podState, error) {
	pods, err := clusterreader.List[corev1.Pod](ctx, c, clusterreader.Pods, c.System, selector, "")
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", c.System, err)
	}
	states := []podState{}
	for i := range pods {
		states = append(states, podState{pods[i].Spec.NodeName, pods[i].Name, podstatus.Ready(&pods[i])})
	}
	slices.SortStableFunc(states, func(a, b podState) int { return cmp.Compare(rankOf(a.Ready), rankOf(b.Ready)) })
	return states, nil
}

// rankOf sorts pods that are not ready first.
func rankOf(well bool) int {
	if well {
		return 1
	}
	return 0
}

func printOverview(out io.Writer, all *overview) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "program\tnode\tpod\tready")
	for _, part := range []struct {
		name string
		pods []podState
	}{{"ktsn-operator", all.Operators}, {"ktsnd", all.Ktsnd}, {"ktsn-agent", all.Agents}} {
		for _, pod := range part.pods[:min(len(part.pods), maxRows)] {
			fmt.Fprintf(table, "%s\t%s\t%s\t%v\n", part.name, pod.Node, pod.Pod, pod.Ready)
		}
		printMore(table, part.name+"\t", len(part.pods))
	}
	for i := range all.Networks {
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
		name := all.Networks[i].Name
		printNetwork(out, table, &all.Networks[i], statesOf(name, all.Nodes), latencyErrorLine(name, all.Nodes))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return printLinks(out, table, all.Links)
}

func printNetwork(out, table io.Writer, network *v1alpha1.TSNNetwork, nodes []nodeState, latencyError string) {
	ranges := network.Spec.IPv4.CIDR
	if network.Spec.IPv6 != nil {
		ranges += ", " + network.Spec.IPv6.CIDR
	}
	fmt.Fprintf(out, "network %s: VNI %d, %s, %d pods, capture %s, receive %s, encryption %s\n", network.Name, network.Spec.VNI, ranges, network.Status.Pods, orDash(network.Spec.Capture),
		receiveInShort(network.Spec.Receive), orDash(network.Spec.Encryption))
	if limits, err := tsnnetwork.LimitsOf(network); err == nil && limits.Any() {
		fmt.Fprintf(out, "  limits of a pod: %s\n", limitsLine(limits))
	}
	if clock := network.Spec.Clock; clock != nil {
		fmt.Fprintf(out, "  clocks of nodes: an error of at most %s, %s without a source; messages where it is lost: %s\n", clock.MaxError, clock.Holdover, clock.OnLoss)
	}
	if latencyError != "" {
		fmt.Fprintf(out, "  error of one-way latencies between nodes: %s\n", latencyError)
	}
	for _, condition := range network.Status.Conditions {
		fmt.Fprintf(out, "  %s: %s, %s\n", condition.Type, condition.Status, condition.Message)
	}
	if counts := network.Status.NodeCounts; counts != nil {
		fmt.Fprintf(out, "  nodes: %d have a part of it, %d pods, %d are ready, %d execute its schedule\n", counts.Allocated, counts.WithPods, counts.Ready,
			counts.ScheduleOperational)
	}
	if len(nodes) == 0 {
		return
	}
	fmt.Fprintln(table, "  node\taddresses\tpods\tuplink\tspeed\tready\tpeers\tschedule\tcaptured\tclock\tencrypted")
	for _, node := range nodes[:min(len(nodes), maxRows)] {
		addresses := strings.TrimSpace(node.IPv4 + " " + node.IPv6)
		fmt.Fprintf(table, "  %s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", node.Name, addresses, node.Pods, orDash(node.Uplink), orDash(node.LinkSpeed),
			inShort(node.Conditions, v1alpha1.ConditionReady), inShort(node.Conditions, v1alpha1.ConditionPeersReachable),
			inShort(node.Conditions, v1alpha1.ConditionScheduleOperational),
			inShort(node.Conditions, v1alpha1.ConditionCaptureOperational), clockInShort(network, node.Conditions),
			inShort(node.Conditions, v1alpha1.ConditionEncryptionOperational))
	}
	printMore(table, "  ", len(nodes))
}

// receiveInShort describes the receive path of a network.
func receiveInShort(receive *v1alpha1.Receive) string {
	if receive == nil {
		return "-"
	}
	return fmt.Sprintf("by %s, rings %s", cmp.Or(receive.Path, v1alpha1.ReceiveBridge), cmp.Or(receive.Rings, v1alpha1.RingsRefused))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// inShort formats a condition for a table: yes, the reason with its message, or - if it is missing.
func inShort(conditions []metav1.Condition, kind string) string {
	condition := meta.FindStatusCondition(conditions, kind)
	switch {
	case condition == nil:
		return "-"
	case condition.Status == metav1.ConditionTrue:
		return "yes"
	}
	return condition.Reason + ": " + condition.Message
}

// clockInShort is the same for a node's clock. Nodes may still report a requirement that the network has dropped.
func clockInShort(network *v1alpha1.TSNNetwork, conditions []metav1.Condition) string {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionClockSynchronized)
	switch {
	case network.Spec.Clock == nil:
		return "-"
	case condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == v1alpha1.ReasonClockHoldover:
		return "yes, in holdover"
	}
	return inShort(conditions, v1alpha1.ConditionClockSynchronized)
}

// network reads a network with the states of its nodes.
func (w *clusterFlags) network(ctx context.Context, name string) (*v1alpha1.TSNNetwork, []nodeState, error) {
	c, err := w.open()
	if err != nil {
		return nil, nil, err
	}
	network := &v1alpha1.TSNNetwork{}
	if err := c.Get(ctx, clusterreader.Networks, "", name, network); err != nil {
		return nil, nil, fmt.Errorf("read network %s: %w", name, err)
	}
	nodes, err := listNodes(ctx, c)
	return network, statesOf(name, nodes), err
}

var errNodeAndNetwork = commandline.Usage(errors.New("--node and --network exclude each other"))
