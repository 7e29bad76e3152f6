// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// timedQdiscs are tc's arguments for the kernel's queueing disciplines that heed SO_TXTIME.
var timedQdiscs = [][]string{{"etf", "clockid", "CLOCK_TAI", "delta", "300000"}, {"fq"}}

// tcIn runs tc in a namespace and returns its output.
func tcIn(namespace *topology.Namespace) func(...string) (string, error) {
	return func(arguments ...string) (text string, err error) {
		err = namespace.Do(func() error {
			output, err := exec.Command("tc", arguments...).CombinedOutput()
			text = string(output)
			return err
		})
		return text, err
	}
}

// untimedHost returns why the talker of path host sleeps and sends: the kernel's errors for the queueing disciplines
// with which it would not have to. They are tried on an unused loopback interface.
func untimedHost(tc func(...string) (string, error)) results.Gap {
	answers := make([]string, 0, len(timedQdiscs))
	for _, qdisc := range timedQdiscs {
		output, err := tc(append([]string{"qdisc", "add", "dev", "lo", "root"}, qdisc...)...)
		if err == nil {
			output, err = tc("qdisc", "del", "dev", "lo", "root")
		}
		answers = append(answers, answerOf(qdisc[0], output, err))
	}
	return results.Gap{What: "the host's path with SO_TXTIME",
		Why: "the talker sleeps and sends; tc qdisc add: " + strings.Join(answers, ", ")}
}

func answerOf(qdisc, output string, err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
	var ended *exec.ExitError
	switch {
	case err == nil:
		return qdisc + ": accepted, but path host is not built for it"
	case errors.As(err, &ended) && line != "":
		return fmt.Sprintf("%s: %q", qdisc, line)
	default:
		return fmt.Sprintf("%s could not be tried: %v", qdisc, err)
	}
}
