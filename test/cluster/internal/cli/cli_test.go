// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestInvalidCommandLines(t *testing.T) {
	for name, test := range map[string]struct {
		line   string
		status int
		says   string
	}{
		"a command that there is not": {"upp", exitUsage, `ktsn-cluster has no command "upp"; ` + "`ktsn-cluster --help` lists them"},
		"one of nodes":                {"node nix", exitUsage, `ktsn-cluster node has no command "nix"`},
		"an option that there is not": {"up --node 3", exitUsage, "unknown flag: --node"},
		"an argument too many":        {"down now", exitUsage, "down takes no arguments"},
		"an argument too few":         {"node cut", exitUsage, "cut takes the name of a node"},
		"a service is missing":        {"node restart node1", exitUsage, "restart takes the name of a node and of a service"},
		"a subnet that is none":       {"up --subnet 10.1.2.3", exitUsage, `--subnet: "10.1.2.3" is no IPv4 prefix; give one such as`},
		"a hub that is not named":     {"join", exitUsage, "--hub is missing; give the name of the hub"},
		"a hub to kill that is none":  {"hub kill", exitFailure, "there is no such cluster"},
		"a WAN of no hub":             {"wan cut east", exitFailure, "there is no such cluster"},
		"a cluster that there is not": {"status", exitFailure, "there is no such cluster; `ktsn-cluster up` makes one"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			arguments := append(strings.Fields(test.line), "--dir", t.TempDir())
			status := Main(t.Context(), arguments, &stdout, &stderr)
			if status != test.status || !strings.Contains(stderr.String(), test.says) || strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("%d, it says %q, want %d and %q", status, &stderr, test.status, test.says)
			}
			if stdout.Len() > 0 {
				t.Errorf("it prints %q", &stdout)
			}
		})
	}
}
