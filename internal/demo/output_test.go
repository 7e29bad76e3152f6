// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/report"
	"github.com/kubernetsn/kubernetsn/internal/results"
)

func TestResultsAreWritten(t *testing.T) {
	dir, messages := t.TempDir(), filepath.Join(t.TempDir(), "messages")
	if err := os.WriteFile(messages, []byte("path\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	measurement := &report.Measurement{Summary: &results.Summary{Schema: results.Schema,
		Runs: []*results.Run{made(PathDirect, 64, 4000)}}}
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
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestReportThatCannotBeMadeLeavesNoHalfFile(t *testing.T) {
	dir := t.TempDir()
	if err := writeResults(dir, filepath.Join(dir, "nowhere"), &report.Measurement{}); err == nil {
		t.Error("messages that are not there were written")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestSeriesHoldTheSamplesOfAllAlternations(t *testing.T) {
	recorder := newRecorder(testCycle, &strings.Builder{})
	for alternation := 1; alternation <= 2; alternation++ {
		outcome, err := join(perfect(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := recorder.add(run{PathDirect, results.WorkloadPlain, 64, 3, alternation}, outcome); err != nil {
			t.Fatal(err)
		}
	}
	series := recorder.series()
	if len(series) != 1 || series[0].Path != PathDirect || series[0].PayloadBytes != 64 || len(series[0].LatencyNs) != 6 ||
		len(series[0].JitterNs) != 4 {
		t.Errorf("got %+v", series)
	}
}
