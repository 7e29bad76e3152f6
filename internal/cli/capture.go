// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/machine"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

func newCapture(env *commandline.Environment) *cobra.Command {
	options := &nodeOptions{}
	var format string
	command := &cobra.Command{
		Use:   "capture",
		Short: "Show which frames of pods are captured, and which were dropped",
		Long: "Shows for each interface of this node's pods which frames are captured: none, frames with a transmit time that did\n" +
			"not come through libktsn.so, or all frames. It shows how many were captured, how many were dropped and why,\n" +
			"whether a relay serves them, and which programs sent frames with a transmit time, if known.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.do(command.Context(), func(ctx context.Context, _ *overlay.Node, client *control.Client) error {
				if client == nil {
					return commandline.Usage(errors.New("the interfaces are not known without ktsnd; set --control to its control socket"))
				}
				return showCapture(ctx, env.Stdout, client, format)
			})
		},
	}
	commandline.OutputFlag(command, &format, "text, wide (with the pods' identities) or json", "text", "wide", "json")
	return options.add(command)
}

func showCapture(ctx context.Context, out io.Writer, client *control.Client, format string) error {
	endpoints, err := client.Endpoints(ctx)
	if err != nil {
		return err
	}
	all := readCapture(endpoints)
	if format == "json" {
		return printJSON(out, all)
	}
	pods, err := client.Pods(ctx)
	if err != nil {
		return err
	}
	return printCapture(out, all, podNames{byIdentity: namesOf(pods), wide: format == "wide"})
}

// readCapture reads the counters of all interfaces. The entry of an interface that fails has the error.
func readCapture(endpoints []control.AttachedEndpoint) []capture.At {
	all := []capture.At{}
	machines := machine.List(endpoints)
	known := map[string][]string{}
	for _, endpoint := range endpoints {
		known[endpoint.Netns] = append(known[endpoint.Netns], endpoint.Interface)
	}
	for _, endpoint := range endpoints {
		kind := deviceAt(machines, &endpoint)
		read := capture.ReadBoth
		if kind == device.Veth { // the pod's end is Kata's
			read = capture.ReadNodes
		}
		position, err := read(endpoint.Netns, endpoint.Interface)
		position.Identity, position.Device = endpoint.Identity, kind
		if err != nil {
			position.Failure = err.Error()
		}
		all = append(all, position)
		if interfaces := known[endpoint.Netns]; endpoint.Interface == interfaces[len(interfaces)-1] {
			all = append(all, readOthers(&endpoint, interfaces)...)
		}
	}
	return all
}

// readOthers reads the counters of the pod's interfaces that are on no network. An error is that of the endpoint's entry as well.
func readOthers(endpoint *control.AttachedEndpoint, known []string) []capture.At {
	others, _ := capture.ReadOthers(endpoint.Netns, known)
	for i := range others {
		others[i].Identity = endpoint.Identity
	}
	return others
}

// deviceAt returns the kind of a machine's device at an endpoint, or "" if there is none.
func deviceAt(machines []machine.Machine, endpoint *control.AttachedEndpoint) string {
	for i := range machines {
		if machines[i].Identity == endpoint.Identity && machines[i].Interface == endpoint.Interface {
			return machines[i].Device
		}
	}
	return ""
}

func printCapture(out io.Writer, all []capture.At, names podNames) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\tINTERFACE\tDEVICE\tCAPTURE\tRELAY\tTIMED\tOTHERS\tDROPPED\tOF PROGRAMS\n", names.head("POD", "IDENTITY"))
	for _, position := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", names.cells(position.Identity), position.Interface, position.Device, strings.Join(captureCells(&position), "\t"))
	}
	return table.Flush()
}

// captureCells returns the cells from column CAPTURE on.
func captureCells(position *capture.At) []string {
	switch {
	case position.Failure != "":
		return []string{"unknown: " + position.Failure, "", "", "", "", ""}
	case position.Device == device.VhostUser:
		return []string{"by its relay", "", "", "", "", ""}
	case position.Device == device.Veth && position.Node.Attached:
		return []string{
			position.Node.Mode.String(), relayText(&position.Node), strconv.FormatUint(position.Node.Timed, 10), othersText(&position.Node), droppedText(position.Dropped()), "",
		}
	case !position.Attached:
		return []string{"let pass", "", "", "", "", ""}
	}
	return []string{
		modeText(position), relayText(&position.Node), strconv.FormatUint(position.Captured, 10), othersText(&position.Node),
		droppedText(position.Dropped()), programsText(position.Programs),
	}
}

func modeText(position *capture.At) string {
	if position.Unguarded {
		return position.Mode.String() + ", not guarded"
	}
	return position.Mode.String()
}

func relayText(node *capture.PortCount) string {
	switch {
	case !node.Attached:
		return ""
	case !node.HasRelay():
		return "none"
	case node.Mode != capture.All:
		return "yes"
	case !node.Answers():
		return "no answer"
	}
	return "answers"
}

// othersText counts frames without a transmit time by their outcome.
func othersText(node *capture.PortCount) string {
	if node.Mode != capture.All {
		return ""
	}
	text := fmt.Sprintf("%d captured, %d passed", node.Untimed, node.Passed+node.Control)
	if node.Gated > 0 {
		text += fmt.Sprintf(", %d dropped", node.Gated)
	}
	return text
}

func droppedText(dropped map[string]uint64) string {
	if len(dropped) == 0 {
		return "0"
	}
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(dropped)) {
		texts = append(texts, fmt.Sprintf("%d %s", dropped[reason], reason))
	}
	return strings.Join(texts, ", ")
}

func programsText(programs []capture.Program) string {
	var texts []string
	for _, program := range programs {
		texts = append(texts, fmt.Sprintf("%q %d (process %d)", program.Name, program.Captured+program.Refused, program.PID))
	}
	return strings.Join(texts, ", ")
}
