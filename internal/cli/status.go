// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/control"
)

// statusTimeout bounds all requests of `ktsn status` together.
const statusTimeout = 5 * time.Second

// state is everything `ktsn status` shows.
type state struct {
	Status    *control.Status            `json:"status"`
	Endpoints []control.AttachedEndpoint `json:"endpoints"`
	Peers     []control.Peer             `json:"peers"`
}

func newStatus(env *environment) *cobra.Command {
	var path, format string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show what a running ktsnd does",
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			show, known := map[string]func(io.Writer, *state) error{"text": printText, "json": printJSON}[format]
			if !known {
				return usageError{fmt.Errorf("--output %q is no format; accepted are text and json", format)}
			}
			ctx, cancel := context.WithTimeout(command.Context(), statusTimeout)
			defer cancel()
			current, err := readState(ctx, path)
			if err != nil {
				return err
			}
			return show(env.stdout, current)
		},
	}
	command.Flags().StringVar(&path, "control", control.DefaultPath, "ktsnd's control socket")
	command.Flags().StringVarP(&format, "output", "o", "text", "text or json")
	return command
}

func readState(ctx context.Context, path string) (*state, error) {
	client, err := control.Dial(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%w; is ktsnd running, and is this its control socket?", err)
	}
	defer client.Close()
	var current state
	if current.Status, err = client.Status(ctx); err != nil {
		return nil, err
	}
	if current.Endpoints, err = client.Endpoints(ctx); err != nil {
		return nil, err
	}
	if current.Peers, err = client.Peers(ctx); err != nil {
		return nil, err
	}
	return &current, nil
}

func printJSON(out io.Writer, current *state) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(current)
}

func printText(out io.Writer, current *state) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printDaemon(table, current.Status)
	for _, endpoint := range current.Endpoints {
		fmt.Fprintf(table, "endpoint\t%s %s, VNI %d, %s, MTU %d, %s\n", endpoint.Identity, endpoint.Interface,
			endpoint.VNI, endpoint.MAC, endpoint.MTU, endpoint.Netns)
	}
	for _, peer := range current.Peers {
		fmt.Fprintf(table, "peer\t%s, VNI %d, %v\n", peer.Address, peer.VNI, peer.Subnets)
	}
	printCounters(table, current.Status.Counters)
	return table.Flush()
}

func printDaemon(out io.Writer, status *control.Status) {
	cpu := "any CPU"
	if status.CPU >= 0 {
		cpu = fmt.Sprintf("CPU %d", status.CPU)
	}
	awake := ""
	if status.KeepAwake {
		awake = ", keeping it awake"
	}
	fmt.Fprintf(out, "ktsnd\t%s, process %d, strategy %s\n", status.KtsndVersion, status.PID, status.Strategy)
	fmt.Fprintf(out, "uplink\t%s on %s, local address %s\n", status.Uplink, status.Interface, status.LocalAddress)
	fmt.Fprintf(out, "scheduler\t%s priority %d on %s%s, awake at most %v before a departure\n", status.Scheduler,
		status.SchedulerPriority, cpu, awake, time.Duration(status.SpinNs))
	fmt.Fprintf(out, "serving\t%d sockets, %d endpoints, %d peers, %d processes, %d flows, %d messages pending\n",
		status.Sockets, status.Endpoints, status.Peers, status.Processes, status.Flows, status.Pending)
}

// printCounters gives each reason its own line; those of messages that did not leave on time say what they
// mean.
func printCounters(out io.Writer, counters control.Counters) {
	for _, line := range []struct {
		name, meaning string
		count         uint64
	}{
		{"taken", "messages taken from applications", counters.Taken},
		{"sent", "left", counters.Sent},
		{"on-time", "left at their time", counters.OnTime},
		{"late-taken", "left late: handed over too late", counters.LateTaken},
		{"late-wakeup", "left late: ktsnd slept too long or was busy", counters.LateWakeup},
		{"late-port", "left late: the port had no room", counters.LatePort},
		{"late-unresolved", "left late: waited for a hardware address", counters.LateUnresolved},
		{"drop-invalid", "not sent: made no sense", counters.DropInvalid},
		{"drop-unresolved", "not sent: the destination did not answer", counters.DropUnresolved},
		{"drop-port", "not sent: the device refused, or had no room for long", counters.DropPort},
		{"drop-closed", "not sent: its endpoint or peer was removed", counters.DropClosed},
		{"uncertain", "left or not: leaving when another ktsnd ended", counters.Uncertain},
		{"kernel-path", "went to the kernel, as the application says", counters.KernelPath},
		{"port-retries", "times the port was asked again", counters.PortRetries},
		{"frame-pool-empty", "times no frame was free", counters.FramePoolEmpty},
		{"wakeups", "times ktsnd woke up", counters.Wakeups},
		{"doorbells", "times an application rang", counters.Doorbells},
	} {
		fmt.Fprintf(out, "%s\t%d\t%s\n", line.name, line.count, line.meaning)
	}
}
