// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocListsAllParts compares the list of parts in a doc.go with the tree: folders of the agent, files of the operator.
func TestDocListsAllParts(t *testing.T) {
	for _, test := range []struct {
		folder  string
		folders bool
	}{
		{"internal/node/agent", true},
		{"internal/cluster/operator", false},
	} {
		documentation := read(t, test.folder+"/doc.go")
		entries, err := os.ReadDir(filepath.Join(root, test.folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name, isSource := strings.CutSuffix(entry.Name(), ".go")
			if entry.IsDir() != test.folders || !entry.IsDir() && (!isSource || strings.HasSuffix(name, "_test") || name == "doc") {
				continue
			}
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(documentation) {
				t.Errorf("%s/doc.go does not mention %s", test.folder, name)
			}
		}
	}
}

// TestMapHasEachFieldOfTSNNetwork compares the table of the map with the fields of spec.
func TestMapHasEachFieldOfTSNNetwork(t *testing.T) {
	const page, source = "docs/internals/map.md", "api/v1alpha1/tsnnetwork.go"
	_, spec, _ := strings.Cut(read(t, source), "\ntype TSNNetworkSpec struct {\n")
	spec, _, _ = strings.Cut(spec, "\n}\n")
	_, table, _ := strings.Cut(read(t, page), "\n## Fields of TSNNetwork\n")
	table, _, _ = strings.Cut(table, "\n## ")
	fields := firstGroups(regexp.MustCompile(`json:"(\w+)`), spec)
	var rows []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			rows = append(rows, firstGroups(regexp.MustCompile("`(\\w+)`"), cells[1])...)
		}
	}
	slices.Sort(rows)
	if len(fields) < 10 || !slices.Equal(fields, rows) {
		t.Errorf("%s has the fields %q, and the table of %s has %q", source, fields, page, rows)
	}
}
