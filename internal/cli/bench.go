// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// benchProgram is the program that measures. ktsn is without it, because most nodes measure nothing.
const benchProgram = "ktsn-bench"

func newDemo(env *commandline.Environment) *cobra.Command {
	return benchCommand(env, "demo", "Compare KuberneTSN with the kernel's own paths")
}

func newBench(env *commandline.Environment) *cobra.Command {
	return benchCommand(env, "bench", "Run profiles, and report, compare and assess the results")
}

// benchCommand is a command of ktsn-bench: ktsn becomes that program, which knows the command's own words and options.
func benchCommand(env *commandline.Environment, name, short string) *cobra.Command {
	command := &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, arguments []string) error { return becomeBench(env, name, arguments) },
		ValidArgsFunction: func(command *cobra.Command, arguments []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeBench(command.Context(), env, append([]string{name}, append(arguments, begun)...))
		},
	}
	command.SetHelpFunc(func(command *cobra.Command, words []string) {
		if err := becomeBench(env, name, append(slices.Clone(words), "--help")); err != nil {
			fmt.Fprintf(env.Stdout, "%s\n\n%v\n", command.Short, err)
		}
	})
	return command
}

// becomeBench returns only if ktsn cannot become ktsn-bench. The first argument of all is ktsn, the name that the user typed:
// help and errors of ktsn-bench name `ktsn demo` then.
func becomeBench(env *commandline.Environment, name string, arguments []string) error {
	path, err := findBench(env)
	if err != nil {
		return fmt.Errorf("`ktsn %s` needs the program %s: %w", name, benchProgram, err)
	}
	err = syscall.Exec(path, append([]string{"ktsn", name}, arguments...), os.Environ())
	return fmt.Errorf("start %s: %w", path, err)
}

// findBench searches the folder of this program, then PATH.
func findBench(env *commandline.Environment) (string, error) {
	for _, candidate := range []string{env.Sibling(benchProgram), benchProgram} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", errors.New("it is neither in the folder of ktsn nor in PATH; `make build` builds bin/" + benchProgram + ", copy it there")
}

// completeBench asks ktsn-bench for the words that may come next.
func completeBench(ctx context.Context, env *commandline.Environment, words []string) ([]string, cobra.ShellCompDirective) {
	path, err := findBench(env)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	output, err := exec.CommandContext(ctx, path, append([]string{cobra.ShellCompRequestCmd}, words...)...).Output()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}
