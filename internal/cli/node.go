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

// nodeOptions are those of all commands of `ktsn node`.
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

// do runs what needs both.
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

// timed is the client as package overlay wants it: a nil interface for none.
func timed(client *control.Client) overlay.Timed {
	if client == nil {
		return nil
	}
	return client
}

func newNode(env *commandline.Environment) *cobra.Command {
	peers := commandline.Group("peers", "The other nodes of a network", newPeersAdd(), newPeersDel(), newPeersList(env))
	return commandline.Group("node", "Tell this node of others, and ktsnd of this node's pods", peers, newFilter(env), newRestore(env),
		newCapture(env), newNodeReceive(env), newNodeRelay(env), newSettings(env), newNodeClock(env))
}

func newPeersAdd() *cobra.Command {
	options := &nodeOptions{}
	var vni uint32
	command := &cobra.Command{
		Use:   "add --vni N ADDRESS SUBNET...",
		Short: "Make another node part of a network",
		Long: "Makes the node ADDRESS, which serves the pods in SUBNET..., part of network N: the kernel's tunnel floods\n" +
			"to it, ktsnd sends timed messages for the subnets to it, and both are remembered for a tunnel that is\n" +
			"made later. Either all of it is done or nothing. Repeating it replaces the subnets.",
		Args: addressAndSubnets,
		RunE: func(command *cobra.Command, arguments []string) error {
			peer, err := parsePeer(vni, arguments)
			if err != nil {
				return commandline.Usage(err)
			}
			return options.do(command.Context(), func(ctx context.Context, node *overlay.Node, client *control.Client) error {
				return node.PeerAdd(ctx, *peer, timed(client))
			})
		},
	}
	command.Flags().Uint32Var(&vni, "vni", 0, "VXLAN network identifier")
	return options.add(command)
}

func newPeersDel() *cobra.Command {
	options := &nodeOptions{}
	var vni uint32
	command := &cobra.Command{
		Use:   "del --vni N ADDRESS",
		Short: "Undo add; a node that is not there is no error",
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

// addressAndSubnets wants a node's address, and at least one subnet behind it.
func addressAndSubnets(command *cobra.Command, arguments []string) error {
	if len(arguments) == 1 {
		return commandline.Usage(fmt.Errorf("no SUBNET behind ADDRESS %q; give those of the node's pods, such as 10.42.2.0/24", arguments[0]))
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
			return nil, fmt.Errorf("SUBNET %q is none; give one such as 10.42.2.0/24", text)
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
		Short: "Show the other nodes, and who knows of them",
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
		Short: "Tell a ktsnd that was started anew of this node's pods and peers",
		Long: "Tells a ktsnd that was started anew of the peers, of the interfaces that tsn-cni has attached, and of the\n" +
			"pods' sockets that tsn-cni had it make. Records of attachments that were lost are rebuilt from what the\n" +
			"kernel knows. What was attached to network namespaces that are gone is left out. Interfaces that lost the\n" +
			"filter against datagrams that libktsn.so does not see get it back. Repeating it changes nothing.",
		Args: commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.do(command.Context(), func(ctx context.Context, node *overlay.Node, client *control.Client) error {
				if client == nil {
					return commandline.Usage(errors.New("without a control socket there is no ktsnd to tell"))
				}
				done, err := attachment.Restore(ctx, options.stateDir, node, client, options.control)
				fmt.Fprintf(env.Stdout, "told ktsnd of %d peers, %d interfaces and %d sockets; rebuilt %d records\n", done.Peers,
					done.Endpoints, done.Sockets, done.Rebuilt)
				guarded, errGuard := attachment.Guard(options.stateDir)
				printBack(env.Stdout, guarded)
				err = errors.Join(err, errGuard)
				if done.Gone > 0 {
					fmt.Fprintf(env.Stdout, "left out %d interfaces, whose network namespaces are gone; the container runtime will delete them\n", done.Gone)
				}
				return err
			})
		},
	}
	return options.add(command)
}

// printBack says of which interfaces the filter was missing.
func printBack(out io.Writer, guarded []attachment.Guarded) {
	for _, entry := range guarded {
		if entry.Back {
			fmt.Fprintf(out, "put back the filter of interface %s of container %s\n", entry.Interface, entry.ContainerID)
		}
	}
}

func printPeers(out io.Writer, peers []knownPeer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VNI\tADDRESS\tSUBNETS\tREMEMBERED\tKERNEL\tKTSND\tGROUPS")
	for _, peer := range peers {
		fmt.Fprintf(table, "%d\t%s\t%v\t%s\t%s\t%s\t%s\n", peer.VNI, peer.Address, peer.Subnets, yesNo(peer.Remembered),
			peer.Kernel, peer.Ktsnd, groupsSummary(peer.Groups))
	}
	return table.Flush()
}
