// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// defaultLinkSpeedBps is the default of `ktsn schedule check`.
const defaultLinkSpeedBps = 1_000_000_000

// networkSchedule is the JSON output of `ktsn schedule get --network`.
type networkSchedule struct {
	Schedule *v1alpha1.GateParameterTable `json:"schedule"`
	Request  *v1alpha1.ScheduleRequest    `json:"request"`
	Nodes    []nodeState                  `json:"nodes"`
}

// slowest returns the speed of a network's slowest link, from its spec or from the reports of its nodes.
func slowest(network *v1alpha1.TSNNetwork, nodes []nodeState) (bps int64, whose string, err error) {
	if network.Spec.LinkSpeed != "" {
		bps, err = schedule.ParseLinkSpeed(network.Spec.LinkSpeed)
		return bps, "spec.linkSpeed", err
	}
	for _, node := range nodes {
		if node.LinkSpeed == "" {
			continue
		}
		speed, err := schedule.ParseLinkSpeed(node.LinkSpeed)
		if err != nil {
			return 0, "", fmt.Errorf("link speed of node %s: %w", node.Name, err)
		}
		if bps == 0 || speed < bps {
			bps, whose = speed, "node "+node.Name
		}
	}
	if bps == 0 {
		return defaultLinkSpeedBps, "a guess, because no node has reported its own", nil
	}
	return bps, whose, nil
}

func (w *clusterFlags) getSchedule(ctx context.Context, out io.Writer, name, format string, ascii bool) error {
	network, nodes, err := w.network(ctx, name)
	switch {
	case err != nil:
		return err
	case format == "json":
		return printJSON(out, networkSchedule{network.Spec.Schedule, network.Status.Schedule, nodes})
	case format == "yaml":
		return commandline.Usage(fmt.Errorf("--output yaml shows the schedule of one ktsnd; `kubectl get tsnnetwork %s -o yaml` shows that of the network", name))
	}
	return printNetworkSchedule(out, network, nodes, ascii)
}

func printNetworkSchedule(out io.Writer, network *v1alpha1.TSNNetwork, nodes []nodeState, ascii bool) error {
	gates, err := tsnnetwork.GatesOf(network)
	if err != nil {
		return fmt.Errorf("network %s: %w", network.Name, err)
	}
	bps, _, err := slowest(network, nodes)
	if err != nil {
		return err
	}
	request := network.Status.Schedule
	switch {
	case request != nil && request.Hash == gates.Hash():
		gates = gates.WithBaseTime(request.BaseTime)
	case tsnnetwork.HasGates(network):
		fmt.Fprintln(out, "The operator has not accepted what follows:")
	}
	link := schedule.Link{SpeedBps: bps, GuardBandNs: defaultGuardBand.Nanoseconds()}
	printTable(out, &gates.Table, link, drawingStyle(out, ascii))
	if request == nil {
		fmt.Fprintf(out, "no node is asked to execute a schedule of network %s\n", network.Name)
		return nil
	}
	fmt.Fprintf(out, "all nodes begin at %s TAI\n\n", schedule.FormatTime(control.PTPTime{
		Seconds: uint64(request.BaseTime.Seconds), Nanoseconds: uint32(request.BaseTime.Nanoseconds)}))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "node\tspeed\tin force")
	for _, node := range nodes[:min(len(nodes), maxRows)] {
		fmt.Fprintf(table, "%s\t%s\t%s\n", node.Name, orDash(node.LinkSpeed), inShort(node.Conditions, v1alpha1.ConditionScheduleOperational))
	}
	printMore(table, "", len(nodes))
	return table.Flush()
}

// checkSchedule checks a file, or else the network's own schedule, for the slowest link of a network.
func (w *clusterFlags) checkSchedule(ctx context.Context, out io.Writer, name, path string, ascii bool) error {
	network, nodes, err := w.network(ctx, name)
	if err != nil {
		return err
	}
	bps, whose, err := slowest(network, nodes)
	if err != nil {
		return err
	}
	var table *control.GateParameterTable
	what := path
	if path != "" {
		document, err := schedule.Read(path)
		if err == nil {
			err = document.Check(bps)
		}
		if err != nil {
			return err
		}
		table = document.Table
	} else {
		what = "network " + name
		network.Spec.LinkSpeed = schedule.LinkSpeed(bps)
		gates, err := tsnnetwork.GatesOf(network)
		if err != nil {
			return fmt.Errorf("network %s: %w", name, err)
		}
		table = &gates.Table
	}
	link := schedule.Link{SpeedBps: bps, GuardBandNs: defaultGuardBand.Nanoseconds()}
	printTable(out, table, link, drawingStyle(out, ascii))
	fmt.Fprintf(out, "%s: a link of %s can execute it (%s)\n", what, schedule.FormatLinkSpeed(bps), whose)
	return nil
}
