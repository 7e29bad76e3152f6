// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func printClusters(out io.Writer, clusters *federation.Clusters) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "cluster\tmode\tready\tnodes\tversion\tauthority\tlabels\tmessage")
	for _, cluster := range clusters.Items {
		ready := cluster.Ready
		if cluster.Leaving {
			ready = "leaving"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", cluster.Name, cluster.Mode, ready, cluster.NodesReady, cluster.Nodes, orDash(cluster.KubernetesVersion),
			strings.ToLower(cluster.Pin), orDash(joinLabels(cluster.Labels)), orDash(cluster.Message))
	}
	return table.Flush()
}

func joinLabels(labels map[string]string) string {
	var all []string
	for key, value := range labels {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

const fedJoinLong = `Makes a cluster a member. With mode Pull, an agent in the cluster connects to the hub, which needs no access to the cluster and gets
none of its credentials if the agent runs as printed. The token for its first certificate is printed, or used at once with
--agent-manifest or --agent-kubeconfig. With mode Push, the hub stores the address and token of --member-kubeconfig and uses them.
Whoever controls the hub has the rights of that agent or token in the cluster: by default those that ` + "`ktsn fed rights`" + ` prints.

The fingerprint of the cluster's authority is kept, and cannot be changed while the cluster is a member. It is read from
--member-kubeconfig. With mode Pull, that file stays on this machine; by it the cluster is asked for its id, the UID of its
namespace kube-system.`

func newFedJoin(env *commandline.Environment, at *fedServer) *cobra.Command {
	request := &federation.JoinRequest{}
	var mode, kubeconfig string
	var files agentFiles
	command := &cobra.Command{
		Use: "join CLUSTER", Short: "Make a cluster a member", Long: fedJoinLong, Args: commandline.OneArgument("name of a cluster"),
		RunE: func(command *cobra.Command, arguments []string) error {
			request.Name = arguments[0]
			if _, err := files.rights.complete(); err != nil {
				return err
			}
			if err := completeJoin(command.Context(), request, mode, kubeconfig); err != nil {
				return err
			}
			client, err := at.open()
			if err != nil {
				return err
			}
			var joined federation.Joined
			if err := client.do(command.Context(), http.MethodPost, "/api/v1/clusters", request, &joined); err != nil {
				return err
			}
			if joined.Bootstrap == nil {
				fmt.Fprintf(env.Stdout, "cluster %s is a member in mode Push\n", request.Name)
				return nil
			}
			if files.none() {
				printBootstrap(env.Stdout, request.Name, client.server, &files.rights, joined.Bootstrap)
				return nil
			}
			client.token = joined.Bootstrap.Token
			return enroll(command.Context(), client, request.Name, &files, env.Stdout)
		},
	}
	flags := command.Flags()
	flags.StringVar(&mode, "mode", "pull", "pull or push")
	flags.StringVar(&request.Fingerprint, "fingerprint", "", "of the cluster's authority: sha256: and 64 hexadecimal `DIGITS`")
	flags.StringVar(&request.ID, "id", "", "`UID` of the cluster's namespace kube-system, for mode pull without --member-kubeconfig")
	flags.StringVar(&kubeconfig, "member-kubeconfig", "", "kubeconfig `FILE` of the cluster")
	flags.StringToStringVar(&request.Labels, "label", nil, "label `KEY=VALUE` of the cluster, by which networks select clusters")
	flags.BoolVar(&request.Proxy, "proxy", false, "with mode push, let users of the hub ask the cluster by Karmada's proxy; the token needs the right to impersonate users there")
	flags.StringVar(&request.Region, "region", "", "`NAME` of the cluster's region")
	files.add(command)
	return command
}

// completeJoin completes a request from a kubeconfig of the cluster.
func completeJoin(ctx context.Context, request *federation.JoinRequest, mode, kubeconfig string) error {
	switch strings.ToLower(mode) {
	case "pull":
		request.Mode = federation.Pull
	case "push":
		request.Mode = federation.Push
	default:
		return commandline.Usage(fmt.Errorf("--mode %q is not a mode; write pull or push", mode))
	}
	if kubeconfig == "" {
		if request.Mode == federation.Push {
			return commandline.Usage(fmt.Errorf("mode push needs --member-kubeconfig"))
		}
		if request.ID == "" {
			return commandline.Usage(fmt.Errorf("mode pull needs --member-kubeconfig or --id: the agent checks that the ID is that of its cluster"))
		}
		return nil
	}
	member, err := readMember(kubeconfig)
	if err != nil {
		return err
	}
	if request.Fingerprint != "" && request.Fingerprint != member.fingerprint {
		return fmt.Errorf("--fingerprint is %s, and that of the authority in %s is %s", request.Fingerprint, kubeconfig, member.fingerprint)
	}
	request.Fingerprint = member.fingerprint
	if request.Mode == federation.Push {
		request.Endpoint, request.CA, request.Token = member.server, member.ca, member.token
		return nil
	}
	if request.ID == "" {
		request.ID, err = readMemberID(ctx, kubeconfig)
	}
	return err
}

// printBootstrap prints how the agent gets its certificate. A first manifest has rights, so that the command names some.
func printBootstrap(out io.Writer, name, server string, rights *memberRights, bootstrap *federation.Bootstrap) {
	options := rights.given()
	if len(options) == 0 {
		options = []string{"--agent-rights", rights.rights}
	}
	fmt.Fprintf(out, `cluster %s may join in mode Pull until %s. For the cluster, make the manifest of its karmada-agent, and apply it there:

    ktsn fed enroll %s --server %s --token-file bootstrap-token --agent-manifest karmada-agent.yaml \
        %s
    kubectl apply -f karmada-agent.yaml

The file bootstrap-token has this line, which lets whoever has it get the certificate of an agent:

    %s
`, name, bootstrap.ExpiresAt.Format("15:04:05 MST"), name, server, strings.Join(options, " "), bootstrap.Token)
}

func newFedEnroll(env *commandline.Environment, at *fedServer) *cobra.Command {
	var files agentFiles
	command := &cobra.Command{
		Use: "enroll CLUSTER --agent-manifest FILE", Short: "Get the certificate of a member's agent, with the token that join gave",
		Long: "Makes a key, has the hub sign a certificate for it, and writes both into a manifest of karmada-agent, or into a file by which it reaches the\n" +
			"hub. The key does not leave this machine. The token is that of `ktsn fed join`, or of who may approve certificates at the hub: so the\n" +
			"credentials of an agent are replaced. The manifest has the agent's rights in the cluster only if an option names some; otherwise those that\n" +
			"it has stay.",
		Args: commandline.OneArgument("name of a cluster"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if files.none() {
				return commandline.Usage(fmt.Errorf("no file is given; set --agent-manifest or --agent-kubeconfig"))
			}
			// A token is good for one certificate.
			if _, err := files.rights.complete(); err != nil {
				return err
			}
			files.keepRights = len(files.rights.given()) == 0
			client, err := at.open()
			if err != nil {
				return err
			}
			return enroll(command.Context(), client, arguments[0], &files, env.Stdout)
		},
	}
	files.add(command)
	return command
}

func newFedUnjoin(env *commandline.Environment, at *fedServer) *cobra.Command {
	var force bool
	command := &cobra.Command{
		Use: "unjoin CLUSTER", Short: "Drain and remove a member",
		Long: "Takes workloads from a cluster that are on others as well, when they are ready there, and removes the cluster. Workloads that are on\n" +
			"it alone stand in the way; with --force they stay on it, and belong to it alone. The same command again waits for what goes on.\n" +
			"The rights of the hub in the cluster stay there, as only an administrator of the cluster can remove them: the command prints how.",
		Args: commandline.OneArgument("name of a cluster"),
		RunE: func(command *cobra.Command, arguments []string) error {
			client, err := at.open()
			if err != nil {
				return err
			}
			path := "/api/v1/clusters/" + url.PathEscape(arguments[0])
			if force {
				path += "?force=true"
			}
			var unjoined federation.Unjoined
			if err := client.do(command.Context(), http.MethodDelete, path, nil, &unjoined); err != nil {
				return err
			}
			for _, workload := range unjoined.Drained {
				fmt.Fprintf(env.Stdout, "taken from it: %s\n", workload)
			}
			for _, workload := range unjoined.Left {
				fmt.Fprintf(env.Stdout, "left on it: %s\n", workload)
			}
			fmt.Fprintln(env.Stdout, unjoined.Message)
			return nil
		},
	}
	command.Flags().BoolVar(&force, "force", false, "remove it at once")
	return command
}
