// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// headline are the paths of the numbers at the top: ours, and the kernel's strongest for comparison.
func headline(plain []sampled) (ours, other string) {
	measured := func(path string) bool {
		return slices.ContainsFunc(plain, func(s sampled) bool { return s.run.Path == path })
	}
	ours, spinning, sleeping := results.PathDirect, results.PathKernelVXLANSpin, results.PathKernelVXLAN
	if measured(results.PathTSN) {
		ours, spinning, sleeping = results.PathTSN, results.PathPrimarySpin, results.PathPrimary
	}
	if measured(spinning) {
		return ours, spinning
	}
	return ours, sleeping
}

// tiles are the main numbers, as far as they were measured.
func tiles(summary *results.Summary, plain []sampled, targets targetTable) []tile {
	var all []tile
	payload, _ := payloadOfCDF(plain)
	ourPath, otherPath := headline(plain)
	ours, other := findRun(plain, ourPath, payload), findRun(plain, otherPath, payload)
	if ours != nil && ours.latency != nil {
		all = append(all, latencyTile(ours, other))
		all = appendSendingTile(all, ours.run, other)
	}
	if ours != nil && ours.run.LaunchError != nil {
		launch := ours.run.LaunchError
		all = append(all, tile{Value: micros(launch.P50), Unit: "µs",
			Title: fmt.Sprintf("median launch error, %d B", payload),
			Note:  "on the wire after the requested time; p99 " + micros(launch.P99) + " µs"})
	}
	if summary.Profile == nil || summary.Profile.Experiment == "" {
		all = append(all, lossTile(plain))
	}
	if len(targets.Rows) > 0 {
		note := "each with every payload; medians over " + plural(summary.Setup.Alternations, "alternation")
		if targets.NotJudged > 0 {
			note += fmt.Sprintf("; %d not judged", targets.NotJudged)
		}
		all = append(all, tile{Value: strconv.Itoa(targets.Reached), Unit: fmt.Sprintf("of %d", len(targets.Rows)),
			Title: "targets reached", Note: note})
	}
	return all
}

func latencyTile(ours, other *sampled) tile {
	t := tile{Value: micros(ours.latency.p50), Unit: "µs",
		Title: fmt.Sprintf("median latency, %d B, path %s", ours.run.PayloadBytes, ours.run.Path)}
	if other != nil && other.latency != nil && ours.latency.p50 > 0 {
		t.Note = fmt.Sprintf("%s takes %s µs, %.1f times as long", other.run.Path, micros(other.latency.p50),
			float64(other.latency.p50)/float64(ours.latency.p50))
	}
	if clockError := ours.run.ClockError; clockError == nil || !clockError.SameClock {
		t.Note = strings.TrimPrefix(t.Note+fmt.Sprintf("; ± %s µs of the clocks", clockError.Text()), "; ")
	}
	return t
}

// appendSendingTile adds the processor time of that latency.
func appendSendingTile(all []tile, ours *results.Run, other *sampled) []tile {
	if ours.SendingCores == nil {
		return all
	}
	t := tile{Value: fmt.Sprintf("%.3f", *ours.SendingCores), Unit: "cores",
		Title: fmt.Sprintf("processor time of the sending side, %d B, path %s", ours.PayloadBytes, ours.Path),
		Note:  "talker and ktsnd"}
	if other != nil && other.run.SendingCores != nil {
		t.Note += fmt.Sprintf("; %s takes %.3f", other.run.Path, *other.run.SendingCores)
	}
	return append(all, t)
}

// lossTile counts over all plain messages; only our path, which holds messages, has early ones.
func lossTile(plain []sampled) tile {
	var sent, lost, early int
	var withLoss []string
	for i := range plain {
		run := plain[i].run
		sent += run.Sent
		lost += run.Lost
		early += run.Early
		if run.Lost+run.Early > 0 {
			withLoss = append(withLoss, fmt.Sprintf("%s %d B", run.Path, run.PayloadBytes))
		}
	}
	t := tile{Value: thousands(float64(lost + early)), Unit: "of " + thousands(float64(sent)),
		Title: "messages lost or early", Bad: lost+early > 0, Note: "over all paths and payloads"}
	if t.Bad {
		t.Note = fmt.Sprintf("%d lost, %d early: %s", lost, early, strings.Join(withLoss, ", "))
	}
	return t
}

func findRun(runs []sampled, path string, payloadBytes int) *sampled {
	for i := range runs {
		if runs[i].run.Path == path && runs[i].run.PayloadBytes == payloadBytes {
			return &runs[i]
		}
	}
	return nil
}

// machine describes place and conditions.
func machine(summary *results.Summary) []entry {
	host, setup := summary.Host, summary.Setup
	entries := []entry{
		{"Processor", fmt.Sprintf("%s, %d to be used", host.CPUModel, host.Cores)},
		{"Kernel", "Linux " + host.Kernel},
	}
	if host.ClockSource != "" {
		entries = append(entries, entry{"Clock source", host.ClockSource})
	}
	if host.KtsndVersion != "" {
		scheduling := host.Scheduler
		if host.SchedulerPriority > 0 {
			scheduling += fmt.Sprintf(" priority %d", host.SchedulerPriority)
		}
		entries = append(entries, entry{"ktsnd", fmt.Sprintf("%s, %s, awake at most %d µs before a departure",
			host.KtsndVersion, scheduling, host.SpinNs/1000)})
	}
	if spinning := summary.SpinningTalkers(); spinning != "" {
		entries = append(entries, entry{"Talkers that spin", spinning})
	}
	if host.GoVersion != "" {
		entries = append(entries, entry{"Go", host.GoVersion})
	}
	if summary.Setup.Messages > 0 {
		entries = append(entries, entry{"Traffic", traffic(summary)})
	}
	entries = append(entries,
		entry{"Processors", pinned(setup)},
		entry{"Lead", fmt.Sprintf("%d µs: so long before its transmit time a timed message is handed over",
			setup.LeadNs/1000)},
		entry{"Gates", gateSetup(setup.Gates)},
		entry{"Clock", clockOf(summary.Clock)})
	if !inCluster(summary) {
		entries = append(entries, entry{"Taken by the hypervisor", fmt.Sprintf("%.3f cores meanwhile", summary.StolenCores)})
	}
	if profile := summary.Profile; profile != nil {
		entries = append(entries, profileEntries(profile)...)
	}
	return entries
}

func clockOf(clock *results.Clock) string {
	if clock == nil || clock.About == "" {
		return "nothing is known of its error"
	}
	return clock.About
}

// profileEntries describe the request.
func profileEntries(profile *results.ProfileSummary) []entry {
	samplers := "on: a tap on the link, and a look at programs and machine every 250 ms"
	switch {
	case profile.Target == clusterTarget:
		samplers = "none during the runs; kubelets are asked between them"
	case profile.Samplers == "apart":
		samplers = "apart: latency, jitter, send calls and departures are of runs that nobody watched. After each a fifth of its messages was " +
			"sent again, with a tap on the link and a look at programs and machine: the wire, memory and the machine’s load are of these. Runs " +
			"with a schedule are watched all the time"
	case profile.Samplers == "off":
		samplers = "off: nothing is known of the wire, of memory and of the machine’s load"
	}
	if profile.Experiment != "" {
		samplers = "none: the experiment looks itself"
	}
	entries := []entry{
		{"Profile", fmt.Sprintf("%s, %d of %s", profile.Name, profile.Done, plural(profile.Runs, "run"))},
		{"Samplers", samplers},
		{"Random numbers", fmt.Sprintf("seed %d", profile.Seed)},
	}
	for _, name := range slices.Sorted(maps.Keys(profile.Programs)) {
		entries = append(entries, entry{name, "SHA-256 " + profile.Programs[name]})
	}
	return entries
}

func gateSetup(gates *results.GateSetup) string {
	if gates == nil {
		return "no run had a schedule"
	}
	return fmt.Sprintf("for ktsnd the link has %s Mbit/s, and a frame has left %s µs before its gate shuts; lead %s µs",
		thousands(float64(gates.LinkSpeedBps)/1e6), micros(gates.GuardBandNs), micros(gates.LeadNs))
}

func plural(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(count) + " " + noun + "s"
}

func traffic(summary *results.Summary) string {
	text := fmt.Sprintf("%s messages for each path and payload, in %s, the paths taking turns",
		thousands(float64(summary.Setup.Messages)), plural(summary.Setup.Alternations, "alternation"))
	if len(summary.Runs) > 0 {
		text += fmt.Sprintf("; one each %s µs", thousands(float64(summary.Runs[0].CycleNs)/1000))
	}
	return text
}

func pinned(setup results.Setup) string {
	if setup.SenderCPU < 0 {
		return "not pinned: there is one only, and the polling listener disturbs everything else"
	}
	return fmt.Sprintf("talker and ktsnd on CPU %d, polling listener on CPU %d", setup.SenderCPU, setup.ListenerCPU)
}
