// SPDX-License-Identifier: Apache-2.0

//go:build thousand

package scale

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figure is a measurement, with the limit that it may reach if there is one.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Limit is the most that Value may be; 0 is none.
	Limit float64 `json:"limit,omitempty"`
	// Remark says how the figure came about.
	Remark string `json:"remark,omitempty"`
}

func (f *figure) reached() bool { return f.Limit == 0 || f.Value <= f.Limit }

// figures are those of a run.
type figures struct {
	Schema int       `json:"schema"`
	Date   time.Time `json:"date"`
	Nodes  int       `json:"nodes"`
	Pods   int       `json:"pods"`
	// Load is the machine's when the run began.
	Load    string   `json:"load"`
	Figures []figure `json:"figures"`

	log testing.TB
}

func newFigures(t testing.TB, nodes, pods int) *figures {
	load, err := os.ReadFile("/proc/loadavg")
	must(t, err)
	return &figures{Schema: 1, Date: time.Now().UTC().Truncate(time.Second), Nodes: nodes, Pods: pods, Load: strings.TrimSpace(string(load)), log: t}
}

func (f *figures) add(name string, value float64, unit string, limit float64, remark string, arguments ...any) *figure {
	f.Figures = append(f.Figures, figure{name, value, unit, limit, fmt.Sprintf(remark, arguments...)})
	last := &f.Figures[len(f.Figures)-1]
	f.log.Logf("figure: %s: %s %s %s; %s", name, number(value), unit, limitOf(last), last.Remark)
	return last
}

// bound is add for a figure that does not depend on how fast a machine is, nor on what else it does: a limit that is missed fails
// the test.
func (f *figures) bound(name string, value float64, unit string, limit float64, remark string, arguments ...any) {
	if added := f.add(name, value, unit, limit, remark, arguments...); !added.reached() {
		f.log.Errorf("%s: %s %s, above %s", name, number(value), unit, number(limit))
	}
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', 3, 64) }

func limitOf(f *figure) string {
	switch {
	case f.Limit == 0:
		return ""
	case f.reached():
		return "limit " + number(f.Limit) + " reached"
	}
	return "limit " + number(f.Limit) + " **missed**"
}

// write puts table and JSON into a folder.
func (f *figures) write(dir string) {
	f.log.Helper()
	must(f.log, os.MkdirAll(dir, 0o755))
	text, err := json.MarshalIndent(f, "", "  ")
	must(f.log, err)
	must(f.log, os.WriteFile(filepath.Join(dir, "summary.json"), append(text, '\n'), 0o644))
	var table strings.Builder
	fmt.Fprintf(&table, "%d nodes, %d pods; load of the machine at the beginning: %s\n\n", f.Nodes, f.Pods, f.Load)
	table.WriteString("| figure | value | limit | remark |\n|---|---|---|---|\n")
	for i := range f.Figures {
		figure := &f.Figures[i]
		fmt.Fprintf(&table, "| %s | %s %s | %s | %s |\n", figure.Name, number(figure.Value), figure.Unit, limitOf(figure), figure.Remark)
	}
	must(f.log, os.WriteFile(filepath.Join(dir, "tables.md"), []byte(table.String()), 0o644))
}
