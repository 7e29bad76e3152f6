// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// gateTable shows how the frames of each traffic class kept to their window.
type gateTable struct {
	ID   string
	Head []string
	Rows []gateRow
}

type gateRow struct {
	Name  string
	Cells []cell
}

// newGateTable has a row for each class of a run with a schedule, and one for frames that bypassed ktsnd; nil if no run
// had either.
func newGateTable(id string, runs []sampled) *gateTable {
	t := &gateTable{ID: id, Head: []string{"window", "sent", "frames", "outside", "overruns"}}
	for i := range runs {
		run := runs[i].run
		for _, class := range run.Gates {
			t.Rows = append(t.Rows, gateRow{fmt.Sprintf("class %d", class.TrafficClass), gateCells(&class)})
		}
		if beside := run.CompetingFrames; beside != nil {
			row := gateRow{"past ktsnd", noCells(len(t.Head))}
			if len(run.Gates) == 0 {
				row.Name = fmt.Sprintf("beside %s, %d B", run.Path, run.PayloadBytes)
			}
			row.Cells[2] = countCell(*beside)
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}

func gateCells(class *results.GateFrames) []cell {
	overruns := int(class.TransmissionOverrun)
	return []cell{
		{Text: micros(class.OpenNs) + " to " + micros(class.CloseNs), Exact: strconv.FormatInt(class.CloseNs-class.OpenNs, 10)},
		countCell(class.Sent), countCell(class.Frames), zeroCell(class.OutsideWindow), countCell(overruns)}
}
