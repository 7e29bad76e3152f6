// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEachControlRequestIsDocumented compares the table of requests with the one from which ktsnd reads them.
func TestEachControlRequestIsDocumented(t *testing.T) {
	const page, source = "docs/internals/control-protocol.md", "datapath/daemon/control/control_request.c"
	_, table, _ := strings.Cut(read(t, source), "} descriptions[] = {\n")
	table, _, _ = strings.Cut(table, "\n};\n")
	_, section, _ := strings.Cut(read(t, page), "\n## Requests\n")
	section, _, _ = strings.Cut(section, "\n##")
	known := firstGroups(regexp.MustCompile(`(?m)^\t\{"([a-z-]+)",`), table)
	documented := firstGroups(regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|"), section)
	if len(known) < 30 || !slices.Equal(known, documented) {
		t.Errorf("%s has the requests %q, and %s has %q", source, known, page, documented)
	}
}

// firstGroups returns the first groups of all matches, sorted.
func firstGroups(pattern *regexp.Regexp, text string) []string {
	var all []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	slices.Sort(all)
	return all
}

// TestEachErrorCodeOfTheNetworkPluginIsDocumented finds the codes of tsn-cni in the table of its page.
func TestEachErrorCodeOfTheNetworkPluginIsDocumented(t *testing.T) {
	const page, source = "docs/reference/tsn-cni.md", "internal/node/attachment/codes.go"
	_, table, _ := strings.Cut(read(t, page), "\n## Error codes\n")
	documented := firstGroups(regexp.MustCompile(`(?m)^\| (\d+) \|`), table)
	codes := firstGroups(regexp.MustCompile(`(?m)^\tCode\w+ = (\d+)$`), read(t, source))
	if len(codes) < 10 {
		t.Fatalf("%s has only the codes %q", source, codes)
	}
	for _, code := range codes {
		if !slices.Contains(documented, code) {
			t.Errorf("%s does not have the code %s of %s", page, code, source)
		}
	}
}
