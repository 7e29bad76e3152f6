// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func newNodeCheck(env *commandline.Environment) *cobra.Command {
	var stateDir, format string
	command := &cobra.Command{
		Use:   "check",
		Short: "Find settings of this node that break or impair traffic",
		Long: "Checks settings of this node that break or impair traffic of its networks: packet filters that drop packets of tunnels or\n" +
			"bridged frames, rp_filter, the neighbour table, checksum offload, programs that manage the node's devices, and others.\n" +
			"It needs neither ktsnd nor a cluster, and changes nothing. Each finding comes with a remedy; findings that stop traffic\n" +
			"for certain end the command with status 1.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			findings, err := checkHost(command.Context(), stateDir)
			if err != nil {
				return err
			}
			if err := show(env.Stdout, format, append([]hostcheck.Finding{}, findings...), printHostFindings); err != nil || format == "json" {
				return err
			}
			if slices.ContainsFunc(findings, func(f hostcheck.Finding) bool { return f.Breaks }) {
				return fmt.Errorf("settings of this node stop traffic")
			}
			return nil
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	command.Flags().StringVar(&stateDir, "state-dir", overlay.DefaultStateDir, "tsn-cni's state directory")
	return command
}

// checkHost checks the node whose root folder this program sees.
func checkHost(ctx context.Context, stateDir string) (findings []hostcheck.Finding, err error) {
	options := &nodeOptions{stateDir: stateDir}
	err = options.do(ctx, func(_ context.Context, node *overlay.Node, _ *control.Client) error {
		networks, err := hostcheck.Networks(node, stateDir)
		if err != nil {
			return err
		}
		host := &hostcheck.Node{Files: os.DirFS("/"), Host: os.DirFS("/"), Networks: networks}
		findings, err = host.Filters()
		findings = append(findings, host.Settings()...)
		return err
	})
	return findings, err
}

func printHostFindings(out io.Writer, findings []hostcheck.Finding) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(findings) == 0 {
		fmt.Fprintln(table, "no findings")
	}
	for _, finding := range findings {
		level := "note"
		if finding.Breaks {
			level = "bad"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n\t\t-> %s\n", level, finding.Reason, finding.Text, finding.Remedy)
	}
	return table.Flush()
}
