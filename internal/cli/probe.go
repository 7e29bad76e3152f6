// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// probed is what a ktsnd can be asked to be, and the states in which it is.
var probed = map[string][]string{
	"serving": {control.StateServing},
	"alive":   {control.StateServing, control.StateStandingBy},
}

func newProbe(_ *commandline.Environment) *cobra.Command {
	var folder string
	command := &cobra.Command{
		Use:   "probe [options] serving | alive",
		Short: "Ask the ktsnd of this pod whether it serves the node, or is alive",
		Long: "Asks the ktsnd whose --instance-dir the folder is, whichever ktsnd serves the node: for the probes of a pod.\n" +
			"serving: it serves the node. alive: it serves or stands by. The exit status is 0 if so; else it is 1, and a line\n" +
			"says what that ktsnd does.",
		DisableFlagsInUseLine: true,
		ValidArgs:             []string{"serving", "alive"},
		Args:                  needState,
		RunE: func(command *cobra.Command, arguments []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), requestTimeout)
			defer cancel()
			answer, err := control.Probe(ctx, folder)
			if err != nil {
				return fmt.Errorf("%w; is %s the --instance-dir of a running ktsnd?", err, folder)
			}
			return judge(answer, arguments[0])
		},
	}
	command.Flags().StringVar(&folder, "instance-dir", control.DefaultInstanceDir, "the ktsnd's `DIR`")
	return command
}

func needState(_ *cobra.Command, arguments []string) error {
	if len(arguments) != 1 || probed[arguments[0]] == nil {
		return commandline.Usage(errors.New("say what the ktsnd is to be: serving or alive"))
	}
	return nil
}

// judge is nil if the ktsnd is what was asked.
func judge(answer *control.ProbeAnswer, asked string) error {
	for _, state := range probed[asked] {
		if answer.State == state {
			return nil
		}
	}
	if answer.Why != "" {
		return fmt.Errorf("this ktsnd is %s: %s", answer.State, answer.Why)
	}
	return fmt.Errorf("this ktsnd is %s", answer.State)
}
