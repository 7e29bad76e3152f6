// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// nodeClock is a node's clock as `ktsn clock` shows it.
type nodeClock struct {
	Node string `json:"node"`
	// Clock is the agent's report, null if there is none.
	Clock *v1alpha1.NodeClock `json:"clock"`
	// Networks are the node's networks with a clock requirement.
	Networks []networkClock `json:"networks"`
	// LatencyErrors has the other nodes of the node's networks, the worst first; only for a single node.
	LatencyErrors []latencyError `json:"latencyErrors,omitempty"`
}

// latencyError bounds the error of one-way latencies that are measured between two nodes of a network.
type latencyError struct {
	Network string `json:"network"`
	Node    string `json:"node"`
	// BoundNanoseconds is the sum of the bounds of both clocks' errors, null if either is unknown.
	BoundNanoseconds *int64 `json:"boundNanoseconds"`
}

// networkClock is a network's requirement for a node's clock, and the node's report.
type networkClock struct {
	Name     string `json:"name"`
	MaxError string `json:"maxError"`
	Holdover string `json:"holdover"`
	OnLoss   string `json:"onLoss"`
	// Good is the status of condition ClockSynchronized, with its reason and message.
	Good    metav1.ConditionStatus `json:"good"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

func newClock(env *commandline.Environment) *cobra.Command {
	var w clusterFlags
	var format string
	command := &cobra.Command{
		Use:   "clock [NODE]",
		Short: "Show how good the clocks of a cluster's nodes are",
		Long: "Shows for each node the source of its clock, the bound of the clock's error, and the networks for which it is not good\n" +
			"enough, the worst nodes first. With NODE it also shows the kernel's TAI offset, since when a lost clock has had no source,\n" +
			"the requirement of each network of the node, the errors of one-way latencies between it and the networks' other nodes, and the\n" +
			"last changes. The data are the reports of the nodes' agents in their TSNNodes; `ktsn node clock` on the node shows the\n" +
			"current state.",
		Args: commandline.OptionalArgument("NODE"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return w.clockOf(command.Context(), env.Stdout, arguments[0], format)
			}
			return w.clocks(command.Context(), env.Stdout, format)
		},
	}
	addClusterFlags(command, &w)
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	command.AddCommand(newClockConfig(env))
	return command
}

// clocks prints the clocks of all nodes.
func (w *clusterFlags) clocks(ctx context.Context, out io.Writer, format string) error {
	c, err := w.open()
	if err != nil {
		return err
	}
	networks, err := listNetworks(ctx, c)
	if err != nil {
		return err
	}
	nodes, err := listNodes(ctx, c)
	if err != nil {
		return err
	}
	all := clocksOf(nodes, networks)
	if format == "json" {
		return printJSON(out, all)
	}
	return printClocks(out, all, time.Now())
}

// clockOf prints the clock of one node.
func (w *clusterFlags) clockOf(ctx context.Context, out io.Writer, name, format string) error {
	c, err := w.open()
	if err != nil {
		return err
	}
	networks, err := listNetworks(ctx, c)
	if err != nil {
		return err
	}
	nodes, err := listNodes(ctx, c)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(nodes, func(node v1alpha1.TSNNode) bool { return node.Name == name })
	if at < 0 {
		return fmt.Errorf("there is no TSNNode %s: no such node, or none with pods on networks; `ktsn clock` lists those that there are", name)
	}
	clock := clocksOf(nodes[at:at+1], networks)[0]
	clock.LatencyErrors = latencyErrors(&nodes[at], nodes)
	if format == "json" {
		return printJSON(out, clock)
	}
	return printNodeClock(out, &clock, time.Now())
}

func listNetworks(ctx context.Context, c *clusterreader.Cluster) ([]v1alpha1.TSNNetwork, error) {
	networks, err := clusterreader.List[v1alpha1.TSNNetwork](ctx, c, clusterreader.Networks, "", "", "")
	if err != nil {
		return nil, fmt.Errorf("list the cluster's TSNNetworks: %w; `ktsn doctor` says what is missing", err)
	}
	return networks, nil
}

// clocksOf returns the clocks of all nodes, the worst first.
func clocksOf(nodes []v1alpha1.TSNNode, networks []v1alpha1.TSNNetwork) []nodeClock {
	all := []nodeClock{}
	for i := range nodes {
		clock := nodeClock{Node: nodes[i].Name, Clock: nodes[i].Status.Clock, Networks: []networkClock{}}
		for j := range networks {
			if currentClock, asks := networkClockOf(&nodes[i], &networks[j]); asks {
				clock.Networks = append(clock.Networks, currentClock)
			}
		}
		all = append(all, clock)
	}
	slices.SortFunc(all, func(a, b nodeClock) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Node, b.Node))
	})
	return all
}

// latencyErrors returns the errors of one-way latencies between a node and the others of its networks, the worst first. Both clocks' errors add
// up, because they can be wrong in opposite directions.
func latencyErrors(node *v1alpha1.TSNNode, nodes []v1alpha1.TSNNode) []latencyError {
	var all []latencyError
	bound := clockBound(node)
	for i := range node.Spec.Networks {
		network := node.Spec.Networks[i].Name
		for j := range nodes {
			if part, _ := tsnnetwork.OnNode(&nodes[j], network); part == nil || nodes[j].Name == node.Name {
				continue
			}
			entry := latencyError{Network: network, Node: nodes[j].Name}
			if other := clockBound(&nodes[j]); bound >= 0 && other >= 0 {
				entry.BoundNanoseconds = new(bound + other)
			}
			all = append(all, entry)
		}
	}
	slices.SortFunc(all, func(a, b latencyError) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), strings.Compare(a.Network, b.Network), strings.Compare(a.Node, b.Node))
	})
	return all
}

// rank is the bound; an unknown one is the worst.
func (e *latencyError) rank() int64 {
	if e.BoundNanoseconds == nil {
		return math.MaxInt64
	}
	return *e.BoundNanoseconds
}

// clockBound returns the bound of the error of a node's clock in ns, -1 if it is unknown.
func clockBound(node *v1alpha1.TSNNode) int64 {
	if node.Status.Clock == nil || node.Status.Clock.ErrorBoundNanoseconds == nil {
		return -1
	}
	return *node.Status.Clock.ErrorBoundNanoseconds
}

// latencyErrorLine describes the largest error of one-way latencies between two nodes of a network; "" if it has fewer than two.
func latencyErrorLine(network string, nodes []v1alpha1.TSNNode) string {
	var known []*v1alpha1.TSNNode
	unknown := 0
	for i := range nodes {
		switch part, _ := tsnnetwork.OnNode(&nodes[i], network); {
		case part == nil:
		case clockBound(&nodes[i]) < 0:
			unknown++
		default:
			known = append(known, &nodes[i])
		}
	}
	slices.SortStableFunc(known, func(a, b *v1alpha1.TSNNode) int { return cmp.Compare(clockBound(b), clockBound(a)) })
	switch {
	case len(known)+unknown < 2:
		return ""
	case len(known) < 2:
		return fmt.Sprintf("not known; nodes without a known clock error: %d", unknown)
	}
	line := fmt.Sprintf("at most %v, between %s and %s", time.Duration(clockBound(known[0])+clockBound(known[1])), known[0].Name, known[1].Name)
	if unknown > 0 {
		line += fmt.Sprintf("; nodes without a known clock error: %d", unknown)
	}
	return line
}

// networkClockOf returns a network's requirement on a node; asks is false if there is none, or the node has no subnet of the network.
func networkClockOf(node *v1alpha1.TSNNode, network *v1alpha1.TSNNetwork) (clock networkClock, asks bool) {
	part, status := tsnnetwork.OnNode(node, network.Name)
	need := network.Spec.Clock // to which the API server has added what was left out
	if part == nil || need == nil {
		return networkClock{}, false
	}
	clock = networkClock{Name: network.Name, MaxError: need.MaxError, Holdover: need.Holdover, OnLoss: need.OnLoss, Good: metav1.ConditionUnknown}
	if status != nil {
		if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClockSynchronized); condition != nil {
			clock.Good, clock.Reason, clock.Message = condition.Status, condition.Reason, condition.Message
		}
	}
	return clock, true
}

// lost lists the networks for which the clock is not good enough.
func (n *nodeClock) lost() []string {
	var names []string
	for _, network := range n.Networks {
		if network.Good == metav1.ConditionFalse {
			names = append(names, network.Name)
		}
	}
	return names
}

// rank is 0 for the worst.
func (n *nodeClock) rank() int {
	at := slices.Index([]string{"Unknown", "Unsynchronized", "Holdover"}, n.state())
	switch {
	case len(n.lost()) > 0:
		return 0
	case n.Clock == nil:
		return 1
	case at >= 0:
		return 2 + at
	}
	return 5
}

func (n *nodeClock) state() string {
	if n.Clock == nil {
		return "-"
	}
	return n.Clock.State
}

// nodeBoundText formats the bound of a clock's error.
func nodeBoundText(clock *v1alpha1.NodeClock) string {
	if clock.ErrorBoundNanoseconds == nil || *clock.ErrorBoundNanoseconds < 0 {
		return "unknown"
	}
	return time.Duration(*clock.ErrorBoundNanoseconds).String()
}

func printClocks(out io.Writer, all []nodeClock, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "node\tclock\tfor\tsource\tgrandmaster\terror at most\tsteps\tlost to")
	for i := range all[:min(len(all), maxRows)] {
		entry := &all[i]
		clock, since := entry.Clock, "-"
		if clock == nil {
			fmt.Fprintf(table, "%s\t-\t-\t-\t-\t-\t-\t%s\n", entry.Node, orDash(strings.Join(entry.lost(), ", ")))
			continue
		}
		if !clock.Since.IsZero() {
			since = duration.HumanDuration(now.Sub(clock.Since.Time))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", entry.Node, clock.State, since, orDash(clock.Source), orDash(clock.Grandmaster), nodeBoundText(clock),
			clock.Steps, orDash(strings.Join(entry.lost(), ", ")))
	}
	printMore(table, "", len(all))
	if err := table.Flush(); err != nil {
		return err
	}
	var reported []string // each message once: many nodes may lose one grandmaster
	for i := range all {
		if clock := all[i].Clock; clock != nil && clock.Message != "" && !slices.Contains(reported, clock.Message) && len(reported) < maxMessages {
			reported = append(reported, clock.Message)
			fmt.Fprintf(out, "-> %s: %s\n", all[i].Node, clock.Message)
		}
	}
	return nil
}

// maxMessages limits the messages after the table of clocks.
const maxMessages = 5

func printNodeClock(out io.Writer, clock *nodeClock, now time.Time) error {
	if clock.Clock == nil {
		fmt.Fprintf(out, "node %s has not reported its clock; `ktsn doctor --node %s` checks its agent\n", clock.Node, clock.Node)
	} else {
		printOneClock(out, clock.Node, clock.Clock, now)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(clock.Networks) > 0 {
		fmt.Fprintln(table, "\nnetwork\tasks for\tholdover\ton loss\tgood enough")
	}
	for _, network := range clock.Networks {
		good := "not reported yet"
		switch network.Good {
		case metav1.ConditionTrue:
			good = strings.TrimSuffix("yes; "+network.Message, "; ")
		case metav1.ConditionFalse:
			good = "no; " + network.Reason + ": " + network.Message
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", network.Name, network.MaxError, network.Holdover, network.OnLoss, good)
	}
	if len(clock.LatencyErrors) > 0 {
		fmt.Fprintln(table, "\nnetwork\tother node\terror of one-way latencies at most")
	}
	for _, entry := range clock.LatencyErrors[:min(len(clock.LatencyErrors), maxRows)] {
		bound := "unknown"
		if entry.BoundNanoseconds != nil {
			bound = time.Duration(*entry.BoundNanoseconds).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", entry.Network, entry.Node, bound)
	}
	printMore(table, "", len(clock.LatencyErrors))
	if err := table.Flush(); err != nil {
		return err
	}
	if clock.Clock == nil || len(clock.Clock.History) == 0 {
		return nil
	}
	fmt.Fprintln(table, "\nsince\tclock\treason\tgrandmaster")
	for _, change := range clock.Clock.History {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", change.Time.UTC().Format("2006-01-02 15:04:05.000Z"), change.State, orDash(change.Reason), orDash(change.Grandmaster))
	}
	return table.Flush()
}

func printOneClock(out io.Writer, node string, clock *v1alpha1.NodeClock, now time.Time) {
	since := ""
	if !clock.Since.IsZero() {
		since = " for " + duration.HumanDuration(now.Sub(clock.Since.Time))
	}
	fmt.Fprintf(out, "node %s: %s%s\n", node, clock.State, since)
	fmt.Fprintf(out, "  kept by %s, grandmaster or reference %s; its error is at most: %s; steps: %d\n", orDash(clock.Source), orDash(clock.Grandmaster),
		nodeBoundText(clock), clock.Steps)
	if clock.TAIOffset != nil {
		fmt.Fprintf(out, "  TAI - UTC: %d s\n", *clock.TAIOffset)
	}
	if clock.LostSince != nil {
		fmt.Fprintf(out, "  without a source since %s, for %s\n", clock.LostSince.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(clock.LostSince.Time)))
	}
	if clock.Message != "" {
		fmt.Fprintf(out, "  -> %s\n", clock.Message)
	}
}
