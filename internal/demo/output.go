// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/internal/results"
)

// conclude writes the results and the report; lost or early messages and invalid runs become an error.
func conclude(config *Config, summary *results.Summary, lab *lab) error {
	if err := writeResults(config.OutDir, messagesFile(lab), summary); err != nil {
		return err
	}
	if err := printReport(config.Report, summary, lab.pinning); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	_, err := fmt.Fprintf(config.Report, "Written: %s, and every message in %s\n",
		filepath.Join(config.OutDir, "summary.json"), filepath.Join(config.OutDir, "messages.csv"))
	if err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	if count := len(summary.Problems); count > 0 {
		return fmt.Errorf("the measurement shows %d problems, the first being: %s", count, summary.Problems[0])
	}
	return nil
}

// writeResults puts both files in place, each at once: a reader never sees half of one.
func writeResults(dir, messages string, summary *results.Summary) error {
	source, err := os.Open(messages)
	if err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	defer source.Close()
	err = writeFile(filepath.Join(dir, "messages.csv"), func(out io.Writer) error {
		_, err := io.Copy(out, source)
		return err
	})
	if err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	err = writeFile(filepath.Join(dir, "summary.json"), func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(summary)
	})
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
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
