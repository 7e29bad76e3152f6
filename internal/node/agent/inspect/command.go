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

Inspects the programs of a pod and writes a report as JSON. The agent starts it, because a pod can attack a process that reads its
files: it has limits for memory and time, and is killed when it takes longer.

Options:
`

// Command runs the inspecting process.
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
	if err := setLimits(); err != nil {
		return err
	}
	report, err := inspectPod(*proc, *uid)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(report)
}
