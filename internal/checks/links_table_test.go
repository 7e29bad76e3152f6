// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"regexp"
	"strings"
	"testing"
)

// tableRows are the rows of Table I of the paper that docs/measurements/links-table.md reproduces.
var tableRows = []string{"second network", "service function chains", "several clusters", "TLS, VPN", "no NAT", "SCTP", "UDP", "hardware acceleration"}

// TestLinksTableNamesTests finds rows without a test that proves them.
func TestLinksTableNamesTests(t *testing.T) {
	page, sources := read(t, "docs/measurements/links-table.md"), read(t, "test/cni/links_table_test.go")
	named := regexp.MustCompile("^`(TestTable\\w+)`$")
	for _, row := range tableRows {
		_, rest, ok := strings.Cut(page, "\n| "+row+" | ")
		cell, _, _ := strings.Cut(rest, " | ")
		test := named.FindStringSubmatch(cell)
		if !ok || test == nil {
			t.Errorf("row %q of docs/measurements/links-table.md names no test", row)
			continue
		}
		if !strings.Contains(sources, "func "+test[1]+"(") {
			t.Errorf("row %q: test/cni/links_table_test.go has no %s", row, test[1])
		}
	}
}
