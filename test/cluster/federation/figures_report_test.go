// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// figure is the median of repetitions. Missing a limit does not fail the test: this machine may have been busy.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// Least and Most are the extremes of the repetitions.
	Least       float64 `json:"least"`
	Most        float64 `json:"most"`
	Repetitions int     `json:"repetitions"`
	// Limit is the wanted maximum, or with AtLeast minimum; without one the figure is only reported.
	Limit   *float64 `json:"limit,omitempty"`
	AtLeast bool     `json:"at_least,omitempty"`
	Reached *bool    `json:"reached,omitempty"`
}

// over returns the figure of repetitions.
func over(name, unit string, values ...float64) figure {
	f := figure{Name: name, Unit: unit, Value: stats.Median(values), Repetitions: len(values)}
	for i, value := range values {
		if i == 0 || value < f.Least {
			f.Least = value
		}
		if i == 0 || value > f.Most {
			f.Most = value
		}
	}
	return f
}

// most returns the figure with a limit that it must not exceed, and least with one that it must reach.
func (f figure) most(limit float64) figure { return f.within(limit, f.Value <= limit) }

func (f figure) least(limit float64) figure {
	f.AtLeast = true
	return f.within(limit, f.Value >= limit)
}

func (f figure) within(limit float64, reached bool) figure {
	f.Limit, f.Reached = &limit, &reached
	return f
}

// report is the result of a run: summary.json, and tables.md for a page of results.
type report struct {
	Schema  int       `json:"schema"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Machine string    `json:"machine"`
	// Loads are the load averages of a minute at the beginning and at the end.
	Loads   [2]string `json:"loads"`
	Figures []figure  `json:"figures"`

	sections strings.Builder
}

func newReport() *report {
	return &report{Schema: 1, Began: time.Now().UTC(), Machine: machine(), Loads: [2]string{load()}}
}

// add adds figures, and logs them.
func (r *report) add(t *testing.T, figures ...figure) {
	t.Helper()
	for _, figure := range figures {
		r.Figures = append(r.Figures, figure)
		t.Logf("figure: %s", strings.Join(figure.row(), ", "))
	}
}

// section adds a table to the page, with a text above it.
func (r *report) section(title, text string, rows [][]string) {
	fmt.Fprintf(&r.sections, "\n## %s\n\n%s\n", title, text)
	if len(rows) > 0 {
		r.sections.WriteString("\n" + table(rows))
	}
}

// table returns a Markdown table; the first row is the head.
func table(rows [][]string) string {
	var text strings.Builder
	for i, row := range rows {
		text.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			text.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return text.String()
}

var figureHead = []string{"figure", "median", "least to most", "limit", "reached"}

func (f figure) row() []string {
	row := []string{f.Name, number(f.Value) + suffix(f.Unit), "", "", ""}
	if f.Repetitions > 1 {
		row[2] = fmt.Sprintf("%s to %s, %d times", number(f.Least), number(f.Most), f.Repetitions)
	}
	if f.Limit != nil {
		sign, reached := "≤ ", "no"
		if f.AtLeast {
			sign = "≥ "
		}
		if *f.Reached {
			reached = "yes"
		}
		row[3], row[4] = sign+number(*f.Limit), reached
	}
	return row
}

func suffix(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

// number returns three significant digits, or all of a larger whole number.
func number(value float64) string {
	if value >= 100 || value == float64(int64(value)) {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

// write writes both files into the folder KTSN_FEDERATION_OUT.
func (r *report) write(t *testing.T) {
	t.Helper()
	r.Ended, r.Loads[1] = time.Now().UTC(), load()
	folder := os.Getenv("KTSN_FEDERATION_OUT")
	if folder == "" {
		return
	}
	rows := [][]string{figureHead}
	for _, figure := range r.Figures {
		rows = append(rows, figure.row())
	}
	page := fmt.Sprintf("# Federation\n\n- Date: %s to %s UTC\n- Machine: %s; load average %s at the beginning, %s at the end\n\n## Figures\n\n%s%s",
		r.Began.Format("2 January 2006, 15:04"), r.Ended.Format("15:04"), r.Machine, r.Loads[0], r.Loads[1], table(rows), r.sections.String())
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "summary.json"), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "tables.md"), []byte(page), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

var modelName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

// machine describes this machine.
func machine() string {
	model := "an unknown processor"
	text, _ := os.ReadFile("/proc/cpuinfo") // it says what it is, or not
	if match := modelName.FindSubmatch(text); match != nil {
		model = string(match[1])
	}
	var name unix.Utsname
	_ = unix.Uname(&name) // which each Linux has
	return fmt.Sprintf("%d cores of %s, Linux %s", runtime.NumCPU(), model, unix.ByteSliceToString(name.Release[:]))
}

// load returns the load average of the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // which each Linux has
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
