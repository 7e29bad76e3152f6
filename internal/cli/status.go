// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/control"
	"github.com/kubernetsn/kubernetsn/internal/schedule"
)

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
			if err := checkFormat(format, "text", "json"); err != nil {
				return err
			}
			var current *state
			err := withClient(command.Context(), path, func(ctx context.Context, client *control.Client) (err error) {
				current, err = readState(ctx, client)
				return err
			})
			switch {
			case err != nil:
				return err
			case format == "json":
				return printJSON(env.stdout, current)
			}
			return printText(env.stdout, current)
		},
	}
	addControl(command, &path)
	command.Flags().StringVarP(&format, "output", "o", "text", "text or json")
	return command
}

func readState(ctx context.Context, client *control.Client) (*state, error) {
	var current state
	var err error
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
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(table)
	printClasses(table, current.Status)
	fmt.Fprintln(table)
	if err := table.Flush(); err != nil {
		return err
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
	tag := "untagged"
	if status.VLANID != 0 {
		tag = fmt.Sprintf("VLAN %d", status.VLANID)
	}
	fmt.Fprintf(out, "ktsnd\t%s, process %d\n", status.KtsndVersion, status.PID)
	fmt.Fprintf(out, "uplink\t%s on %s, local address %s, %s\n", status.Uplink, status.Interface, status.LocalAddress, tag)
	fmt.Fprintf(out, "shaper\tstrategy %s, link speed %s, guard band %v\n", status.Strategy,
		schedule.FormatLinkSpeed(status.LinkSpeedBps), time.Duration(status.GuardBandNs))
	fmt.Fprintf(out, "scheduler\t%s priority %d on %s%s, awake at most %v before a departure\n", status.Scheduler,
		status.SchedulerPriority, cpu, awake, time.Duration(status.SpinNs))
	fmt.Fprintf(out, "serving\t%d sockets, %d endpoints, %d peers, %d processes, %d flows, %d messages pending\n",
		status.Sockets, status.Endpoints, status.Peers, status.Processes, status.Flows, status.Pending)
}

// printClasses gives each traffic class its line, the most important one first.
func printClasses(out io.Writer, status *control.Status) {
	fmt.Fprintln(out, "class\tPCP\tSO_PRIORITY\tpending\tsent\tlate\tdropped\ttransmission-overrun")
	for _, class := range slices.Backward(status.Classes) {
		fmt.Fprintf(out, "%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n", class.TrafficClass,
			status.PriorityCodePoints[class.TrafficClass%control.TrafficClasses],
			priorities(status.TrafficClassMap, int(class.TrafficClass)), class.Pending, class.Sent, class.Late, class.Dropped,
			class.TransmissionOverrun)
	}
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
		{"late-gate", "left late: the gate of their class was shut", counters.LateGate},
		{"late-link", "left late: frames before them occupied the link", counters.LateLink},
		{"drop-invalid", "not sent: made no sense", counters.DropInvalid},
		{"drop-unresolved", "not sent: the destination did not answer", counters.DropUnresolved},
		{"drop-port", "not sent: the device refused, or had no room for long", counters.DropPort},
		{"drop-closed", "not sent: its endpoint or peer was removed", counters.DropClosed},
		{"drop-missed", "not sent, strategy etf: could not leave at their time", counters.DropMissed},
		{"drop-txtime", "not sent, strategy etf: handed over after their time, or of the wrong kind", counters.DropTxtime},
		{"drop-max-sdu", "not sent: larger than their class may be", counters.DropMaxSDU},
		{"drop-no-window", "not sent: longer than all windows of their class", counters.DropNoWindow},
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
