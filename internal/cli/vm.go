// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func newVM(env *commandline.Environment) *cobra.Command {
	return commandline.Group("vm", "Connect virtual machines", newVMAttach(env), newVMDetach(), newVMList(env), newVMRelay(env), newVMClock(env), newVMPassthrough(env))
}
