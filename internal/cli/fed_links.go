// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func newFedLinks(at *fedServer) *cobra.Command {
	var format, namespace string
	command := &cobra.Command{
		Use: "links [SERVICE]", Short: "Show services of several clusters, and the links between clusters",
		Long: "Shows the TSNServices of the hub, and the links that no cluster makes alone. Links within a cluster are its own; `ktsn fed where` shows\n" +
			"those of a workload's pods.",
		Args: commandline.OptionalArgument("SERVICE"),
		RunE: func(command *cobra.Command, arguments []string) error {
			path := withQuery("/api/v1/links", "namespace", namespace, "service", strings.Join(arguments, ""))
			return get(at, command, format, path, printFederatedLinks)
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	addNamespace(command, &namespace)
	return command
}

func printFederatedLinks(out io.Writer, links *federation.Links) error {
	for _, service := range links.Services {
		fmt.Fprintf(out, "service %s/%s: %d endpoints, %d of %d clients linked\n", service.Namespace, service.Name, service.Endpoints, service.Linked, service.Clients)
		for _, condition := range service.Conditions {
			fmt.Fprintf(out, "  %s: %s, %s\n", condition.Type, condition.Status, condition.Message)
		}
	}
	if len(links.Items) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "service\thop\tclient\tinterface\taddresses\tendpoint\tinterface\tup\tmtu\tvni")
	for i := range links.Items {
		link := &links.Items[i]
		fmt.Fprintf(table, "%s/%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", link.Namespace, link.Service, link.Hop, endInShort(&link.Client), link.Client.Interface,
			strings.Join(link.Client.Addresses, ","), endInShort(&link.Endpoint), link.Endpoint.Interface, upInShort(link), orDash(numberOrNone(link.MTU)), link.VNI)
	}
	return table.Flush()
}

func endInShort(end *federation.LinkEnd) string {
	return end.Cluster + "/" + end.Namespace + "/" + end.Pod
}

func numberOrNone(number int32) string {
	if number == 0 {
		return ""
	}
	return strconv.Itoa(int(number))
}

// upInShort reports whether a link is up, and how the frames of each end leave if its agent reports that: a link that prefers encryption may
// be in clear in one direction. For a link that is not up it has the reason.
func upInShort(link *federation.Link) string {
	if link.Up {
		client, endpoint := messageOf(link, "ClientPlugged"), messageOf(link, "EndpointPlugged")
		switch {
		case client == "" && endpoint == "":
			return "yes"
		case client == endpoint:
			return "yes: " + client
		case endpoint == "":
			return "yes: client: " + client
		case client == "":
			return "yes: endpoint: " + endpoint
		}
		return "yes: client: " + client + "; endpoint: " + endpoint
	}
	for _, kind := range []string{"ClientPlugged", "EndpointPlugged", "Up"} {
		for _, condition := range link.Conditions {
			if condition.Type == kind && condition.Status != "True" {
				return "no: " + condition.Message
			}
		}
	}
	return "no"
}

func messageOf(link *federation.Link, condition string) string {
	for _, reported := range link.Conditions {
		if reported.Type == condition {
			return reported.Message
		}
	}
	return ""
}

// linksInShort lists the links of a pod.
func linksInShort(links []federation.PodLink) string {
	var all []string
	for _, link := range links {
		name := link.Service + " " + link.Interface + " "
		switch {
		case link.Peer == "":
			name += "(waits for it)"
		case !link.Up:
			name += "to " + link.Peer + " (not up)"
		default:
			name += "to " + link.Peer
		}
		all = append(all, name)
	}
	return strings.Join(all, "; ")
}
