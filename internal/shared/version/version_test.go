// SPDX-License-Identifier: Apache-2.0

package version

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// answer is the line that every program gives: its name, the number, the commit, and what compiled it.
var answer = regexp.MustCompile(`^([a-z-]+) (\d+\.\d+\.\d+) \(([0-9a-f]{12}(?:\+changes)?|unknown commit), (go\d[\w.]*|(?:gcc|clang) \d[\d.]*)\)\n$`)

func TestProgramVersions(t *testing.T) {
	commits := map[string]string{}
	for program, compiler := range map[string]string{
		"ktsn": "go", "ktsn-agent": "go", "ktsn-operator": "go", "ktsn-realtime": "go", "ktsn-wait": "go", "ktsnd": "gcc", "tsnperf": "gcc",
	} {
		output, err := exec.Command(testlab.Program(t, program), "--version").Output()
		if err != nil {
			t.Errorf("%s --version: %v", program, err)
			continue
		}
		parts := answer.FindStringSubmatch(string(output))
		if parts == nil {
			t.Errorf("%s says %q, which is not of the form %v", program, output, answer)
			continue
		}
		if parts[1] != program || parts[2] != Number() || !strings.HasPrefix(parts[4], compiler) && !strings.HasPrefix(parts[4], "clang") {
			t.Errorf("%s says %q, want its name, %s and %s", program, output, Number(), compiler)
		}
		commits[parts[3]] = program
	}
	if len(commits) > 1 {
		t.Errorf("programs of one build name different commits: %v", commits)
	}
}

func TestPluginVersion(t *testing.T) {
	command := exec.Command(testlab.Program(t, "tsn-cni"))
	command.Env = []string{}
	output, err := command.CombinedOutput()
	if want := "tsn-cni " + Number() + " ("; err != nil || !strings.HasPrefix(string(output), want) {
		t.Errorf("got %q, %v; want it to begin with %q", output, err, want)
	}
}

func TestChartVersions(t *testing.T) {
	for _, name := range []string{"kubernetsn", "federator"} {
		chart, err := os.ReadFile("../../../charts/" + name + "/Chart.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if want := "\nversion: " + Number() + "\n"; !strings.Contains(string(chart), want) {
			t.Errorf("Chart.yaml of %s has not %q", name, want)
		}
	}
}

func TestLineUnknownCommit(t *testing.T) {
	before := commit
	defer func() { commit = before }()
	commit = "unknown commit"
	if text := Line("ktsn") + "\n"; !answer.MatchString(text) {
		t.Errorf("got %q", text)
	}
}
