// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// get reads a value from the federator and prints it as JSON or, without control characters of terminals, as text.
func get[T any](s *fedServer, command *cobra.Command, format, path string, printText func(io.Writer, *T) error) error {
	client, err := s.open()
	if err != nil {
		return err
	}
	value := new(T)
	if err := client.do(command.Context(), http.MethodGet, path, nil, value); err != nil {
		return err
	}
	if format == "json" {
		return printJSON(command.OutOrStdout(), value)
	}
	return printText(printable{command.OutOrStdout()}, value)
}

// newFedList returns a command that prints a list of the federator.
func newFedList[T any](at *fedServer, use, short, path string, printText func(io.Writer, *T) error) *cobra.Command {
	var format string
	command := &cobra.Command{
		Use: use, Short: short, Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error { return get(at, command, format, path, printText) },
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return command
}

// withQuery adds names and values to a path, without those whose value is empty.
func withQuery(path string, pairs ...string) string {
	query := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			query.Set(pair[0], pair[1])
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func newFedWhere(at *fedServer) *cobra.Command {
	var format string
	command := &cobra.Command{
		Use: "where [NAMESPACE[/NAME]]", Short: "Show where containers run: cluster, node, addresses, networks, links",
		Long: "Shows the containers of workloads: of all, of those in a namespace, or of one. Clusters that the hub\n" +
			"cannot reach, such as those in mode Pull behind a firewall, are shown with the number of pods that they report.",
		Args: commandline.OptionalArgument("NAMESPACE"),
		RunE: func(command *cobra.Command, arguments []string) error {
			namespace, name, _ := strings.Cut(strings.Join(arguments, ""), "/")
			return get(at, command, format, withQuery("/api/v1/pods", "namespace", namespace, "workload", name), printWhere)
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return command
}

func printWhere(out io.Writer, pods *federation.Pods) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "workload\tcontainer\tstate\tcluster\tnode\tpod\taddresses\tnetworks\tlinks")
	for _, pod := range pods.Items {
		for _, container := range pod.Containers {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", pod.Workload, container.Name, container.State, pod.Cluster, orDash(pod.Node), pod.Name,
				orDash(strings.Join(pod.Addresses, ",")), orDash(networksInShort(pod.Networks)), orDash(linksInShort(pod.Links)))
		}
	}
	for _, unseen := range pods.Unseen {
		count := "?"
		if unseen.Replicas != nil && unseen.Ready != nil {
			count = fmt.Sprintf("%d of %d pods ready", *unseen.Ready, *unseen.Replicas)
		}
		fmt.Fprintf(table, "%s\t-\t%s\t%s\t%s\n", unseen.Workload, count, unseen.Cluster, unseen.Reason)
	}
	return table.Flush()
}

func networksInShort(networks []federation.PodOnTSN) string {
	var all []string
	for _, network := range networks {
		all = append(all, strings.TrimSuffix(network.Network+" "+strings.Join(network.Addresses, ","), " "))
	}
	return strings.Join(all, "; ")
}

func printNetworks(out io.Writer, networks *federation.Networks) error {
	for _, network := range networks.Items {
		fmt.Fprintf(out, "network %s: VNI %d, %s\n", network.Name, network.VNI, strings.TrimSuffix(network.IPv4+", "+network.IPv6, ", "))
		for _, condition := range network.Conditions {
			fmt.Fprintf(out, "  %s: %s, %s\n", condition.Type, condition.Status, condition.Message)
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		if len(network.Clusters) > 0 {
			fmt.Fprintln(table, "  cluster\taddresses\tapplied\tnodes\tmtu")
		}
		for _, on := range network.Clusters {
			fmt.Fprintf(table, "  %s\t%s\t%v\t%d\t%d\n", on.Cluster, strings.TrimSpace(on.IPv4+" "+on.IPv6), on.Applied, on.Nodes, on.MTU)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func newFedEvents(at *fedServer) *cobra.Command {
	var format, namespace string
	command := &cobra.Command{
		Use: "events", Short: "Show the hub's events, the newest first", Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return get(at, command, format, withQuery("/api/v1/events", "namespace", namespace), printEvents)
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	addNamespace(command, &namespace)
	return command
}

func addNamespace(command *cobra.Command, namespace *string) {
	command.Flags().StringVarP(namespace, "namespace", "n", "", "only in the namespace `NAME`")
}

func printEvents(out io.Writer, events *federation.Events) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "at\ttype\tobject\treason\tmessage")
	for _, event := range events.Items {
		object := strings.TrimPrefix(event.Namespace+" "+event.Object, " ")
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", whenSeen(&event), event.Type, object, event.Reason, strings.ReplaceAll(event.Message, "\n", " "))
	}
	return table.Flush()
}

// whenSeen returns when an event was seen last, and how often since when, as kubectl shows it.
func whenSeen(event *federation.Event) string {
	at := event.At.Format("2006-01-02 15:04:05")
	if event.Count > 1 {
		at += fmt.Sprintf(" (x%d over %s)", event.Count, event.At.Sub(event.First).Round(time.Second))
	}
	return at
}

func newFedWatch(env *commandline.Environment, at *fedServer) *cobra.Command {
	var format, namespace string
	command := &cobra.Command{
		Use: "watch", Short: "Show the present objects and their changes, until interrupted", Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := at.open()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return client.watch(ctx, withQuery("/api/v1/watch", "namespace", namespace), func(change *federation.Change) error {
				if format == "json" {
					return json.NewEncoder(env.Stdout).Encode(change)
				}
				_, err := fmt.Fprintln(env.Stdout, changeLine(change))
				return err
			})
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	addNamespace(command, &namespace)
	return command
}

// changeLine formats a change on one line.
func changeLine(change *federation.Change) string {
	line := strings.ToLower(change.Change) + " " + strings.ToLower(change.Kind) + " " + strings.TrimPrefix(change.Namespace+"/"+change.Name, "/")
	switch {
	case change.Cluster != nil:
		line += ": ready " + change.Cluster.Ready
	case change.Workload != nil:
		line += ": on " + strings.Join(change.Workload.Clusters, ", ")
		if move := change.Workload.Move; move != nil {
			line += strings.TrimSuffix(", "+strings.ToLower(move.Phase)+": "+move.Message, ": ")
		}
	case change.Network != nil:
		conditions := []string{line}
		for _, condition := range change.Network.Conditions {
			conditions = append(conditions, condition.Type+" "+condition.Status)
		}
		line = strings.Join(conditions, "; ")
	case change.Link != nil:
		line += fmt.Sprintf(": %s to %s, up %v", endInShort(&change.Link.Client), endInShort(&change.Link.Endpoint), change.Link.Up)
	}
	return line
}
