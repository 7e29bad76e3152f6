// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
	"github.com/kubernetsn/kubernetsn/internal/shared/streams"
)

// schedulePlan has the options of the command.
type schedulePlan struct {
	topology, running, svg, gates, bridges, request, tsnkit, format string
	limit                                                           time.Duration
	ascii                                                           bool
}

func newSchedulePlan(env *commandline.Environment) *cobra.Command {
	var p schedulePlan
	command := &cobra.Command{
		Use:   "plan FILE",
		Short: "Compute a schedule for streams: offsets and gate control lists",
		Long: "Computes transmit offsets for streams and a gate control list for each port on their way, verifies them, and prints them with the\n" +
			"worst-case latencies. Neither a cluster nor a ktsnd is needed.\n\n" +
			"FILE has the streams, and may have the topology, in YAML or JSON; docs/guide/streams.md describes it. Without a topology all\n" +
			"stations are connected to one bridge.",
		Args: commandline.OneArgument("FILE"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if p.limit <= 0 {
				return commandline.Usage(fmt.Errorf("--time-limit %v; give a positive duration", p.limit))
			}
			return p.run(command.Context(), env.Stdout, arguments[0])
		},
	}
	command.Flags().StringVar(&p.topology, "topology", "", "read the topology from this `FILE`")
	command.Flags().StringVar(&p.running, "running", "", "keep the streams of this plan, a `FILE` from --output json, at their offsets")
	command.Flags().StringVar(&p.svg, "svg", "", "draw the windows of the ports over time into this `FILE`")
	command.Flags().StringVar(&p.gates, "gates", "", "write the gate-parameter-table of each port into this `FOLDER`, for ktsn schedule set")
	command.Flags().StringVar(&p.bridges, "bridges", "", "write the data of ieee802-dot1q-sched-bridge for each bridge into this `FOLDER`")
	command.Flags().StringVar(&p.request, "request", "", "write the streams as data of ieee802-dot1q-cnc-config, for a foreign CNC, into this `FILE`")
	command.Flags().StringVar(&p.tsnkit, "tsnkit", "", "write the tables of tsnkit, `PREFIX`-GCL.csv and others")
	command.Flags().DurationVar(&p.limit, "time-limit", 10*time.Second, "longest time of the search")
	commandline.OutputFlag(command, &p.format, "text, json or yaml", "text", "json", "yaml")
	addASCII(command, &p.ascii)
	return command
}

func (p *schedulePlan) run(ctx context.Context, out io.Writer, path string) error {
	input, err := p.read(path)
	if err != nil {
		return err
	}
	running, err := p.readRunning()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	plan, err := streams.Solve(limited, input, running)
	if err != nil {
		return streams.Locate(err, path, p.topology)
	}
	if err := p.write(plan, input); err != nil {
		return streams.Locate(err, path, p.topology)
	}
	switch p.format {
	case "json":
		return printJSON(out, plan)
	case "yaml":
		return schedule.WriteYAML(out, plan)
	}
	return printPlan(printable{out}, plan, input, drawingStyle(out, p.ascii).ASCII)
}

func (p *schedulePlan) read(path string) (*streams.Input, error) {
	if strings.HasSuffix(path, ".csv") {
		return streams.ReadTsnkit(path, p.topology)
	}
	return streams.Read(path, p.topology)
}

func (p *schedulePlan) readRunning() (*streams.Plan, error) {
	if p.running == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	data, err := os.ReadFile(p.running)
	if err != nil {
		return nil, fmt.Errorf("read the running plan: %w", err)
	}
	var plan streams.Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return nil, fmt.Errorf("%s: is no plan of `ktsn schedule plan --output json`: %w", p.running, err)
	}
	return &plan, nil
}

// write writes the files that options ask for.
func (p *schedulePlan) write(plan *streams.Plan, input *streams.Input) error {
	if p.svg != "" {
		var drawing strings.Builder
		if err := plan.WriteSVG(&drawing, input); err != nil {
			return err
		}
		if err := os.WriteFile(p.svg, []byte(drawing.String()), 0o644); err != nil {
			return fmt.Errorf("write the drawing: %w", err)
		}
	}
	if p.tsnkit != "" {
		if err := plan.WriteTsnkit(p.tsnkit, input); err != nil {
			return err
		}
	}
	if p.request != "" {
		request, err := input.RequestData()
		if err != nil {
			return err
		}
		if err := writeJSON(p.request, request); err != nil {
			return err
		}
	}
	for _, folder := range []string{p.gates, p.bridges} {
		if folder == "" {
			continue
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("create a folder for gate control lists: %w", err)
		}
	}
	if p.bridges != "" {
		for bridge, data := range plan.BridgeData(input) {
			if err := writeJSON(filepath.Join(p.bridges, bridge+".json"), data); err != nil {
				return err
			}
		}
	}
	if p.gates == "" {
		return nil
	}
	used := map[string]bool{}
	for i := range plan.Ports {
		text := &strings.Builder{}
		fmt.Fprintf(text, "# %s\n", plan.Ports[i].Port)
		if err := schedule.WriteYAML(text, map[string]control.GateParameterTable{"gate-parameter-table": plan.Ports[i].Table}); err != nil {
			return err
		}
		base := strings.ReplaceAll(plan.Ports[i].Port, "/", "-")
		name := base
		for k := 2; used[name]; k++ { // cell/a-b and cell-a/b
			name = fmt.Sprintf("%s-%d", base, k)
		}
		used[name] = true
		if err := os.WriteFile(filepath.Join(p.gates, name+".yaml"), []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("write a gate control list: %w", err)
		}
	}
	return nil
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write data of a YANG module: %w", err)
	}
	return nil
}

func printPlan(out io.Writer, plan *streams.Plan, input *streams.Input, ascii bool) error {
	fmt.Fprintf(out, "base-time %s\n\n", schedule.FormatTime(plan.BaseTime))
	rows := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "stream\tclass\tinterval\toffset\tworst-case latency\tmax-latency\ttolerance\tpath")
	for i := range plan.Streams {
		a := &plan.Streams[i]
		for k, frame := range a.Frames {
			name := a.Name
			if k > 0 {
				name += fmt.Sprintf(" (frame %d)", k+1)
			}
			var path []string
			for _, hop := range frame.Hops {
				path = append(path, hop.Port)
			}
			fmt.Fprintf(rows, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", name, a.TrafficClass, schedule.FormatNs(a.Interval.Nanoseconds(), ascii),
				schedule.FormatNs(frame.TransmitOffsetNs, ascii), schedule.FormatNs(a.WorstCaseLatencyNs, ascii),
				schedule.FormatNs(input.Streams[i].MaxLatencyNs, ascii), schedule.FormatNs(a.ToleranceNs, ascii), strings.Join(path, " "))
		}
	}
	fmt.Fprintln(rows, "\nport\tcycle\tentries\tstreams' share\t\t\t\t")
	for i := range plan.Ports {
		table := &plan.Ports[i].Table
		scheduledNs := int64(0)
		for _, entry := range table.AdminControlList.Entries {
			if entry.GateStatesValue&table.AdminGateStates == 0 {
				scheduledNs += int64(entry.TimeIntervalValue)
			}
		}
		cycleNs := table.AdminCycleTime.Nanoseconds()
		fmt.Fprintf(rows, "%s\t%s\t%d\t%d %%\t\t\t\t\n", plan.Ports[i].Port, schedule.FormatNs(cycleNs, ascii),
			len(table.AdminControlList.Entries), 100*scheduledNs/cycleNs)
	}
	return rows.Flush()
}
