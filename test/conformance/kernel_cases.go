// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

// RunCases runs cases of SO_TXTIME in the machine by that program and returns a report of each.
func (m *Machine) RunCases(ctx context.Context, program string, cases []txtime.Case) ([]txtime.Report, error) {
	list, err := json.Marshal(cases)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	err = m.packFiles(ctx, []file{{"txtime-cases.json", list, 0o644}, {"txtime", content, 0o755}, {"scenarios.json", []byte("[]"), 0o644}})
	if err != nil {
		return nil, fmt.Errorf("pack initial file system: %w", err)
	}
	reports := filepath.Join(m.Dir, "reports")
	console, err := m.boot(ctx, reports)
	if err != nil {
		return nil, fmt.Errorf("run qemu: %w; the console says:\n%s", err, console)
	}
	read, err := readCases(reports)
	if err == nil && len(read) != len(cases) {
		err = fmt.Errorf("%d reports of %d cases", len(read), len(cases))
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the console says:\n%s", err, console)
	}
	return read, nil
}

func readCases(path string) ([]txtime.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	defer file.Close()
	var reports []txtime.Report
	for decoder := json.NewDecoder(file); ; {
		var report txtime.Report
		if err := decoder.Decode(&report); errors.Is(err, io.EOF) {
			return reports, nil
		} else if err != nil {
			return nil, fmt.Errorf("read reports: %w", err)
		}
		reports = append(reports, report)
	}
}
