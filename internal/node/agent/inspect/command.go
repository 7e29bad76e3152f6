// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const usage = `Usage: ktsn-agent inspect --proc FOLDER --pod UID

Looks at the programs of a pod and writes what it finds as JSON. The agent starts it, for what a pod may do to whoever reads its
files: it takes little memory and time, and is ended when it takes longer.

Options:
`

// Command is the process that looks.
func Command(arguments []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("ktsn-agent inspect", flag.ContinueOnError)
	proc := flags.String("proc", "/proc", "`FOLDER` with the node's /proc")
	uid := flags.String("pod", "", "the pod's `UID`")
	if err := commandline.Parse(flags, usage, arguments, stdout); err != nil {
		return err
	}
	if *uid == "" {
		return fmt.Errorf("--pod is missing; %w", commandline.ErrUsage)
	}
	if err := limit(); err != nil {
		return err
	}
	report, err := look(*proc, *uid)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(report)
}
