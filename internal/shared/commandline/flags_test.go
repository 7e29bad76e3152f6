// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"bytes"
	"errors"
	"flag"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

func TestParseAndExit(t *testing.T) {
	for name, test := range map[string]struct {
		arguments      []string
		failure        error
		status         int
		stdout, stderr string
	}{
		"done":              {[]string{"--node", "a"}, nil, ExitOK, "", ""},
		"it went wrong":     {[]string{"--node", "a"}, errors.New("no node a"), ExitFailure, "", "ktsn-x: no node a\n"},
		"help":              {[]string{"--help"}, nil, ExitOK, "Usage: ktsn-x\n  -node NAME\n    \tNAME of the node\n  -version\n    \tprint the version\n", ""},
		"the version":       {[]string{"--version"}, nil, ExitOK, version.Line("ktsn-x") + "\n", ""},
		"an unknown option": {[]string{"--nodes", "a"}, nil, ExitUsage, "", "ktsn-x: flag provided but not defined: -nodes; --help lists the options\n"},
		"a word behind":     {[]string{"a"}, nil, ExitUsage, "", "ktsn-x: \"a\" is too much; --help lists the options\n"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := flag.NewFlagSet("ktsn-x part", flag.ContinueOnError)
			flags.String("node", "", "`NAME` of the node")
			var stdout, stderr bytes.Buffer
			err := Parse(flags, "Usage: ktsn-x\n", test.arguments, &stdout)
			if err == nil {
				err = test.failure
			}
			if status := Exit("ktsn-x", err, &stderr); status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			if stdout.String() != test.stdout || stderr.String() != test.stderr {
				t.Errorf("stdout %q, stderr %q; want %q, %q", stdout.String(), stderr.String(), test.stdout, test.stderr)
			}
		})
	}
}
