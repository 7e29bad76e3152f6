// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/guest/kernelconfig"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// parts is the option --for, a list of parts of kernelconfig.
type parts []string

func (p *parts) add(command *cobra.Command, defaults ...kernelconfig.Part) {
	var names []string
	for _, part := range defaults {
		names = append(names, string(part))
	}
	command.Flags().StringSliceVar((*[]string)(p), "for", names, "what it is for, separated by commas: "+
		"held (frames that the host holds), released (by taprio and etf of this machine), clock, card (passed through)")
}

func (p *parts) read() (all []kernelconfig.Part, err error) {
	for _, name := range *p {
		part := kernelconfig.Part(name)
		if !slices.Contains(kernelconfig.Parts, part) {
			return nil, commandline.Usage(fmt.Errorf("--for %q; give some of %v", name, kernelconfig.Parts))
		}
		all = append(all, part)
	}
	return all, nil
}

func newKernel(env *commandline.Environment) *cobra.Command {
	return commandline.Group("kernel", "Options that this machine's kernel needs", newKernelConfig(env), newKernelCheck(env))
}

func newKernelConfig(env *commandline.Environment) *cobra.Command {
	var p parts
	command := &cobra.Command{
		Use:   "config",
		Short: "Print the options as a fragment of a kernel's configuration",
		Long: "Prints the options as a fragment of a kernel's configuration, for the kernel's merge_config.sh or the builder of Kata's\n" +
			"guest kernels (tools/packaging/kernel/configs/fragments/common).",
		Args: commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			wanted, err := p.read()
			if err != nil {
				return err
			}
			return kernelconfig.WriteFragment(env.Stdout, wanted)
		},
	}
	p.add(command, kernelconfig.Parts...)
	return command
}

func newKernelCheck(env *commandline.Environment) *cobra.Command {
	var p parts
	var path string
	command := &cobra.Command{
		Use:   "check",
		Short: "Name the options that a kernel lacks",
		Long:  "Compares the configuration of this machine's kernel, or of a file, with what is needed, and names what is missing.",
		Args:  commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			wanted, err := p.read()
			if err != nil {
				return err
			}
			config, err := kernelConfig(path)
			if err != nil {
				return err
			}
			missing := config.Missing(wanted)
			for _, option := range missing {
				fmt.Fprintf(env.Stdout, "CONFIG_%s is not set, which is for: %s\n", option.Name, option.For)
			}
			if len(missing) > 0 {
				return fmt.Errorf("the kernel lacks %d of the options for %s; `ktsn-guest kernel config` prints all", len(missing), strings.Join(p, ", "))
			}
			fmt.Fprintf(env.Stdout, "the kernel has all options for %s\n", strings.Join(p, ", "))
			return nil
		},
	}
	p.add(command, kernelconfig.Held)
	command.Flags().StringVar(&path, "config", "", "`FILE` of the kernel's configuration (default: the running kernel's)")
	return command
}

func kernelConfig(path string) (kernelconfig.Config, error) {
	if path == "" {
		return kernelconfig.ReadRunning()
	}
	return kernelconfig.ReadFile(path)
}
