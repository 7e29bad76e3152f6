// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tableRows are those of Table I of the paper that docs/links-table.md is about.
var tableRows = []string{"second network", "service function chains", "several clusters", "TLS, VPN", "no NAT", "SCTP", "UDP", "hardware acceleration"}

// TestEachRowOfTheTableOfLinksNamesATestOfItsOwn finds rows that nothing shows. That the tests exist is checked of all pages.
func TestEachRowOfTheTableOfLinksNamesATestOfItsOwn(t *testing.T) {
	root := readTree(t).root
	page, err := os.ReadFile(filepath.Join(root, "docs", "links-table.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources, err := os.ReadFile(filepath.Join(root, "test", "cni", "links_table_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("^`(TestTable\\w+)`$")
	for _, row := range tableRows {
		_, rest, ok := strings.Cut(string(page), "\n| "+row+" | ")
		cell, _, _ := strings.Cut(rest, " | ")
		test := named.FindStringSubmatch(cell)
		if !ok || test == nil {
			t.Errorf("row %q of docs/links-table.md names no test", row)
			continue
		}
		if !strings.Contains(string(sources), "func "+test[1]+"(") {
			t.Errorf("row %q: test/cni/links_table_test.go has no %s", row, test[1])
		}
	}
}
