// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/internal/report"
)

// Names of the files in config.OutDir.
const (
	summaryName  = "summary.json"
	reportName   = "report.html"
	messagesName = "messages.csv"
)

// conclude writes the results and the report; lost or early messages and invalid runs become an error.
func conclude(config *Config, measurement *report.Measurement, lab *lab) error {
	summary := measurement.Summary
	if err := writeResults(config.OutDir, messagesFile(lab), measurement); err != nil {
		return err
	}
	if err := printReport(config.Report, summary, lab.pinning); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	_, err := fmt.Fprintf(config.Report, "Written: %s, and every message in %s\nTo look at: %s\n",
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

// writeResults puts the files in place, each at once: a reader never sees half of one.
func writeResults(dir, messages string, measurement *report.Measurement) error {
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{messagesName, func(out io.Writer) error { return copyFile(out, messages) }},
		{summaryName, func(out io.Writer) error {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(measurement.Summary)
		}},
		{reportName, func(out io.Writer) error { return report.Write(out, measurement) }},
	} {
		if err := writeFile(filepath.Join(dir, file.name), file.write); err != nil {
			return fmt.Errorf("write %s: %w", file.name, err)
		}
	}
	return nil
}

func copyFile(out io.Writer, path string) error {
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer source.Close()
	_, err = io.Copy(out, source)
	return err
}

// writeFile writes a file under another name and renames it when it is complete.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	success := false
	defer func() {
		if !success {
			_ = file.Close() // may be closed already
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	success = true
	return nil
}
