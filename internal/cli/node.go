// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// nodeTimeout bounds what a command of `ktsn node` asks of ktsnd; waiting for others comes on top.
const nodeTimeout = 30 * time.Second

// nodePatience is how long to wait for network plugins at work.
const nodePatience = 10 * time.Second

// nodeOptions are the options of all commands of `ktsn node`.
type nodeOptions struct {
	control, stateDir string
}

func (o *nodeOptions) add(command *cobra.Command) *cobra.Command {
	flags := command.Flags()
	flags.StringVar(&o.control, "control", control.DefaultPath, `ktsnd's control socket, "" on a node without ktsnd`)
	flags.StringVar(&o.stateDir, "state-dir", overlay.DefaultStateDir, "tsn-cni's state directory")
	return command
}

// open opens the node and, unless there is none, the connection to its ktsnd.
func (o *nodeOptions) open(ctx context.Context) (*overlay.Node, *control.Client, error) {
	node, err := attachment.OpenNode(o.stateDir, nodePatience)
	if err != nil || o.control == "" {
		return node, nil, err
	}
	client, err := control.Dial(ctx, o.control)
	if err != nil {
		node.Close()
		return nil, nil, fmt.Errorf("%w; is ktsnd running, and is this its control socket?", err)
	}
	return node, client, nil
}

// do calls work with both.
func (o *nodeOptions) do(ctx context.Context, work func(context.Context, *overlay.Node, *control.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	node, client, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer node.Close()
	if client != nil {
		defer client.Close()
	}
	return work(ctx, node, client)
}

// timed returns the client as package overlay needs it: a nil interface if there is none.
func timed(client *control.Client) overlay.Timed {
	if client == nil {
		return nil
	}
	return client
}

func newNode(env *commandline.Environment) *cobra.Command {
	peers := commandline.Group("peers", "Manage the other nodes of a network", newPeersAdd(), newPeersDel(), newPeersList(env))
	return commandline.Group("node", "Manage this node: peers, checks, filter, capture, receive rings, relays, settings, clock", peers, newNodeCheck(env), newFilter(env), newRestore(env),
		newCapture(env), newNodeReceive(env), newNodeRelay(env), newSettings(env), newNodeClock(env))
}

func newPeersAdd() *cobra.Command {
	options := &nodeOptions{}
	var vni uint32
	var port uint16
	command := &cobra.Command{
		Use:   "add --vni N [--port N] ADDRESS SUBNET...",
		Short: "Add another node to a network",
		Long: "Adds the node ADDRESS, which serves the pods in SUBNET..., to network N: the kernel's tunnel floods to it, ktsnd\n" +
			"sends timed messages for the subnets to it, and both are recorded for a tunnel that is created later. Either all\n" +
			"of it is done or nothing. Repeating it replaces subnets and port.",
		Args: addressAndSubnets,
		RunE: func(command *cobra.Command, arguments []string) error {
			peer, err := parsePeer(vni, arguments)
			if err != nil {
				return commandline.Usage(err)
			}
			peer.Port = port
			return options.do(command.Context(), func(ctx context.Context, node *overlay.Node, client *control.Client) error {
				return node.PeerAdd(ctx, *peer, timed(client))
			})
		},
	}
	command.Flags().Uint32Var(&vni, "vni", 0, "VXLAN network identifier")
	command.Flags().Uint16Var(&port, "port", 0, "UDP port of the network's tunnel, the same for all of its nodes (default: that of ktsnd)")
	return options.add(command)
}

func newPeersDel() *cobra.Command {
	options := &nodeOptions{}
	var vni uint32
	command := &cobra.Command{
		Use:   "del --vni N ADDRESS",
		Short: "Remove a node from a network; it is no error if it is not there",
		Args:  commandline.OneArgument("ADDRESS"),
		RunE: func(command *cobra.Command, arguments []string) error {
			address, err := netip.ParseAddr(arguments[0])
			if err != nil || !address.Is4() || vni == 0 || vni > overlay.MaxVNI {
				return commandline.Usage(fmt.Errorf("--vni %d ADDRESS %q: give a network from 1 to %d and an IPv4 address", vni, arguments[0], overlay.MaxVNI))
			}
			return options.do(command.Context(), func(ctx context.Context, node *overlay.Node, client *control.Client) error {
				return node.PeerDel(ctx, vni, address, timed(client))
			})
		},
	}
	command.Flags().Uint32Var(&vni, "vni", 0, "VXLAN network identifier")
	return options.add(command)
}

// addressAndSubnets requires a node's address, followed by at least one subnet.
func addressAndSubnets(command *cobra.Command, arguments []string) error {
	if len(arguments) == 1 {
		return commandline.Usage(fmt.Errorf("no SUBNET after ADDRESS %q; give those of the node's pods, such as 10.70.2.0/24", arguments[0]))
	}
	return commandline.SeveralArguments("ADDRESS")(command, arguments)
}

func parsePeer(vni uint32, arguments []string) (*control.Peer, error) {
	address, err := netip.ParseAddr(arguments[0])
	if err != nil {
		return nil, fmt.Errorf("ADDRESS %q is no IP address; give that of the other node", arguments[0])
	}
	peer := &control.Peer{VNI: vni, Address: address}
	for _, text := range arguments[1:] {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("SUBNET %q is none; give one such as 10.70.2.0/24", text)
		}
		peer.Subnets = append(peer.Subnets, subnet)
	}
	return peer, overlay.CheckPeer(*peer)
}

func newPeersList(env *commandline.Environment) *cobra.Command {
	options := &nodeOptions{}
	var format string
	command := &cobra.Command{
		Use:   "list",
		Short: "Show the other nodes, and whether kernel and ktsnd know them",
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.do(command.Context(), func(ctx context.Context, node *overlay.Node, client *control.Client) error {
				peers, err := knownPeers(ctx, node, client)
				if err != nil {
					return err
				}
				return show(env.Stdout, format, append([]knownPeer{}, peers...), printPeers) // JSON has a list, also when it is empty
			})
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return options.add(command)
}

func newRestore(env *commandline.Environment) *cobra.Command {
	options := &nodeOptions{}
	command := &cobra.Command{
		Use:   "restore",
		Short: "Register this node's pods and peers with a restarted ktsnd",
		Long: "Registers with a restarted ktsnd the peers, the interfaces that tsn-cni has attached, and the pods' sockets that\n" +
			"tsn-cni requested. Lost records of attachments are rebuilt from the state of the kernel. Attachments whose network\n" +
			"namespaces are gone are skipped. Bridges, tunnels and ports that other programs changed are repaired first. Interfaces\n" +
			"that lost the filter against datagrams that bypass libktsn.so get it back. Repeating it changes nothing.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.do(command.Context(), func(ctx context.Context, node *overlay.Node, client *control.Client) error {
				if client == nil {
					return commandline.Usage(errors.New("restore needs a ktsnd; set --control to its control socket"))
				}
				repaired, faults, errRepair := attachment.Repair(ctx, options.stateDir, node, client, nil)
				for _, what := range repaired {
					fmt.Fprintln(env.Stdout, what)
				}
				done, err := attachment.Restore(ctx, options.stateDir, node, client, options.control)
				err = errors.Join(errRepair, attachment.Joined(faults), err, attachment.Joined(done.Faults))
				fmt.Fprintf(env.Stdout, "registered %d peers, %d interfaces and %d sockets with ktsnd; rebuilt %d records\n", done.Peers,
					done.Endpoints, done.Sockets, done.Rebuilt)
				guarded, errGuard := attachment.Guard(options.stateDir)
				printRestored(env.Stdout, guarded)
				err = errors.Join(err, errGuard)
				if done.Gone > 0 {
					fmt.Fprintf(env.Stdout, "skipped %d interfaces of containers that have ended; the container runtime or ktsn-agent deletes them\n", done.Gone)
				}
				return err
			})
		},
	}
	return options.add(command)
}

// printRestored lists the interfaces whose filter was missing.
func printRestored(out io.Writer, guarded []attachment.Guarded) {
	for _, entry := range guarded {
		if entry.Back {
			fmt.Fprintf(out, "put back the filter of interface %s of container %s\n", entry.Interface, entry.ContainerID)
		}
	}
}

func printPeers(out io.Writer, peers []knownPeer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VNI\tADDRESS\tSUBNETS\tREMEMBERED\tKERNEL\tKTSND\tGROUPS\tMTU\tLOST\tHEALTH")
	for i := range peers {
		peer := &peers[i]
		fmt.Fprintf(table, "%d\t%s\t%v\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", peer.VNI, peer.Address, peer.Subnets, yesNo(peer.Remembered),
			peer.Kernel, peer.Ktsnd, groupsSummary(peer.Groups), mtuSummary(&peer.Peer), lossSummary(peer.Health), healthSummary(peer.Health))
	}
	return table.Flush()
}
