// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Outcome is what became of a client's questions when something died.
type Outcome struct {
	Name string `json:"name"`
	// Quiet is the longest gap of the seconds before, when nothing had died.
	Quiet time.Duration `json:"quiet_ns"`
	// Gap is the longest time without an answer from then on; of Sent messages Lost were not answered.
	Gap  time.Duration `json:"gap_ns"`
	Sent int           `json:"sent"`
	Lost int           `json:"lost"`
	// Kept tells that the client's pod is the same, and that none of its containers was started again.
	Kept bool `json:"kept"`
	// To says who answers at the end.
	To string `json:"to"`
	// Timed is what became of timed messages meanwhile; nil: there were none.
	Timed *Timed `json:"timed,omitempty"`
}

// Timed is what became of messages with a transmit time.
type Timed struct {
	Sent int           `json:"sent"`
	Lost int           `json:"lost"`
	Gap  time.Duration `json:"gap_ns"`
}

// Add is an outcome of what was found before something died and from then on.
func (o *Outcome) Add(quiet, died Findings) {
	o.Quiet, o.Gap, o.Sent, o.Lost = quiet.Gap, died.Gap, died.Sent, died.Lost
}

func (o *Outcome) String() string { return strings.Join(o.row(), ", ") }

var head = []string{"what died", "longest gap, s", "lost", "before, longest gap, s", "timed: longest gap, s", "timed: lost", "client kept", "who answers at the end"}

func (o *Outcome) row() []string {
	kept, gap, lost := "yes", "", ""
	if !o.Kept {
		kept = "no"
	}
	if o.Timed != nil {
		gap, lost = seconds(o.Timed.Gap), fmt.Sprintf("%d of %d", o.Timed.Lost, o.Timed.Sent)
	}
	return []string{o.Name, seconds(o.Gap), fmt.Sprintf("%d of %d", o.Lost, o.Sent), seconds(o.Quiet), gap, lost, kept, o.To}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// Write writes outcomes into a folder, as NAME.json and, as a table of Markdown, NAME.md.
func Write(folder, name string, all []Outcome) error {
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	var table strings.Builder
	line := func(cells []string) { table.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	table.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for i := range all {
		line(all[i].row())
	}
	return os.WriteFile(filepath.Join(folder, name+".md"), []byte(table.String()), 0o644)
}
