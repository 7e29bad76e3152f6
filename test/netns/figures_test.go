// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// figure is one line of the table at the end of `make chaos`. A limit does not fail a test: this machine may have been
// busy.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Limit is the maximum. Without one the figure is only reported.
	Limit   *float64 `json:"limit,omitempty"`
	Reached *bool    `json:"reached,omitempty"`
}

// figures is the file that KTSN_FIGURES names.
type figures struct {
	Schema  int      `json:"schema"`
	Figures []figure `json:"figures"`
}

func limited(name string, value float64, unit string, limit float64) figure {
	reached := value <= limit
	return figure{name, value, unit, &limit, &reached}
}

func reported(name string, value float64, unit string) figure {
	return figure{Name: name, Value: value, Unit: unit}
}

func (f figure) String() string {
	line := fmt.Sprintf("%-72s %12.4g %-10s", f.Name, f.Value, f.Unit)
	if f.Limit == nil {
		return line
	}
	verdict := "not reached"
	if *f.Reached {
		verdict = "reached"
	}
	return fmt.Sprintf("%s limit %-8.4g %s", line, *f.Limit, verdict)
}

// record logs figures and adds them to the file, if it is set.
func record(t *testing.T, more ...figure) {
	t.Helper()
	for _, f := range more {
		t.Logf("figure: %v", f)
	}
	path := os.Getenv("KTSN_FIGURES")
	if path == "" {
		return
	}
	all := figures{Schema: 1}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	must(t, err)
	all.Figures = append(all.Figures, more...)
	text, err = json.MarshalIndent(all, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	must(t, err)
}
