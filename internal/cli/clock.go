// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const clockLong = `Shows the maximum error of this node's clock, from ptp4l, chronyd, the kernel and the network card's clock: the state
for an error of at most --max-error, the bound of the error and its parts, the source of the time, and faults of the
configuration. It reads them itself, as ktsn-agent does, and sets nothing. Without --follow it watches until the state
is certain, which takes some seconds. With --follow it prints each estimate, once a second and on each change: as text
one line, as JSON one object a line.`

// clockPatience limits the wait for a certain state.
const clockPatience = 10 * time.Second

// clockOptions are the options of `ktsn node clock`.
type clockOptions struct {
	need      clock.Need
	ptpSocket string
	chrony    string
	local     string
	follow    bool
	length    time.Duration
	format    string
}

func newNodeClock(env *commandline.Environment) *cobra.Command {
	var options clockOptions
	command := &cobra.Command{
		Use:   "clock",
		Short: "Show the maximum error of this node's clock",
		Long:  clockLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if options.need.MaxError <= 0 || options.need.Holdover < 0 || options.length < 0 {
				return commandline.Usage(errors.New("give a --max-error above 0, such as 10us, and no negative --holdover or --for"))
			}
			return options.run(command.Context(), env.Stdout)
		},
	}
	flags := command.Flags()
	flags.DurationVar(&options.need.MaxError, "max-error", tsnnetwork.DefaultMaxError, "largest error that is good enough")
	flags.DurationVar(&options.need.Holdover, "holdover", tsnnetwork.DefaultHoldover, "how long a clock without a source is trusted")
	flags.StringVar(&options.ptpSocket, "ptp-socket", "", "ptp4l's management `SOCKET`; \"\": the first that exists of "+
		strings.Join(clock.DefaultPTPSockets, ", "))
	flags.StringVar(&options.chrony, "chrony-socket", "", "chronyd's `SOCKET`, or host:port; \"\": "+strings.Join(clock.DefaultChronyAddresses, ", and while a chronyd runs that may set the clock "))
	flags.StringVar(&options.local, "local-dir", clock.DefaultLocalDir, "`FOLDER` for the socket to which ptp4l answers")
	flags.BoolVar(&options.follow, "follow", false, "print each estimate, until interrupted")
	flags.DurationVar(&options.length, "for", 0, "end after this time; 0: when the state is certain, with --follow never")
	commandline.OutputFlag(command, &options.format, "text or json", "text", "json")
	return command
}

func (o *clockOptions) run(ctx context.Context, out io.Writer) error {
	limit := o.length
	if limit == 0 && !o.follow {
		limit = clockPatience
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	watched := clock.Options{LocalDir: o.local}
	if o.ptpSocket != "" {
		watched.PTPSockets = []string{o.ptpSocket}
	}
	if o.chrony != "" {
		watched.ChronyAddresses = []string{o.chrony}
	}
	watcher, err := clock.Watch(ctx, watched)
	if err != nil {
		return err
	}
	defer watcher.Close()
	return o.show(ctx, watcher.Changes(), out)
}

// show prints estimates until ctx ends; without follow only the last one, or the first certain one.
func (o *clockOptions) show(ctx context.Context, estimates <-chan clock.Estimate, out io.Writer) error {
	var judge clock.Judge
	var report clock.Report
	for {
		select {
		case estimate := <-estimates:
			report = clock.NewReport(estimate, judge.Look(o.need, estimate))
			if !o.follow && (o.length > 0 || report.Reason == clock.ReasonSettling || report.Reason == clock.ReasonNotMeasured) {
				continue
			}
			if err := o.print(out, report); err != nil || !o.follow {
				return err
			}
		case <-ctx.Done():
			if o.follow || report.State == "" {
				return nil
			}
			return o.print(out, report)
		}
	}
}

func (o *clockOptions) print(out io.Writer, report clock.Report) error {
	switch {
	case o.format == "json" && o.follow:
		return json.NewEncoder(out).Encode(report)
	case o.format == "json":
		return printJSON(out, report)
	case o.follow:
		return printClockLine(out, report)
	}
	return printClock(out, o.need, report)
}

// printClockLine prints an estimate on one line.
func printClockLine(out io.Writer, report clock.Report) error {
	_, err := fmt.Fprintf(out, "%s  %-14s  bound %-12s  offset %-12s  drift %d ppb  %s %s  %s\n", report.Time.Format("15:04:05.000"), report.State,
		boundText(report.BoundNs), time.Duration(report.OffsetNs), report.DriftPPB, report.Source, report.Grandmaster, report.Sentence)
	return err
}

func printClock(out io.Writer, need clock.Need, report clock.Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "state\t%s, for an error of at most %v\n", report.State, need.MaxError)
	if report.Sentence != "" {
		fmt.Fprintf(table, "\t-> %s\n", report.Sentence)
	}
	fmt.Fprintf(table, "source\t%s\n", sourceText(report))
	fmt.Fprintf(table, "error at most\t%s\n", boundText(report.BoundNs))
	if report.BoundNs >= 0 {
		printClockParts(table, report)
	}
	for _, port := range report.Ports {
		stamps := "software"
		if port.Hardware {
			stamps = "hardware"
		}
		fmt.Fprintf(table, "port %d\t%s, %s, %s time stamping\n", port.Number, port.Interface, port.State, stamps)
	}
	fmt.Fprintf(table, "kernel\t%s\n", kernelText(report))
	if report.Steps > 0 {
		fmt.Fprintf(table, "steps\t%d, the last by %+dns\n", report.Steps, report.LastStepNs)
	}
	for _, fault := range report.Faults {
		fmt.Fprintf(table, "fault\t%s: %s\n", fault.Reason, fault.Sentence)
	}
	return table.Flush()
}

func printClockParts(out io.Writer, report clock.Report) {
	for _, part := range []struct {
		name  string
		ns    int64
		shown bool
	}{
		{"offset", report.Parts.OffsetNs, true},
		{"path delay", report.Parts.PathDelayNs, true},
		{"source's accuracy", report.Parts.AccuracyNs, true},
		{"jitter", report.Parts.JitterNs, true},
		{"network card's clock", report.Parts.CardNs, report.Parts.CardNs > 0},
		{"TAI offset", report.Parts.TAINs, report.Parts.TAINs > 0},
		{"step", report.Parts.StepNs, report.Parts.StepNs > 0},
		{fmt.Sprintf("drift of %d ppb", report.DriftPPB), report.Parts.DriftNs, true},
	} {
		if part.shown {
			fmt.Fprintf(out, "  %s\t%s\n", part.name, time.Duration(part.ns))
		}
	}
}

func sourceText(report clock.Report) string {
	text := string(report.Source)
	if report.Grandmaster != "" {
		text += ", " + report.Grandmaster
	}
	if report.LostNs != nil {
		text += fmt.Sprintf(", lost for %v", time.Duration(*report.LostNs).Round(time.Millisecond))
	}
	return text
}

func kernelText(report clock.Report) string {
	synchronized := "unsynchronized"
	if report.Kernel.Synchronized {
		synchronized = fmt.Sprintf("marked as synchronized (maxerror %v)", report.Kernel.MaxError)
	}
	return fmt.Sprintf("%s, frequency %+.0f ppb, TAI - UTC %d s", synchronized, report.Kernel.FrequencyPPB, report.TAIOffset)
}

func boundText(ns int64) string {
	if ns < 0 {
		return "unknown"
	}
	return time.Duration(ns).String()
}
