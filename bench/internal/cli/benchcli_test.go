// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// called runs a command line, the program's name included, and returns its exit status and what it said.
func called(t *testing.T, arguments ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, complaint strings.Builder
	status = Main(t.Context(), arguments, &out, &complaint)
	return status, out.String(), complaint.String()
}

func TestInvalidCommandLines(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "nowhere")
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      string
	}{
		"an unknown command":           {[]string{"ktsn-bench", "dance"}, commandline.ExitUsage, "ktsn-bench: \"dance\" is not a command; `ktsn-bench --help`"},
		"an unknown option":            {[]string{"/usr/bin/ktsn-bench", "demo", "--fast"}, commandline.ExitUsage, "unknown flag: --fast; `ktsn-bench demo --help`"},
		"an unknown option of ktsn":    {[]string{"ktsn", "demo", "--fast"}, commandline.ExitUsage, "ktsn: unknown flag: --fast; `ktsn demo --help`"},
		"a duration that is none":      {[]string{"ktsn", "demo", "--cycle", "soon"}, commandline.ExitUsage, "--cycle"},
		"a cycle that nobody can keep": {[]string{"ktsn", "demo", "--cycle", "1ns"}, commandline.ExitFailure, "a cycle of 1ns"},
		"programs that were not built": {[]string{"ktsn", "demo", "--bin-dir", empty}, commandline.ExitFailure, ""},
		"a bench without its folder":   {[]string{"ktsn", "bench", "run", "quick"}, commandline.ExitUsage, "no --out"},
		"a bench of another target": {[]string{"ktsn", "bench", "run", "quick", "--out", empty, "--target", "moon"}, commandline.ExitUsage,
			"--target"},
		"two targets": {[]string{"ktsn", "bench", "run", "quick", "--out", empty, "--target", "guest", "--kubeconfig", empty}, commandline.ExitUsage,
			"--target and --kubeconfig; a cluster is a target of its own: leave one of them out"},
		"an experiment in machines": {[]string{"ktsn", "bench", "run", "scale", "--out", empty, "--target", "guest"}, commandline.ExitFailure,
			"target: is namespaces, and --target asks for virtual machines"},
		"a bench without its profile": {[]string{"ktsn", "bench", "run"}, commandline.ExitUsage, "no PROFILE; `ktsn bench run --help`"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := called(t, test.arguments...)
			if status != test.status || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("status %d, said %q", status, stderr)
			}
			if stdout != "" {
				t.Errorf("printed %q", stdout)
			}
		})
	}
}

func TestHelpNamesCalledProgram(t *testing.T) {
	for name, arguments := range map[string][]string{
		"  ktsn demo [flags]":                      {"ktsn", "demo", "--help"},
		"  ktsn bench run PROFILE --out DIR":       {"ktsn", "bench", "run", "--help"},
		"  ktsn-bench bench run PROFILE --out DIR": {"bin/ktsn-bench", "bench", "run", "--help"},
	} {
		if status, stdout, stderr := called(t, arguments...); status != commandline.ExitOK || !strings.Contains(stdout, name) || stderr != "" {
			t.Errorf("%v: status %d, said %q, printed\n%s", arguments, status, stderr, stdout)
		}
	}
}
