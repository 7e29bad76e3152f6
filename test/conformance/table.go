// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// Row is a scenario and its differences.
type Row struct {
	Scenario   *scenario.Scenario
	Complaints []string
}

// Table returns the verdict on each scenario; version is the kernel's.
func Table(version string, rows []Row) string {
	var text strings.Builder
	fmt.Fprintf(&text, "The shaper beside %s\n\n", version)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenario\tstrategy\tmessages\tas the kernel\tdeclared\tverdict")
	for _, row := range rows {
		deviating := 0
		for _, deviation := range row.Scenario.Deviations {
			deviating += len(deviation.Messages)
		}
		verdict := "ok"
		if len(row.Complaints) > 0 {
			verdict = "FAILED"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\n", row.Scenario.Name, row.Scenario.Strategy,
			len(row.Scenario.Messages), len(row.Scenario.Messages)-deviating, deviating, verdict)
	}
	_ = table.Flush() // into a strings.Builder
	for _, row := range rows {
		for _, complaint := range row.Complaints {
			fmt.Fprintf(&text, "\n%s: %s", row.Scenario.Name, complaint)
		}
	}
	return text.String()
}
