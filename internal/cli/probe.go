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

// probed has the states in which each probe succeeds.
var probed = map[string][]string{
	"serving": {control.StateServing},
	"alive":   {control.StateServing, control.StateStandingBy},
}

func newProbe(_ *commandline.Environment) *cobra.Command {
	var folder string
	command := &cobra.Command{
		Use:   "probe [options] serving | alive",
		Short: "Check whether the ktsnd of this pod serves the node, or is alive",
		Long: "Checks the state of the ktsnd whose --instance-dir the folder is, for the probes of its pod. Another ktsnd may serve the node.\n" +
			"serving: it serves the node. alive: it serves the node or stands by. Otherwise the exit status is 1, and the error message\n" +
			"has the state.",
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
			return checkState(answer, arguments[0])
		},
	}
	command.Flags().StringVar(&folder, "instance-dir", control.DefaultInstanceDir, "the ktsnd's `DIR`")
	return command
}

func needState(_ *cobra.Command, arguments []string) error {
	if len(arguments) != 1 || probed[arguments[0]] == nil {
		return commandline.Usage(errors.New("name the state to check: serving or alive"))
	}
	return nil
}

// checkState returns an error if the probe fails in the state of the ktsnd.
func checkState(answer *control.ProbeAnswer, probe string) error {
	for _, state := range probed[probe] {
		if answer.State == state {
			return nil
		}
	}
	if answer.Why != "" {
		return fmt.Errorf("this ktsnd is %s: %s", answer.State, answer.Why)
	}
	return fmt.Errorf("this ktsnd is %s", answer.State)
}
