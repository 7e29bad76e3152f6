// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/cli/doctor"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func newDoctor(env *commandline.Environment) *cobra.Command {
	var w clusterFlags
	var namespace, node, format string
	command := &cobra.Command{
		Use:   "doctor [POD]",
		Short: "Check a pod, a node or a cluster, and say how to fix its faults",
		Long: "Checks everything that timed messages of POD need, in the order in which a pod is attached to its networks; with\n" +
			"--node it checks a node, and without both the cluster. It changes nothing. Each fault comes with a remedy, and\n" +
			"faults end the command with status 1. On the node NAME itself, without a kubeconfig, --node checks the settings\n" +
			"that `ktsn node check` checks. POD is a name, NAMESPACE/NAME as ktsn shows pods, or a UID.",
		Args: func(command *cobra.Command, arguments []string) error {
			if len(arguments) > 0 && node != "" {
				return commandline.Usage(errors.New("POD and --node exclude each other"))
			}
			return commandline.OptionalArgument("POD")(command, arguments)
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			name := ""
			if len(arguments) > 0 {
				var err error
				if namespace, name, err = podOf(arguments[0], namespace, command.Flags().Changed("namespace")); err != nil {
					return err
				}
			}
			c, err := w.open()
			switch {
			case errors.Is(err, clusterreader.ErrNotConfigured) && node != "":
				findings, err := checkThisNode(command.Context(), node, err)
				if err != nil {
					return err
				}
				return printFindings(env.Stdout, findings, format)
			case err != nil:
				return err
			}
			d := doctor.New(c)
			check := d.CheckCluster
			switch {
			case len(arguments) > 0:
				check = func(ctx context.Context) ([]doctor.Finding, error) { return d.CheckPod(ctx, namespace, name) }
			case node != "":
				check = func(ctx context.Context) ([]doctor.Finding, error) { return d.CheckNode(ctx, node) }
			}
			findings, err := check(command.Context())
			if err != nil {
				return err
			}
			return printFindings(env.Stdout, findings, format)
		},
	}
	addClusterFlags(command, &w)
	command.Flags().StringVarP(&namespace, "namespace", "n", "default", "`NAME` of the pod's namespace")
	command.Flags().StringVar(&node, "node", "", "check the node `NAME`")
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return command
}

// checkThisNode checks what `ktsn node check` checks. A node of another name is not this one; notConfigured is why it is not looked up.
func checkThisNode(ctx context.Context, node string, notConfigured error) ([]doctor.Finding, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this machine: %w", err)
	}
	// The name of a node is the host name, with or without its domain.
	short := func(name string) string { name, _, _ = strings.Cut(name, "."); return name }
	if !strings.EqualFold(short(node), short(host)) {
		return nil, fmt.Errorf("%w; this machine, %s, is not node %s by its name: on that node `ktsn node check` needs no cluster", notConfigured, host, node)
	}
	d := doctor.Doctor{AskHost: func(ctx context.Context, _ string) ([]hostcheck.Finding, error) {
		return checkHost(ctx, overlay.DefaultStateDir)
	}}
	return d.CheckHost(ctx, node)
}

// podOf reads NAMESPACE/NAME, as ktsn shows pods, or a name alone, which is of the namespace that an option gave.
func podOf(argument, namespace string, given bool) (where, name string, err error) {
	first, second, both := strings.Cut(argument, "/")
	switch {
	case !both:
		return namespace, argument, nil
	case first == "" || second == "" || strings.Contains(second, "/"):
		return "", "", commandline.Usage(fmt.Errorf("%q is not a pod; give NAMESPACE/NAME, NAME with --namespace, or a UID", argument))
	case given && namespace != first:
		return "", "", commandline.Usage(fmt.Errorf("%s is of namespace %s and --namespace says %s; give one of the two", argument, first, namespace))
	}
	return first, second, nil
}

func printFindings(out io.Writer, findings []doctor.Finding, format string) error {
	if err := show(out, format, findings, writeFindings); err != nil {
		return err
	}
	if faults := doctor.Faults(findings); faults > 0 {
		if faults == 1 {
			return errors.New("there is one fault")
		}
		return fmt.Errorf("there are %d faults; fix the first one first", faults)
	}
	return nil
}

func writeFindings(out io.Writer, findings []doctor.Finding) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, finding := range findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", finding.Level, finding.About, finding.Text)
		if finding.Mend != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", finding.Mend)
		}
	}
	return table.Flush()
}
