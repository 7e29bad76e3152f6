// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

const (
	page  = "../../docs/internals/conformance.md"
	begin = "<!-- deviations -->\n"
	end   = "<!-- end of deviations -->\n"
)

var update = flag.Bool("update", false, "write the table of deviations into docs/internals/conformance.md")

// The page has the scenarios' deviations, and explains each kind of them.
func TestDocumentation(t *testing.T) {
	scenarios, err := scenario.Load(scenarioDir)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(content), begin)
	table, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s: the marks of the table are missing", page)
	}
	want, kinds := deviations(scenarios)
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Errorf("%s does not have the deviations of the scenarios; run this test with -update", page)
	}
	var explained []string
	for _, heading := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(before, -1) {
		explained = append(explained, heading[1])
	}
	slices.Sort(explained)
	if !slices.Equal(explained, kinds) {
		t.Errorf("%s explains %v, and the scenarios declare %v", page, explained, kinds)
	}
}

// deviations returns the table, and the kinds in it.
func deviations(scenarios []scenario.Scenario) (table string, kinds []string) {
	lines := map[string]string{}
	for _, tested := range scenarios {
		for _, deviation := range tested.Deviations {
			ids := strings.Trim(fmt.Sprint(deviation.Messages), "[]")
			lines[deviation.Kind] += fmt.Sprintf("| %s | %s: %s | %s | %s | %s |\n", deviation.Kind, tested.Name,
				strings.ReplaceAll(ids, " ", ", "), deviation.Shaper, deviation.Kernel, deviation.Reason)
		}
	}
	kinds = slices.Sorted(maps.Keys(lines))
	var text strings.Builder
	text.WriteString("| kind | scenario: messages | ktsnd | kernel | here |\n|---|---|---|---|---|\n")
	for _, kind := range kinds {
		text.WriteString(lines[kind])
	}
	return text.String(), kinds
}
