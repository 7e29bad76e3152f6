// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

const casesHeader = `# What Linux answers to the cases of ktsn-test-txtime, recorded in the virtual machine of make conformance:
# KTSN_RECORD=1 scripts/go.sh test -run TestTheKernelAnswersAsRecorded ./test/conformance
`

// All cases share one boot. test/netns compares libktsn's results for the same cases with the recorded ones.
func TestTheKernelAnswersAsRecorded(t *testing.T) {
	record := os.Getenv("KTSN_RECORD") != ""
	var cases []txtime.Case
	for _, tested := range txtime.Cases {
		if tested.Short || !testing.Short() || record {
			cases = append(cases, tested)
		}
	}
	application := testlab.Program(t, "ktsn-test-txtime")
	machine := machine(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reports, err := machine.RunCases(ctx, application, cases)
	if err != nil {
		t.Fatal(err)
	}
	if record {
		recordCases(t, reports)
		return
	}
	known := txtime.Kernel()
	for _, report := range reports {
		t.Run(report.Case.ID(), func(t *testing.T) {
			if report.Failure != "" {
				t.Fatal(report.Failure)
			}
			for _, complaint := range txtime.Compare(report.Facts, known[report.Case.ID()], nil) {
				t.Error(complaint)
			}
		})
	}
}

func recordCases(t *testing.T, reports []txtime.Report) {
	t.Helper()
	var text strings.Builder
	text.WriteString(casesHeader)
	for _, report := range reports {
		if report.Failure != "" {
			t.Errorf("%s: %s", report.Case.ID(), report.Failure)
		}
		for _, fact := range report.Facts {
			fmt.Fprintf(&text, "%s: %s\n", report.Case.ID(), fact)
		}
	}
	if err := os.WriteFile("txtime/kernel.txt", []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
