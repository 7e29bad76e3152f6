// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes the view as tables, wide ones with the pods' identities beside their names.
func (v *View) Print(out io.Writer, wide bool) error {
	total := v.Total
	fmt.Fprintf(out, "%s, over %v: %.0f msg/s, %.1f late/s, %.1f drops/s, %d pending, departure error p50 %s p99 %s\n",
		v.At.Format(time.TimeOnly), time.Duration(v.IntervalNs).Round(time.Millisecond), total.Sent, total.Late,
		total.Dropped, total.Pending, formatError(total.ErrorP50Ns), formatError(total.ErrorP99Ns))
	if v.Clock.State != "" {
		fmt.Fprintln(out, v.Clock)
	}
	if v.DeparturesUnseen > 0 {
		fmt.Fprintf(out, "%d departures were overwritten before they could be read; percentiles are without them\n",
			v.DeparturesUnseen)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, podCells("POD", "IDENTITY", wide)+"\tFLOWS\t"+ratesHead)
	for _, pod := range v.Pods {
		fmt.Fprintf(table, "%s\t%d\t%s\n", podCells(pod.Name, pod.Identity, wide), pod.Flows, pod.Rates)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(table, "FLOW\t"+podCells("POD", "IDENTITY", wide)+"\tPID\tFROM\tTO\tTC\t"+ratesHead)
	for _, flow := range v.Flows {
		to := flow.RemoteAddress
		if to == "" {
			to = "any"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%s\n", flow.Number, podCells(flow.Name, flow.Identity, wide), PIDText(flow.PID), flow.LocalAddress, to,
			flow.TrafficClass, flow.Rates)
	}
	return table.Flush()
}

// podCells are what a pod is called, by its identity where it has no name, and behind that in a wide table its identity.
func podCells(name, identity string, wide bool) string {
	name = cmp.Or(name, identity)
	if wide {
		return name + "\t" + identity
	}
	return name
}

// PIDText shows the number of a process, or a dash where ktsnd's PID namespace has none for it, as in a cluster.
func PIDText(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}

const ratesHead = "MSG/S\tLATE/S\tDROP/S\tPENDING\tP50\tP99"

// String gives the cells below ratesHead.
func (r Rates) String() string {
	return fmt.Sprintf("%.0f\t%.1f\t%.1f\t%d\t%s\t%s", r.Sent, r.Late, r.Dropped, r.Pending, formatError(r.ErrorP50Ns),
		formatError(r.ErrorP99Ns))
}

func formatError(ns *int64) string {
	if ns == nil {
		return "-"
	}
	return time.Duration(*ns).String()
}

// Clip cuts a text to lines and columns of a terminal, so that it does not scroll.
func Clip(text string, lines, columns int) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	all = all[:min(len(all), lines)]
	for i, line := range all {
		if runes := []rune(line); len(runes) > columns {
			all[i] = string(runes[:columns])
		}
	}
	return strings.Join(all, "\n")
}
