// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/cli/top"
	"github.com/kubernetsn/kubernetsn/internal/node/machine"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// state is the output of `ktsn status`.
type state struct {
	Status    *control.Status            `json:"status"`
	Instance  *control.Instance          `json:"instance"`
	Endpoints []control.AttachedEndpoint `json:"endpoints"`
	Devices   []machine.Machine          `json:"devices"`
	Pods      []control.Pod              `json:"pods"`
	Limits    []control.NetworkLimits    `json:"network-limits"`
	Clocks    []control.NetworkClock     `json:"network-clocks"`
	encryptionState
	Flows    []control.Flow       `json:"flows"`
	Peers    []control.Peer       `json:"peers"`
	Groups   []control.NodeGroups `json:"groups"`
	Schedule *control.Schedule    `json:"schedule"`
}

func newStatus(env *commandline.Environment) *cobra.Command {
	var path, format, node string
	var whole bool
	var w clusterFlags
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running ktsnd, or of a cluster's networks",
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			switch {
			case node != "":
				return w.onNode(command.Context(), node, env.Stdout, "status", "--output", format)
			case whole || w.kubeconfig != "" || w.context != "":
				return w.status(command.Context(), env.Stdout, format)
			}
			current, err := ask(command.Context(), path, readState)
			if err != nil {
				return err
			}
			return show(env.Stdout, format, current, func(out io.Writer, current *state) error { return printText(out, current, format == "wide") })
		},
	}
	addControl(command, &path)
	addClusterFlags(command, &w)
	command.Flags().BoolVar(&whole, "cluster", false, "show the networks and nodes of a Kubernetes cluster")
	command.Flags().StringVar(&node, "node", "", "show the ktsnd of the cluster's node `NAME`")
	commandline.OutputFlag(command, &format, "text, wide (with the pods' identities) or json", "text", "wide", "json")
	return command
}

func readState(ctx context.Context, client *control.Client) (*state, error) {
	current := &state{}
	for _, read := range []func(context.Context) error{
		into(&current.Status, client.Status), into(&current.Instance, client.Instance), into(&current.Endpoints, client.Endpoints),
		into(&current.Pods, client.Pods), into(&current.Limits, client.NetworkLimits), into(&current.Clocks, client.NetworkClocks),
		into(&current.Networks, client.NetworkEncryptions), into(&current.Associations, client.SecurityAssociations),
		into(&current.Flows, client.Flows), into(&current.Peers, client.Peers), into(&current.Groups, client.Groups),
		into(&current.Schedule, client.Schedule),
	} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	current.Devices = machine.List(current.Endpoints)
	return current, nil
}

// into returns a function that stores the answer to a request.
func into[T any](value *T, request func(context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		*value, err = request(ctx)
		return err
	}
}

func printText(out io.Writer, current *state, wide bool) error {
	names := podNames{byIdentity: namesOf(current.Pods), wide: wide}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printDaemon(table, current.Status)
	printInstance(table, current.Instance)
	printClockStatus(table, &current.Status.Clock, current.Clocks)
	fmt.Fprintf(table, "schedule\t%s\n", scheduleLine(current.Schedule))
	for _, endpoint := range current.Endpoints {
		fmt.Fprintf(table, "endpoint\t%s %s, VNI %d, %s, MTU %d, %s\n", names.name(endpoint.Identity), endpoint.Interface,
			endpoint.VNI, endpoint.MAC, endpoint.MTU, endpoint.Netns)
	}
	for _, machine := range current.Devices {
		fmt.Fprintf(table, "machine\t%s %s, by %s\n", names.name(machine.Identity), machine.Interface, machine.Connection)
		for _, fault := range machine.Faults {
			fmt.Fprintf(table, "\t  %s\n", fault.Text)
		}
	}
	for i := range current.Peers {
		peer := &current.Peers[i]
		fmt.Fprintf(table, "peer\t%s, VNI %d, %v, MTU %s, lost %s, %s\n", peer.Address, peer.VNI, peer.Subnets, mtuSummary(peer), lossSummary(peer.Health),
			healthSummary(peer.Health))
	}
	printEncryption(table, &current.encryptionState)
	for _, node := range current.Groups {
		fmt.Fprintf(table, "groups\t%s, VNI %d: %s\n", node.Address, node.VNI, groupsSummary(&node))
	}
	for _, network := range current.Limits {
		fmt.Fprintf(table, "limits\tVNI %d, of a pod: %s\n", network.VNI, limitsLine(network.Limits))
	}
	// Each part has columns of its own.
	parts := []func(){func() { printPods(table, current.Pods, names) }}
	if asked := askedForRings(current.Pods); len(asked) > 0 {
		parts = append(parts, func() { printReceiving(table, asked, names) })
	}
	parts = append(parts, func() { printFlows(table, current.Flows, names) }, func() { printClasses(table, current.Status) },
		func() { printCounters(table, current.Status.Counters) })
	for _, part := range parts {
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
		part()
	}
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
		if by := map[string]string{"latency-limit": "by a limit of latency", "thread": "by a thread"}[status.KeepAwakeBy]; by != "" {
			awake += " " + by
		}
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
	fmt.Fprintf(out, "budget\t%s\n", budgetLine(&status.RealtimeBudget))
	fmt.Fprintf(out, "serving\t%d sockets, %d endpoints, %d peers, %d processes, %d flows, %d messages pending\n",
		status.Sockets, status.Endpoints, status.Peers, status.Processes, status.Flows, status.Pending)
	fmt.Fprintf(out, "rings\t%d of %d KiB, %d KiB of removed pods\n", status.RingMemoryBytes>>10, status.RingMemoryMaxBytes>>10,
		status.RingMemoryRemovedBytes>>10)
}

// printInstance prints the name of this instance and of those that stand by; a single ktsnd has no name.
func printInstance(out io.Writer, instance *control.Instance) {
	line := instance.Name
	if len(instance.StandingBy) > 0 {
		line += "; standing by: " + strings.Join(instance.StandingBy, ", ")
	}
	if line != "" {
		fmt.Fprintf(out, "instance\t%s\n", line)
	}
}

// budgetLine describes the use of the real-time budget.
func budgetLine(budget *control.RealtimeBudget) string {
	if budget.PeriodNs == 0 {
		return "the kernel never stops the sending thread"
	}
	stops := "never stopped by the kernel"
	if budget.Stops > 0 {
		stops = fmt.Sprintf("stopped by the kernel %d times, %v in all", budget.Stops, time.Duration(budget.StoppedNs).Round(time.Millisecond))
	}
	return fmt.Sprintf("%.0f%% used, at most %.0f%%, of %v of each %v (%s); %d rests in gaps, %d elsewhere; %s; %d pauses of the machine",
		100*budget.Share(), 100*budget.MostShare(), time.Duration(budget.RuntimeNs), time.Duration(budget.PeriodNs), budget.Source,
		budget.Rests, budget.RestsForced, stops, budget.HostPauses)
}

// scheduleLine summarises the schedule; `ktsn schedule get` prints all of it.
func scheduleLine(current *control.Schedule) string {
	table := &current.Table
	line := "no control list is executed, open: " + schedule.Classes(table.OperGateStates)
	if entries := len(table.OperControlList.Entries); entries > 0 {
		line = fmt.Sprintf("cycle %s of %d entries since %s, open now: %s",
			schedule.FormatNs(table.OperCycleTime.Nanoseconds(), true), entries, schedule.FormatTime(table.OperBaseTime),
			schedule.Classes(table.OperGateStates))
	}
	if table.ConfigPending {
		line += "; another from " + schedule.FormatTime(table.ConfigChangeTime)
	}
	return line
}

// printPods prints the use and the limits of each pod.
func printPods(out io.Writer, pods []control.Pod, names podNames) {
	fmt.Fprintln(out, names.head("pod", "identity")+"\tendpoints\tprocesses\tsockets\tring memory\tpending\trate limit\tdoorbell limit\thorizon\tsocket")
	for _, pod := range pods {
		limits := pod.Limits
		path := pod.Path
		if path == "" {
			path = "none yet"
		}
		fmt.Fprintf(out, "%s\t%d\t%d of %d\t%d of %d\t%d of %d KiB\t%d of %d\t%s\t%s\t%s\t%s\n", names.cells(pod.Identity), pod.Endpoints,
			pod.Processes, limits.Processes, pod.Sockets, limits.Sockets, pod.RingMemoryBytes>>10,
			limits.RingMemoryBytes>>10, pod.Pending, limits.Pending, rateText(limits.MessageRate), rateText(limits.DoorbellRate),
			time.Duration(limits.HorizonNs), path)
	}
}

// askedForRings returns the pods that have requested receive rings.
func askedForRings(pods []control.Pod) []control.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod control.Pod) bool {
		return pod.Receive.Sockets == 0 && pod.Receive.Received == 0 && pod.Receive.Refused == 0
	})
}

func printReceiving(out io.Writer, pods []control.Pod, names podNames) {
	fmt.Fprintln(out, names.head("pod", "identity")+"\treceive rings\treceived\tdropped\tby the kernel\tsockets without\tthe last because")
	for _, pod := range pods {
		rings := &pod.Receive
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", names.cells(pod.Identity), rings.Sockets, rings.Received, rings.Dropped, rings.Kernel,
			rings.Refused, orDash(rings.Reason))
	}
}

func rateText(perSecond uint64) string {
	if perSecond == 0 {
		return "none"
	}
	return fmt.Sprintf("%d/s", perSecond)
}

// limitsLine lists the limits that are set.
func limitsLine(limits control.GivenLimits) string {
	var all []string
	for _, limit := range []struct {
		value *uint64
		name  string
	}{{limits.Processes, "processes"}, {limits.Sockets, "sockets"}, {limits.RingMemoryBytes, "bytes of rings"}, {limits.Pending, "pending"}} {
		if limit.value != nil {
			all = append(all, fmt.Sprintf("%d %s", *limit.value, limit.name))
		}
	}
	for _, limit := range []struct {
		value *uint64
		name  string
	}{{limits.MessageRate, "rate"}, {limits.DoorbellRate, "doorbells"}} {
		if limit.value != nil {
			all = append(all, limit.name+" "+rateText(*limit.value))
		}
	}
	if limits.HorizonNs != nil {
		all = append(all, fmt.Sprintf("horizon %v", time.Duration(*limits.HorizonNs)))
	}
	return strings.Join(all, ", ")
}

// printFlows prints a line for each socket.
func printFlows(out io.Writer, flows []control.Flow, names podNames) {
	fmt.Fprintln(out, "flow\t"+names.head("pod", "identity")+"\tprocess\tfrom\tto\tclock\tclass\ttaken\tsent\tlate\tdropped\tpending\tlast departure error")
	for _, flow := range flows {
		to, clock, last := flow.RemoteAddress, flow.Clock, "-"
		if to == "" {
			to = "any"
		}
		if flow.Deadline {
			clock += " deadline"
		}
		if flow.Sent > 0 {
			last = time.Duration(flow.DepartureErrorNs).String()
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", flow.Number, names.cells(flow.Identity), top.PIDText(flow.PID),
			flow.LocalAddress, to, clock, flow.TrafficClass, flow.Taken, flow.Sent, flow.Late, flow.Dropped, flow.Pending, last)
	}
}

// printClasses prints a line for each traffic class, the most important one first.
func printClasses(out io.Writer, status *control.Status) {
	fmt.Fprintln(out, "class\tPCP\tSO_PRIORITY\tpending\tsent\tlate\tdropped\ttransmission-overrun")
	for _, class := range slices.Backward(status.Classes) {
		fmt.Fprintf(out, "%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n", class.TrafficClass,
			status.PriorityCodePoints[class.TrafficClass%control.TrafficClasses],
			priorities(status.TrafficClassMap, int(class.TrafficClass)), class.Pending, class.Sent, class.Late, class.Dropped,
			class.TransmissionOverrun)
	}
}

// printCounters prints each counter with its meaning.
func printCounters(out io.Writer, counters control.Counters) {
	for _, line := range []struct {
		name, meaning string
		count         uint64
	}{
		{"taken", "messages taken from applications", counters.Taken},
		{"sent", "left", counters.Sent},
		{"sent-bridge", "of them to pods of this node", counters.SentBridge},
		{"clock-lost", "of them by a clock that was lost to their network", counters.ClockLost},
		{"on-time", "left at their time", counters.OnTime},
		{"untimed", "left: nobody asked for a time", counters.Untimed},
		{"late-taken", "left late: handed over too late", counters.LateTaken},
		{"late-wakeup", "left late: ktsnd slept too long or was busy", counters.LateWakeup},
		{"late-port", "left late: the port did not take them at once", counters.LatePort},
		{"late-unresolved", "left late: waited for a hardware address", counters.LateUnresolved},
		{"late-gate", "left late: the gate of their class was shut", counters.LateGate},
		{"late-link", "left late: frames before them occupied the link", counters.LateLink},
		{"late-clock", "left late: they waited while their network's clock was lost", counters.LateClock},
		{"drop-invalid", "not sent: invalid", counters.DropInvalid},
		{"drop-horizon", "not sent: further ahead than a pod's messages may be", counters.DropHorizon},
		{"drop-unresolved", "not sent: the destination did not answer", counters.DropUnresolved},
		{"drop-port", "not sent: the device reported an error, or the link was down", counters.DropPort},
		{"drop-receiver", "not sent: the queue of their receiver, a pod of this node, was full", counters.DropReceiver},
		{"drop-closed", "not sent: its endpoint or peer was removed", counters.DropClosed},
		{"drop-missed", "not sent, strategy etf: could not leave at their time", counters.DropMissed},
		{"drop-txtime", "not sent, strategy etf: handed over after their time, or of the wrong kind", counters.DropTxtime},
		{"drop-max-sdu", "not sent: larger than their class may be", counters.DropMaxSDU},
		{"drop-no-window", "not sent: longer than all windows of their class", counters.DropNoWindow},
		{"drop-source", "not sent: from a foreign address, or of a priority that was not granted", counters.DropSource},
		{"drop-stale", "not sent: the port did not take them, or Open vSwitch did not fetch them, within --stale-after; or without a time, and too old at a take-over", counters.DropStale},
		{"drop-clock", "not sent: their network's clock was lost for too long, or it refuses messages then", counters.DropClock},
		{"drop-no-association", "not sent: to be encrypted, and there is no key for their node", counters.DropNoAssociation},
		{"sealed", "frames encrypted", counters.Sealed},
		{"sealed-again", "of them a second time: another one overtook them", counters.SealedAgain},
		{"clear-preferred", "frames in clear to nodes without a key, where encryption is preferred", counters.ClearPreferred},
		{"uncertain", "left or not: leaving when another ktsnd ended", counters.Uncertain},
		{"reports", "not sent, and reported to the application", counters.Reports},
		{"reports-lost", "not sent, and not reported: the application reads no reports", counters.ReportsLost},
		{"kernel-path", "sent through the kernel, as reported by the application", counters.KernelPath},
		{"unanswered", "refused, as reported by the application: ktsnd did not answer", counters.Unanswered},
		{"off-network", "refused, as reported by the application: no network of the pod has a route", counters.OffNetwork},
		{"copies-sent", "frames of messages that went to several", counters.CopiesSent},
		{"copies-dropped", "their copies that did not leave", counters.CopiesDropped},
		{"copies-pruned", "copies not made: no member of the group is there", counters.CopiesPruned},
		{"copies-left-out", "copies not made: a message may have no more", counters.CopiesLeftOut},
		{"port-retries", "retries of the port", counters.PortRetries},
		{"frame-pool-empty", "times no frame was free", counters.FramePoolEmpty},
		{"share-pending", "times a pod had as many pending messages as it may have", counters.SharePending},
		{"share-rate", "times a pod reached its message rate", counters.ShareRate},
		{"share-doorbells", "times an application reached its doorbell rate", counters.ShareDoorbells},
		{"share-receiver", "times the reception of a pod reached its share", counters.ShareReceiver},
		{"delivery-failed", "frames for a pod of this node that were not delivered", counters.DeliveryFailed},
		{"limit-refusals", "requests of pods above their limits", counters.LimitRefusals},
		{"wakeups", "times ktsnd woke up", counters.Wakeups},
		{"doorbells", "doorbells of applications", counters.Doorbells},
	} {
		fmt.Fprintf(out, "%s\t%d\t%s\n", line.name, line.count, line.meaning)
	}
}
