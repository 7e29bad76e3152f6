// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

func newOVS(env *commandline.Environment) *cobra.Command {
	return commandline.Group("ovs", "Set up Open vSwitch with DPDK as ktsnd's uplink", newOVSSetup(env), newOVSStatus(env), newOVSTeardown())
}

const ovsSetupLong = `Sets up Open vSwitch with DPDK for ktsnd --uplink ovs, in the network namespace of ovs-vswitchd: the bridges br-int and
br-phy, the network card as a port of br-phy, which gets the tunnel's address, and on br-int a port for ktsnd, a veth pair
for each network's other traffic, and a VXLAN port for each network and peer. Nodes with uplink ovs and others mix.

Existing objects are used; repeating the command with other options changes only what it created. Open vSwitch loses the
address and flows when it restarts: with --keep the command stays and restores them.`

// ovsSwitch are the options of all commands of `ktsn ovs`.
func ovsSwitch(command *cobra.Command, to *ovs.Switch) *cobra.Command {
	command.Flags().StringVar(&to.Database, "db", ovs.DefaultDatabase, "socket of Open vSwitch's database")
	command.Flags().StringVar(&to.RunDir, "run-dir", ovs.DefaultRunDir, "folder of ovs-vswitchd's sockets")
	return command
}

// ovsPlan is a plan and the options from which it is parsed.
type ovsPlan struct {
	ovs.Plan
	address, pmdCPUs string
	networks, peers  []string
	keep             bool
}

func newOVSSetup(env *commandline.Environment) *cobra.Command {
	var to ovs.Switch
	plan := &ovsPlan{}
	command := &cobra.Command{
		Use:   "setup --network N --address IPV4/BITS (--device DEVICE | --interface NAME)",
		Short: "Create bridges, ports and flows; can be repeated",
		Long:  ovsSetupLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := plan.parse(); err != nil {
				return commandline.Usage(err)
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := to.Setup(ctx, &plan.Plan); err != nil || !plan.keep {
				return err
			}
			fmt.Fprintln(env.Stdout, "Open vSwitch is set up; keeping it so")
			return to.Keep(ctx, &plan.Plan, env.Stderr)
		},
	}
	plan.add(command)
	return ovsSwitch(command, &to)
}

func (p *ovsPlan) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&p.Device, "device", "", "network card: a PCI address, or a DPDK device such as net_af_xdp0,iface=eno1")
	flags.StringVar(&p.Interface, "interface", "", "instead: an interface of the kernel, through a packet socket (slow; for tests)")
	flags.StringVar(&p.address, "address", "", "the tunnel's address on br-phy, with its prefix; the --interface gives up its own")
	flags.StringSliceVar(&p.networks, "network", nil, "number of a network, 1 to 4094; can be repeated")
	flags.StringSliceVar(&p.peers, "peer", nil, "address of another node; can be repeated")
	flags.Uint16Var(&p.Port, "vxlan-port", 4789, "UDP port of the tunnel")
	flags.StringVar(&p.VhostSocket, "vhost-socket", ovs.DefaultVhostSocket, "ktsnd's --vhost-socket")
	flags.StringVar(&p.pmdCPUs, "pmd-cpus", "", "processors that poll, such as 2,3; each is busy all the time")
	flags.DurationVar(&p.PMDMaxSleep, "pmd-max-sleep", 0, "how long polling may pause when there is nothing, such as 50us: less load, more latency")
	flags.IntVar(&p.MemoryMB, "memory", 0, "MB of hugepages (default: what the ports need)")
	flags.StringVar(&p.DPDKExtra, "dpdk-extra", "", "further arguments of DPDK in Open vSwitch")
	flags.BoolVar(&p.keep, "keep", false, "stay, and restore what a restart of Open vSwitch loses")
}

// parse parses the options that are not plain strings or numbers.
func (p *ovsPlan) parse() (err error) {
	if p.address != "" {
		if p.Address, err = netip.ParsePrefix(p.address); err != nil {
			return fmt.Errorf("--address %q: give an IPv4 address with its prefix, such as 192.0.2.1/24", p.address)
		}
	}
	if p.Networks, err = parseAll(p.networks, func(text string) (uint32, error) {
		number, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("--network %q is no number", text)
		}
		return uint32(number), nil
	}); err != nil {
		return err
	}
	if p.Peers, err = parseAll(p.peers, func(text string) (netip.Addr, error) {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return address, fmt.Errorf("--peer %q: give another node's IPv4 address", text)
		}
		return address, nil
	}); err != nil {
		return err
	}
	var cpus []string
	if p.pmdCPUs != "" {
		cpus = strings.Split(p.pmdCPUs, ",")
	}
	if p.PMDCPUs, err = parseAll(cpus, func(text string) (int, error) {
		cpu, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("--pmd-cpus %q: give processors such as 2,3", p.pmdCPUs)
		}
		return cpu, nil
	}); err != nil {
		return err
	}
	return p.Check()
}

func parseAll[T any](texts []string, parse func(string) (T, error)) ([]T, error) {
	var all []T
	for _, text := range texts {
		object, err := parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return all, nil
}

func newOVSTeardown() *cobra.Command {
	var to ovs.Switch
	command := &cobra.Command{
		Use:   "teardown",
		Short: "Remove what setup created, and nothing else",
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return to.Teardown(command.Context())
		},
	}
	return ovsSwitch(command, &to)
}

func newOVSStatus(env *commandline.Environment) *cobra.Command {
	var to ovs.Switch
	var format string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the state of Open vSwitch and its faults; the exit status is 1 if there are faults",
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), time.Minute)
			defer cancel()
			status, err := to.Status(ctx)
			if err != nil {
				return err
			}
			err = show(env.Stdout, format, status, printOVS)
			if problems := status.Problems(); err == nil && len(problems) > 0 {
				return errors.New(strings.Join(problems, "\nktsn: "))
			}
			return err
		},
	}
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	return ovsSwitch(command, &to)
}

func printOVS(out io.Writer, status *ovs.Status) error {
	fmt.Fprintf(out, "Open vSwitch %s, %s, %s\n", status.Version, status.DPDK,
		map[bool]string{true: "started", false: "not started"}[status.Initialized])
	for _, pages := range status.Hugepages {
		fmt.Fprintf(out, "hugepages of %d kB: %d, %d of them free\n", pages.SizeKB, pages.Total, pages.Free)
	}
	for _, key := range slices.Sorted(maps.Keys(status.Settings)) {
		fmt.Fprintf(out, "%s = %s\n", key, status.Settings[key])
	}
	fmt.Fprintf(out, "networks %s; %d flows; ktsnd connected: %s\n", strings.Join(status.Networks, ", "), status.Flows, yesNo(status.Connected))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BRIDGE\tPORT\tTYPE\tLINK\tRECEIVED\tSENT\tDROPPED")
	for _, port := range status.Ports {
		kind := port.Type
		if kind == "" {
			kind = "veth"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", port.Bridge, port.Name, kind, port.Link, port.Received, port.Sent, port.Dropped)
	}
	return table.Flush()
}
