// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/report"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Names of the files in config.OutDir.
const (
	summaryName  = "summary.json"
	reportName   = "report.html"
	messagesName = "messages.csv"
)

// conclude writes the results and the report; lost or early messages and invalid runs become an error.
func conclude(config *Config, store *engine.Store) error {
	summary, series, err := engine.Collect(store)
	if err != nil {
		return err
	}
	// Nobody asked for a profile, and a demo cannot be continued.
	summary.Profile, summary.NotMeasured = nil, []results.Gap{}
	measurement := &report.Measurement{Summary: summary, Series: series}
	if err := writeResults(config.OutDir, store.WriteMessages, measurement); err != nil {
		return err
	}
	if err := printReport(config.Report, summary); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	_, err = fmt.Fprintf(config.Report, "Written: %s, and every message in %s\nTo look at: %s\n",
		filepath.Join(config.OutDir, summaryName), filepath.Join(config.OutDir, messagesName),
		filepath.Join(config.OutDir, reportName))
	if err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	if count := len(summary.Problems); count > 0 {
		return fmt.Errorf("the measurement shows %d problems, the first being: %s", count, summary.Problems[0])
	}
	return nil
}

// writeResults renames the files into place, each atomically.
func writeResults(dir string, messages func(io.Writer) error, measurement *report.Measurement) error {
	if err := results.WriteFile(filepath.Join(dir, messagesName), messages); err != nil {
		return fmt.Errorf("write %s: %w", messagesName, err)
	}
	if err := results.WriteJSON(filepath.Join(dir, summaryName), measurement.Summary); err != nil {
		return fmt.Errorf("write %s: %w", summaryName, err)
	}
	tables := func(out io.Writer) error { return report.WriteTables(out, measurement.Summary) }
	if err := results.WriteFile(filepath.Join(dir, report.TablesName), tables); err != nil {
		return fmt.Errorf("write %s: %w", report.TablesName, err)
	}
	page := func(out io.Writer) error { return report.Write(out, measurement) }
	if err := results.WriteFile(filepath.Join(dir, reportName), page); err != nil {
		return fmt.Errorf("write %s: %w", reportName, err)
	}
	return nil
}
