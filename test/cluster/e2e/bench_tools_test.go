// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// toolsProfiles are experiments of a few seconds with third-party programs. Flannel stands for the primary network.
var toolsProfiles = map[string]string{
	"throughput": `name: throughput
paths: [host, flannel, tsn]
repetitions: 1
experiment: throughput
with: {duration: 1s, pings: 20}
`,
	"dds": `name: dds
paths: [host, flannel, tsn]
repetitions: 1
experiment: dds
with: {parts: [overhead, subscribers, security], sizes: [64], subscribers: [2], levels: [encrypt-rtps], duration: 3s}
`,
}

func TestOtherProgramsAreMeasured(t *testing.T) {
	ctx := needChart(t)
	t.Cleanup(func() { deleteNamespace(t, benchNamespace) })
	for name, want := range map[string]map[string][]string{
		"throughput": {
			"throughput transfers": {"host TCP", "primary TCP", "tsn TCP", "host UDP", "primary UDP", "tsn UDP"},
			"latency round-trips":  {"host the cluster’s", "primary the cluster’s", "tsn the cluster’s"},
		},
		"dds": {
			"overhead throughput": {"host 64", "primary 64", "tsn 64"},
			"subscribers latency": {"host 2 unicast", "host 2 multicast", "primary 2 unicast", "tsn 2 unicast", "tsn 2 multicast"},
			"security throughput": {"tsn encrypt-rtps"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "bench")
			profile := filepath.Join(t.TempDir(), "short.yaml")
			if err := os.WriteFile(profile, []byte(toolsProfiles[name]), 0o600); err != nil {
				t.Fatal(err)
			}
			output := &bytes.Buffer{}
			command := exec.CommandContext(ctx, testlab.Program(t, "ktsn"), "bench", "run", profile, "--kubeconfig", under.Kubeconfig(), "--namespace",
				benchNamespace, "--out", out, "--quiet")
			command.Stdout, command.Stderr = output, output
			if err := command.Run(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			noBenchNamespace(ctx, t)
			checkSections(t, out, want)
		})
	}
}

// checkSections compares the first cells of the tables' rows. The keys are a section and one of its tables.
func checkSections(t *testing.T, out string, want map[string][]string) {
	t.Helper()
	summary := results.ReadSummary(t, out)
	sections := map[string][]string{}
	for _, section := range summary.Sections {
		for _, table := range section.Tables {
			key := section.ID + " " + table.ID
			if len(want[key]) == 0 {
				continue
			}
			cells := len(strings.Fields(strings.ReplaceAll(want[key][0], "the cluster’s", "mtu")))
			for _, row := range table.Rows {
				sections[key] = append(sections[key], strings.Join(row[:cells], " "))
			}
		}
	}
	for key, rows := range want {
		if !slices.Equal(sections[key], rows) {
			t.Errorf("%s: %q, want %q", key, sections[key], rows)
		}
	}
	if len(summary.Problems) > 0 || len(summary.Usage) == 0 {
		t.Errorf("problems %q, and what %d containers used", summary.Problems, len(summary.Usage))
	}
}
