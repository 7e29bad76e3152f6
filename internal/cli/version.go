// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

func newVersion(env *commandline.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, the release and the build flags",
		Args:  commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(env.Stdout, "%s\nrelease %s\nbuilt with %s\n", version.Line("ktsn"), version.Release(), version.BuildFlags())
			return err
		},
	}
}
