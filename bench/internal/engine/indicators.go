// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// indicator is an indicator of the experiment with TSN in Kata containers, whose cases a profile with a window defines:
// times from the beginning of a cycle, as its programs (sample-app-taprio, nl-calc) count them.
type indicator struct {
	id, title, axis, about string
	// samples returns the samples of an entry.
	samples func(e *entry) []int64
	// shareOf names a share of the samples, those for which counts returns true; empty for none.
	shareOf string
	counts  func(r *Run, ns int64) bool
}

var allIndicators = []indicator{
	{"scheduled", "scheduled times", "From the beginning of the cycle to the receiving end of the link, µs",
		"from the beginning of a cycle to when the frame comes off the link at the receiver",
		func(e *entry) []int64 { return e.samples.scheduled },
		"in the window", func(r *Run, ns int64) bool {
			return ns >= r.Window.Open.Nanoseconds() && ns < r.Window.Close.Nanoseconds()
		}},
	{"application", "RT application latency", "From the beginning of the cycle to the send call, µs",
		"from the beginning of a cycle to when the application calls the send function",
		func(e *entry) []int64 { return e.samples.application },
		"after the time due", func(r *Run, ns int64) bool { return ns > r.ahead().Nanoseconds() }},
	{"network-jitter", "TSN network jitter", "Scheduled time − mean of all, µs", "a scheduled time − the mean of all of its case",
		func(e *entry) []int64 { return fromMean(e.samples.scheduled) }, "", nil},
}

func fromMean(samples []int64) []int64 {
	var sum int64
	for _, sample := range samples {
		sum += sample
	}
	mean := sum / max(int64(len(samples)), 1)
	all := make([]int64, len(samples))
	for i, sample := range samples {
		all[i] = sample - mean
	}
	return all
}

// indicators returns the section of a profile with a window, nil if nothing of it was measured.
func (c *collector) indicators() *results.Section {
	if c.profile.Window == (Window{}) {
		return nil
	}
	section := &results.Section{ID: "indicators", Title: "Scheduled times, application, network jitter",
		About: "The indicators of the experiment with TSN in Kata containers, over all messages of each case. Where there is no schedule a message " +
			"is due at the beginning of the cycle."}
	section.About += c.aboutGuests()
	if c.profile.VLAN != 0 {
		section.About += fmt.Sprintf(" Frames of ktsnd carry VLAN %d and the priority of their class, which the tap has checked of each.", c.profile.VLAN)
	}
	for _, current := range allIndicators {
		table := results.SectionTable{ID: current.id + "-table", Title: current.title + ", µs: " + current.about,
			Head: []string{"case", "messages", "min", "p1", "p50", "p99", "max", "max − min", "p99 − p1", "p99.9 − p0.1"}}
		if current.shareOf != "" {
			table.Head = append(table.Head, current.shareOf)
		}
		for number, entry := range c.entries {
			samples := slices.Sorted(slices.Values(current.samples(entry)))
			if len(samples) == 0 {
				continue
			}
			name := entry.run.Workload + ", " + entry.run.Path
			table.Rows = append(table.Rows, append(indicatorRow(name, samples), share(&current, entry, samples)...))
			section.Charts = append(section.Charts, current.chart(number, name, samples))
		}
		section.Tables = append(section.Tables, table)
	}
	if beside := c.besideTable(); beside != nil {
		section.Tables = append(section.Tables, *beside)
	}
	if len(section.Charts) == 0 {
		return nil
	}
	return section
}

// share returns the share of the samples for an indicator's column; it has no meaning without a schedule.
func share(shown *indicator, e *entry, samples []int64) []string {
	switch {
	case shown.shareOf == "":
		return nil
	case !HasGates(e.run.Workload):
		return []string{"–"}
	}
	count := 0
	for _, ns := range samples {
		if shown.counts(&e.source, ns) {
			count++
		}
	}
	return []string{fmt.Sprintf("%.2f %%", 100*float64(count)/float64(len(samples)))}
}

// aboutGuests explains the differences between the cases of virtual machines, "" for pods.
func (c *collector) aboutGuests() string {
	if !c.profile.InGuests() {
		return ""
	}
	about := fmt.Sprintf(" Cycles are those of the host's clock, by which the machine's was set. Under a schedule a message is handed over whole cycles earlier, at least %v "+
		"ahead; the application's latency is from the beginning of that cycle. Messages that were handed over less than 50 ms ahead are not in scheduled times.", GuestLead)
	if early := c.profile.Window.GuestEarly; early > 0 && slices.Contains(c.profile.Paths, results.PathGuestTap) {
		about += fmt.Sprintf(" On path %s messages are due %v earlier, because the machine knows the host's time no better, and the gate holds them until it opens.",
			results.PathGuestTap, early)
	}
	if stretch := c.profile.Window.Stretch; stretch > 1 && slices.Contains(c.profile.Paths, results.PathGuestTaprio) {
		about += fmt.Sprintf(" On path %s the machine's kernel executes the schedule: cycle, window and offset are %d times as long there.", results.PathGuestTaprio, stretch)
	}
	return about
}

func indicatorRow(name string, sorted []int64) []string {
	row := []string{name, strconv.Itoa(len(sorted))}
	at := func(hundredths int) int64 { return stats.Percentile(sorted, hundredths) }
	first, last := sorted[0], sorted[len(sorted)-1]
	for _, ns := range []int64{first, at(100), at(stats.P50), at(stats.P99), last, last - first, at(stats.P99) - at(100), at(stats.P99_9) - at(stats.P0_1)} {
		row = append(row, results.Micros(ns))
	}
	return row
}

const (
	// indicatorBins is the number of bins of a histogram, which shows the range between these percentiles in
	// hundredths.
	indicatorBins             = 80
	axisFrom, axisUntil       = 100, 9900
	axisRoom            int64 = 10 // parts of the axis on each side
)

// chart returns the histogram of samples in ascending order.
func (i *indicator) chart(number int, name string, sorted []int64) results.Chart {
	from, until := stats.Percentile(sorted, axisFrom), stats.Percentile(sorted, axisUntil)
	room := max((until-from)/axisRoom, 500)
	from, until = from-room, until+room
	width := max((until-from)/indicatorBins, 1)
	counts := make([]int, (until-from)/width+1)
	outside := 0
	for _, ns := range sorted {
		if bin := (ns - from) / width; ns >= from && int(bin) < len(counts) {
			counts[bin]++
		} else {
			outside++
		}
	}
	line := results.Line{Name: name}
	share := func(count int) float64 { return 100 * float64(count) / float64(len(sorted)) }
	for bin, count := range counts {
		line.Points = append(line.Points, results.Point{X: float64(from+int64(bin)*width) / 1000, Y: share(count)})
	}
	line.Points = append(line.Points, results.Point{X: float64(from+int64(len(counts))*width) / 1000})
	return results.Chart{ID: fmt.Sprintf("%s-%d", i.id, number+1), Title: fmt.Sprintf("%s: %s", name, i.title), Steps: true,
		XAxis: i.axis, YAxis: "Share of messages, %", Lines: []results.Line{line},
		Caption: fmt.Sprintf("The axis ends a little beyond p1 and p99; beside it are %d of %d messages, from %s to %s µs.", outside, len(sorted),
			results.Micros(sorted[0]), results.Micros(sorted[len(sorted)-1]))}
}

// besideTable returns the results of an iperf3 that ran during the messages, by repetition; nil if there was none.
func (c *collector) besideTable() *results.SectionTable {
	table := &results.SectionTable{ID: "iperf3-table", Title: "iperf3 beside the messages, UDP as fast as it can",
		Head: []string{"repetition", "arrived, Mbit/s", "lost, %"}}
	for _, entry := range c.entries {
		lost, name := entry.values[ValueIperf3Lost], entry.run.Workload
		if c.profile.InGuests() {
			name += ", " + entry.run.Path
		}
		for i, bps := range entry.values[ValueIperf3Bps] {
			table.Rows = append(table.Rows, []string{fmt.Sprintf("%s %d", name, i+1), fmt.Sprintf("%.0f", bps/1e6),
				fmt.Sprintf("%.1f", 100*lost[i])})
		}
	}
	if len(table.Rows) == 0 {
		return nil
	}
	return table
}
