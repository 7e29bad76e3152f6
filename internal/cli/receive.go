// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func newNodeReceive(env *commandline.Environment) *cobra.Command {
	return commandline.Group("receive", "Manage the program that puts datagrams at the uplink into receive rings",
		newReceiveAttach(env), newReceiveDetach(env), newReceiveList(env))
}

func newReceiveAttach(env *commandline.Environment) *cobra.Command {
	var stateDir string
	command := &cobra.Command{
		Use:   "attach UPLINK",
		Short: "Put datagrams that arrive at an interface into receive rings",
		Long: "Loads the program that puts datagrams of tunnels at UPLINK into receive rings of pods that request them (field\n" +
			"receive of tsn-cni's configuration), after all filters of others or, where others have tcx programs, as the first of\n" +
			"these, and registers peers and pods with it. Everything else takes the kernel's path as before. tsn-cni does the\n" +
			"same when it attaches the first such pod. An existing program is replaced in one step, and rings stay, unless they are\n" +
			"of a release with another layout.",
		Args: commandline.OneArgument("UPLINK"),
		RunE: func(command *cobra.Command, arguments []string) error {
			return attachReceive(command.Context(), env.Stdout, stateDir, arguments[0])
		},
	}
	command.Flags().StringVar(&stateDir, "state-dir", overlay.DefaultStateDir, "tsn-cni's state directory")
	return command
}

func attachReceive(ctx context.Context, out io.Writer, stateDir, uplink string) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	node, err := attachment.OpenNode(stateDir, nodePatience)
	if err != nil {
		return err
	}
	defer node.Close()
	mounted, err := receive.Mount()
	if mounted {
		fmt.Fprintln(out, "mounted a BPF filesystem at /sys/fs/bpf")
	}
	if err != nil {
		return err
	}
	done, err := receive.Attach(receive.DefaultDir, uplink)
	if err != nil {
		return err
	}
	if done.Emptied {
		fmt.Fprintln(out, "replaced maps of another release; open sockets have lost their receive rings")
	}
	if err := node.TellReceive(ctx); err != nil {
		return err
	}
	count, err := attachment.RestoreReceive(ctx, stateDir, node)
	fmt.Fprintf(out, "%s the program at %s; it knows %d interfaces of pods\n", map[bool]string{true: "replaced", false: "attached"}[done.Replaced],
		uplink, count)
	return err
}

func newReceiveDetach(env *commandline.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "detach",
		Short: "Detach the program; it is no error if it is not attached",
		Long: "Detaches the program from all interfaces and removes all that is pinned in " + receive.DefaultDir + ". Datagrams\n" +
			"then take the kernel's path; datagrams in rings can still be read. A BPF filesystem\n" +
			"that attach mounted is unmounted when nothing else is in it.",
		Args: commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			uplinks, err := receive.Detach(receive.DefaultDir)
			for _, uplink := range uplinks {
				fmt.Fprintf(env.Stdout, "detached the program from %s\n", uplink.Name)
			}
			return err
		},
	}
}

// receiveState is the output of `ktsn node receive list`.
type receiveState struct {
	Uplinks   []receive.Uplink  `json:"uplinks"`
	Endpoints []receiveEndpoint `json:"endpoints"`
	Counts    *receive.Counts   `json:"counts"`
}

// receiveEndpoint is an interface of a pod that the program knows.
type receiveEndpoint struct {
	VNI       uint32         `json:"vni"`
	MAC       string         `json:"mac"`
	Addresses []netip.Addr   `json:"addresses"`
	Tunnel    netip.AddrPort `json:"tunnel"`
	Netns     int            `json:"netnsID"`
	Rings     bool           `json:"rings"`
	Redirect  bool           `json:"redirect"`
}

func newReceiveList(env *commandline.Environment) *cobra.Command {
	var format string
	command := &cobra.Command{
		Use:   "list",
		Short: "Show the uplinks with the program, the pods that it knows, and its counters",
		Args:  commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			state, err := readReceive()
			if err != nil {
				return err
			}
			return show(env.Stdout, format, state, printReceive)
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return command
}

func readReceive() (*receiveState, error) {
	state := &receiveState{Uplinks: []receive.Uplink{}, Endpoints: []receiveEndpoint{}, Counts: &receive.Counts{Left: map[string]uint64{}}}
	opened, err := receive.Open(receive.DefaultDir)
	if errors.Is(err, receive.ErrAbsent) {
		return state, nil
	}
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	endpoints, errEndpoints := opened.Endpoints()
	for i := range endpoints {
		state.Endpoints = append(state.Endpoints, describeEndpoint(&endpoints[i]))
	}
	slices.SortFunc(state.Endpoints, func(a, b receiveEndpoint) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), strings.Compare(a.MAC, b.MAC))
	})
	var errUplinks, errCounts error
	state.Uplinks, errUplinks = receive.Uplinks()
	state.Counts, errCounts = opened.Counts()
	return state, errors.Join(errEndpoints, errUplinks, errCounts)
}

func describeEndpoint(endpoint *receive.Endpoint) receiveEndpoint {
	described := receiveEndpoint{VNI: endpoint.VNI, MAC: endpoint.MAC.String(), Addresses: []netip.Addr{}, Tunnel: endpoint.Tunnel, Netns: endpoint.Netns.ID,
		Rings: endpoint.Rings, Redirect: endpoint.Redirect}
	for _, address := range []netip.Addr{endpoint.IPv4, endpoint.IPv6} {
		if address.IsValid() {
			described.Addresses = append(described.Addresses, address)
		}
	}
	return described
}

func printReceive(out io.Writer, state *receiveState) error {
	if len(state.Uplinks) == 0 {
		fmt.Fprintln(out, "no interface has the program; all datagrams take the kernel's path")
		return nil
	}
	for _, uplink := range state.Uplinks {
		fmt.Fprintf(out, "%s has the program%s%s%s\n", uplink.Name, unlessText(uplink.Current, " of another release"),
			unlessText(!uplink.TCX, " as a tcx program"),
			unlessText(uplink.Others == 0, fmt.Sprintf(" behind %d filters of others", uplink.Others)))
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VNI\tHARDWARE ADDRESS\tADDRESSES\tTUNNEL\tPATH")
	for _, endpoint := range state.Endpoints {
		var addresses []string
		for _, address := range endpoint.Addresses {
			addresses = append(addresses, address.String())
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", endpoint.VNI, endpoint.MAC, strings.Join(addresses, ", "), endpoint.Tunnel, pathText(&endpoint))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d datagrams put into rings, %d dropped because a ring had no space\n", state.Counts.Received, state.Counts.Full)
	fmt.Fprintf(out, "%d handed to interfaces of pods, past tunnel and bridge\n", state.Counts.Redirected)
	for _, reason := range slices.Sorted(maps.Keys(state.Counts.Left)) {
		fmt.Fprintf(out, "%d left to the kernel: %s (%s)\n", state.Counts.Left[reason], receive.Explain(reason), reason)
	}
	return nil
}

// pathText lists the ways in which datagrams reach the pod.
func pathText(endpoint *receiveEndpoint) string {
	var paths []string
	if endpoint.Rings {
		paths = append(paths, "rings")
	}
	if endpoint.Redirect {
		paths = append(paths, "redirect")
	}
	return strings.Join(paths, ", ")
}

func unlessText(unless bool, text string) string {
	if unless {
		return ""
	}
	return text
}
