// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/internal/report"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

func TestResultsAreWritten(t *testing.T) {
	dir := t.TempDir()
	messages := func(out io.Writer) error {
		_, err := io.WriteString(out, "path\n")
		return err
	}
	measurement := &report.Measurement{Summary: &results.Summary{Schema: results.Schema,
		Runs: []*results.Run{results.SampleRun(results.PathDirect, 64, 4000)}}}
	if err := writeResults(dir, messages, measurement); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var summary results.Summary
	if err := json.Unmarshal([]byte(read(summaryName)), &summary); err != nil || len(summary.Runs) != 1 {
		t.Errorf("got %+v, %v", summary, err)
	}
	if read(messagesName) != "path\n" || !strings.HasPrefix(read(reportName), "<!DOCTYPE html>") {
		t.Error("the messages or the report are not what was to be written")
	}
	if !strings.HasPrefix(read(report.TablesName), "# Demo\n") {
		t.Errorf("the tables are\n%s", read(report.TablesName))
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 4 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestFailedReportLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := writeResults(dir, func(io.Writer) error { return os.ErrNotExist }, &report.Measurement{}); err == nil {
		t.Error("messages that are not there were written")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}
