// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func addFormat(command *cobra.Command, format *string) {
	command.Flags().StringVarP(format, "output", "o", "text", "text or json")
}

// show reads something, and prints it as JSON or as tell does.
func (s *fedServer) show(command *cobra.Command, format, path string, into any, tell func() error) error {
	if err := commandline.CheckChoice("-o", format, "text", "json"); err != nil {
		return err
	}
	client, err := s.open()
	if err != nil {
		return err
	}
	if err := client.do(command.Context(), http.MethodGet, path, nil, into); err != nil {
		return err
	}
	if format == "json" {
		return printJSON(command.OutOrStdout(), into)
	}
	return tell()
}

func newFedWhere(env *commandline.Environment, at *fedServer) *cobra.Command {
	format := "text"
	command := &cobra.Command{
		Use: "where [NAMESPACE[/NAME]]", Short: "Show where containers run: cluster, node, addresses, networks, links",
		Long: "Shows the containers of workloads: of all, of those in a namespace, or of one. Of clusters that the hub does not reach, as those in mode\n" +
			"Pull behind a firewall, it shows how many pods they report.",
		Args: func(command *cobra.Command, arguments []string) error {
			return commandline.NoArguments(command, arguments[min(1, len(arguments)):])
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			query := url.Values{}
			if len(arguments) > 0 {
				namespace, name, _ := strings.Cut(arguments[0], "/")
				query.Set("namespace", namespace)
				if name != "" {
					query.Set("workload", name)
				}
			}
			var pods federation.Pods
			return at.show(command, format, withQuery("/api/v1/pods", query), &pods, func() error { return printWhere(env.Stdout, &pods) })
		},
	}
	addFormat(command, &format)
	return command
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
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

func newFedNetworks(env *commandline.Environment, at *fedServer) *cobra.Command {
	format := "text"
	command := &cobra.Command{
		Use: "networks", Short: "Show networks, and the parts that clusters have of them", Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			var list federation.Networks
			return at.show(command, format, "/api/v1/networks", &list, func() error { return printNetworks(env.Stdout, list.Items) })
		},
	}
	addFormat(command, &format)
	return command
}

func printNetworks(out io.Writer, networks []federation.Network) error {
	for _, network := range networks {
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

func newFedEvents(env *commandline.Environment, at *fedServer) *cobra.Command {
	format, namespace := "text", ""
	command := &cobra.Command{
		Use: "events", Short: "Show what happened at the hub, the youngest first", Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			var list federation.Events
			return at.show(command, format, withQuery("/api/v1/events", ofNamespace(namespace)), &list, func() error { return printEvents(env.Stdout, list.Items) })
		},
	}
	addFormat(command, &format)
	addNamespace(command, &namespace)
	return command
}

func addNamespace(command *cobra.Command, namespace *string) {
	command.Flags().StringVarP(namespace, "namespace", "n", "", "only in the namespace with this `NAME`")
}

func ofNamespace(namespace string) url.Values {
	query := url.Values{}
	if namespace != "" {
		query.Set("namespace", namespace)
	}
	return query
}

func printEvents(out io.Writer, events []federation.Event) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "at\ttype\tobject\treason\tmessage")
	for _, event := range events {
		object := strings.TrimPrefix(event.Namespace+" "+event.Object, " ")
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", whenSeen(&event), event.Type, object, event.Reason, strings.ReplaceAll(event.Message, "\n", " "))
	}
	return table.Flush()
}

// whenSeen is when an event was seen last, and how often since when, as kubectl shows it.
func whenSeen(event *federation.Event) string {
	at := event.At.Format("2006-01-02 15:04:05")
	if event.Count > 1 {
		at += fmt.Sprintf(" (x%d over %s)", event.Count, event.At.Sub(event.First).Round(time.Second))
	}
	return at
}

func newFedWatch(env *commandline.Environment, at *fedServer) *cobra.Command {
	format, namespace := "text", ""
	command := &cobra.Command{
		Use: "watch", Short: "Show what there is, and what changes, until interrupted", Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := commandline.CheckChoice("-o", format, "text", "json"); err != nil {
				return err
			}
			client, err := at.open()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return client.watch(ctx, withQuery("/api/v1/watch", ofNamespace(namespace)), func(change *federation.Change) error {
				if format == "json" {
					return json.NewEncoder(env.Stdout).Encode(change)
				}
				_, err := fmt.Fprintln(env.Stdout, changeLine(change))
				return err
			})
		},
	}
	addFormat(command, &format)
	addNamespace(command, &namespace)
	return command
}

// changeLine is a change on one line.
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
