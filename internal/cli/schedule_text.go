// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// gates is a schedule to print, requested or in force.
type gates struct {
	// executed reports whether the cycle runs; if not, the gates have the states.
	executed    bool
	states      uint8
	cycle       schedule.Cycle
	baseTime    control.PTPTime
	extensionNs uint32
	link        schedule.Link
}

// print draws the cycle, with its figures above and notes below.
func (g gates) print(out io.Writer, style schedule.Style) {
	link := fmt.Sprintf("guard band %s, link %s", schedule.FormatNs(g.link.GuardBandNs, style.ASCII),
		schedule.FormatLinkSpeed(g.link.SpeedBps))
	if !g.executed {
		fmt.Fprintf(out, "no control list is executed, %s\nopen: %s\n", link, schedule.Classes(g.states))
		return
	}
	fmt.Fprintf(out, "cycle %s, base-time %s, extension %s\n%s\n", schedule.FormatNs(g.cycle.TimeNs, style.ASCII),
		schedule.FormatTime(g.baseTime), schedule.FormatNs(int64(g.extensionNs), style.ASCII), link)
	fmt.Fprint(out, g.cycle.Draw(style))
	for _, note := range g.cycle.Notes(g.link, style.ASCII) {
		fmt.Fprintf(out, "note: %s\n", note)
	}
}

// printTable prints a schedule that is not from a ktsnd.
func printTable(out io.Writer, table *control.GateParameterTable, link schedule.Link, style schedule.Style) {
	gates{
		executed:    table.GateEnabled,
		states:      table.AdminGateStates,
		cycle:       schedule.Cycle{TimeNs: table.AdminCycleTime.Nanoseconds(), Entries: table.AdminControlList.Entries},
		baseTime:    table.AdminBaseTime,
		extensionNs: table.AdminCycleTimeExtension,
		link:        link,
	}.print(out, style)
	if !table.GateEnabled && len(table.AdminControlList.Entries) > 0 {
		fmt.Fprintln(out, "note: there is a control list, but gate-enabled is not true")
	}
	for _, sdu := range table.QueueMaxSDUTable {
		if sdu.QueueMaxSDU > 0 {
			fmt.Fprintf(out, "queue-max-sdu of TC%d: %d bytes\n", sdu.TrafficClass, sdu.QueueMaxSDU)
		}
	}
}

// printSchedule prints the state of ktsnd's gates.
func printSchedule(out io.Writer, current *control.Schedule, style schedule.Style) error {
	table := &current.Table
	link := schedule.Link{SpeedBps: current.LinkSpeedBps, GuardBandNs: current.GuardBandNs}
	fmt.Fprintln(out, "In force")
	oper := operGates(table, link)
	oper.print(out, style)
	if oper.executed {
		fmt.Fprintf(out, "open now: %s\n", schedule.Classes(table.OperGateStates))
	}
	if table.ConfigPending {
		fmt.Fprintf(out, "\nPending, from %s, in %v\n", schedule.FormatTime(table.ConfigChangeTime),
			left(table.ConfigChangeTime, table.CurrentTime))
		adminGates(table, link).print(out, style)
	}
	fmt.Fprintf(out, "\nconfig-change-error %d\n\n", table.ConfigChangeError)
	rows := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "class\tqueue-max-sdu\ttransmission-overrun")
	for _, queue := range slices.Backward(table.QueueMaxSDUTable) {
		fmt.Fprintf(rows, "%d\t%s\t%d\n", queue.TrafficClass, limit(queue.QueueMaxSDU.QueueMaxSDU), queue.TransmissionOverrun)
	}
	return rows.Flush()
}

func operGates(table *control.GateParameterState, link schedule.Link) gates {
	return gates{
		executed:    len(table.OperControlList.Entries) > 0,
		states:      table.OperGateStates,
		cycle:       schedule.Cycle{TimeNs: table.OperCycleTime.Nanoseconds(), Entries: table.OperControlList.Entries},
		baseTime:    table.OperBaseTime,
		extensionNs: table.OperCycleTimeExtension,
		link:        link,
	}
}

func adminGates(table *control.GateParameterState, link schedule.Link) gates {
	return gates{
		executed:    table.GateEnabled,
		states:      table.AdminGateStates,
		cycle:       schedule.Cycle{TimeNs: table.AdminCycleTime.Nanoseconds(), Entries: table.AdminControlList.Entries},
		baseTime:    table.AdminBaseTime,
		extensionNs: table.AdminCycleTimeExtension,
		link:        link,
	}
}

// left returns the time from now until at, or 0 if it has passed.
func left(at, now control.PTPTime) time.Duration {
	seconds := time.Duration(int64(at.Seconds)-int64(now.Seconds)) * time.Second
	return max(0, seconds+time.Duration(int64(at.Nanoseconds)-int64(now.Nanoseconds)))
}

func limit(bytes uint32) string {
	if bytes == 0 {
		return "none"
	}
	return strconv.FormatUint(uint64(bytes), 10)
}
