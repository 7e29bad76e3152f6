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

// Outcome is the effect of a failure on a client's requests.
type Outcome struct {
	Name string `json:"name"`
	// Quiet is the longest gap in the seconds before the failure.
	Quiet time.Duration `json:"quiet_ns"`
	// Gap is the longest time without an answer after the failure. Lost of the Sent requests were not answered.
	Gap  time.Duration `json:"gap_ns"`
	Sent int           `json:"sent"`
	Lost int           `json:"lost"`
	// Kept reports whether the client's pod is the same, and none of its containers was restarted.
	Kept bool `json:"kept"`
	// To is the server at the end.
	To string `json:"to"`
	// Timed is the effect on timed messages, nil if there were none.
	Timed *Timed `json:"timed,omitempty"`
}

// Timed is the effect of a failure on messages with a transmit time.
type Timed struct {
	Sent int           `json:"sent"`
	Lost int           `json:"lost"`
	Gap  time.Duration `json:"gap_ns"`
}

// Add fills the outcome in from the findings before and after the failure.
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

// Write writes outcomes into a folder, as NAME.json and as the Markdown table NAME.md.
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
