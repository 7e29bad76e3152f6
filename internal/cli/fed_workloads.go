// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// fedPoll is the interval at which a workload is read while a command waits for it.
const fedPoll = 500 * time.Millisecond

func workloadPath(namespace, name string) string {
	return "/api/v1/workloads/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

const fedDeployLong = `Puts all objects of a manifest on each of the clusters. Manifests are those of kubectl; - is standard input. The manifest is checked
before anything is changed. Repeating the command completes or changes the workload.

--network attaches the objects' pods to TSNNetworks, as does the annotation kubernetsn.io/network of an object or of its pods. --client
makes them clients of a TSNService, with an interface of this name, and --endpoint makes them endpoints, with interfaces whose names have
this prefix; the labels client.kubernetsn.io/SERVICE and endpoint.kubernetsn.io/SERVICE of pods in the manifest do the same.`

func newFedDeploy(env *commandline.Environment, at *fedServer) *cobra.Command {
	request := &federation.DeployRequest{}
	var file string
	command := &cobra.Command{
		Use: "deploy NAMESPACE/NAME -f FILE --clusters NAMES", Short: "Put the objects of a manifest on clusters", Long: fedDeployLong,
		Args: commandline.OneArgument("workload"),
		RunE: func(command *cobra.Command, arguments []string) error {
			var err error
			if request.Namespace, request.Name, err = splitWorkload(arguments[0]); err != nil {
				return err
			}
			if file == "" || len(request.Clusters) == 0 {
				return commandline.Usage(fmt.Errorf("a manifest and clusters are required; give -f and --clusters"))
			}
			if request.Manifest, err = readManifest(file, command.InOrStdin()); err != nil {
				return err
			}
			client, err := at.open()
			if err != nil {
				return err
			}
			var workload federation.Workload
			if err := client.do(command.Context(), http.MethodPost, "/api/v1/workloads", request, &workload); err != nil {
				return fmt.Errorf("%s for workload %s: %w", file, arguments[0], err)
			}
			verb := "is on"
			if request.DryRun {
				verb = "could be on"
			}
			fmt.Fprintf(env.Stdout, "workload %s/%s %s %s: %d objects\n", workload.Namespace, workload.Name, verb, strings.Join(workload.Clusters, ", "), len(workload.Objects))
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVarP(&file, "file", "f", "", "`FILE` with the manifest")
	flags.StringSliceVar(&request.Clusters, "clusters", nil, "`NAMES` of clusters, separated by commas")
	flags.StringSliceVar(&request.Networks, "network", nil, "`NAMES` of TSNNetworks, separated by commas")
	flags.StringToStringVar(&request.Clients, "client", nil, "`SERVICE=IFNAME`: make the pods clients, with an interface of this name")
	flags.StringToStringVar(&request.Endpoints, "endpoint", nil, "`SERVICE=PREFIX`: make the pods endpoints, with interfaces whose names have this prefix")
	flags.BoolVar(&request.DryRun, "dry-run", false, "only check")
	return command
}

func readManifest(file string, stdin io.Reader) (string, error) {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("read the manifest: %w", err)
		}
		defer opened.Close()
		stdin = opened
	}
	text, err := io.ReadAll(io.LimitReader(stdin, federation.MaxBody+1))
	if err != nil {
		return "", fmt.Errorf("read the manifest: %w", err)
	}
	if len(text) > federation.MaxBody {
		return "", fmt.Errorf("%s: the manifest is larger than %d bytes; divide it among several workloads", file, federation.MaxBody)
	}
	return string(text), nil
}

func newFedMove(env *commandline.Environment, at *fedServer) *cobra.Command {
	request := &federation.MoveRequest{}
	var timeout time.Duration
	var wait bool
	command := &cobra.Command{
		Use: "move NAMESPACE/NAME --to NAMES", Short: "Move a workload to other clusters",
		Long: "Places a workload on the new clusters as well, waits until it is ready there and its clients have their links, and takes it from the\n" +
			"others then. If this is not so in time, it stays where it was. The move goes on without this command.",
		Args: commandline.OneArgument("workload"),
		RunE: func(command *cobra.Command, arguments []string) error {
			namespace, name, err := splitWorkload(arguments[0])
			if err != nil {
				return err
			}
			if len(request.To) == 0 {
				return commandline.Usage(fmt.Errorf("no cluster is given; give --to"))
			}
			request.TimeoutSeconds = int32(min(timeout, 24*time.Hour) / time.Second)
			client, err := at.open()
			if err != nil {
				return err
			}
			var workload federation.Workload
			if err := client.do(command.Context(), http.MethodPost, workloadPath(namespace, name)+"/move", request, &workload); err != nil || !wait {
				return err
			}
			return awaitMove(command.Context(), client, &workload, env.Stdout)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&request.To, "to", nil, "`NAMES` of the clusters, separated by commas")
	flags.DurationVar(&timeout, "timeout", 5*time.Minute, "how long the workload may take to be ready there")
	flags.BoolVar(&wait, "wait", true, "wait until it has moved")
	return command
}

// awaitMove prints the progress of a move until it ends.
func awaitMove(ctx context.Context, client *fedClient, workload *federation.Workload, out io.Writer) error {
	text := ""
	for {
		move := workload.Move
		if move == nil {
			return fmt.Errorf("the federator reports no move of %s/%s", workload.Namespace, workload.Name)
		}
		if line := strings.TrimSuffix(strings.ToLower(move.Phase)+": "+move.Message, ": "); line != text {
			text = line
			fmt.Fprintln(out, line)
		}
		switch move.Phase {
		case federation.MoveDone:
			return nil
		case federation.MoveFailed:
			return fmt.Errorf("workload %s/%s has not moved: %s", workload.Namespace, workload.Name, move.Message)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(fedPoll):
		}
		*workload = federation.Workload{Namespace: workload.Namespace, Name: workload.Name}
		if err := client.do(ctx, http.MethodGet, workloadPath(workload.Namespace, workload.Name), nil, workload); err != nil {
			return err
		}
	}
}

func newFedDelete(env *commandline.Environment, at *fedServer) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAMESPACE/NAME", Short: "Remove a workload from its clusters", Args: commandline.OneArgument("workload"),
		RunE: func(command *cobra.Command, arguments []string) error {
			namespace, name, err := splitWorkload(arguments[0])
			if err != nil {
				return err
			}
			client, err := at.open()
			if err != nil {
				return err
			}
			if err := client.do(command.Context(), http.MethodDelete, workloadPath(namespace, name), nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "workload %s/%s is being removed\n", namespace, name)
			return nil
		},
	}
}
