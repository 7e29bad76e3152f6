// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// namespaces is the folder of `ip netns`.
const namespaces = "/run/netns"

const (
	bridge      = "br0"
	machinePort = "machine"
)

// Path returns the file of a network namespace.
func Path(namespace string) string { return filepath.Join(namespaces, namespace) }

// CheckFree fails if this machine uses the subnet otherwise.
func CheckFree(p *plan.Plan) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("look for interfaces: %w", err)
	}
	for _, link := range interfaces {
		addresses, err := link.Addrs()
		if err != nil || link.Name == p.MachineLink() {
			continue // gone meanwhile, or our own
		}
		for _, address := range addresses {
			prefix, err := netip.ParsePrefix(address.String())
			if err == nil && prefix.Overlaps(p.Subnet) {
				return fmt.Errorf("the nodes' subnet %s overlaps with %s of %s on this machine; choose another with --subnet",
					p.Subnet, prefix, link.Name)
			}
		}
	}
	return nil
}

// addBridge creates a bridge in a network namespace of its own.
func addBridge(ctx context.Context, namespace string) error {
	if err := addNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := batch(ctx, namespace, "link add "+bridge+" type bridge", "link set "+bridge+" up"); err != nil {
		return err
	}
	// Keep netfilter away from bridged frames, whatever the kernel's default is.
	const filter = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if _, err := os.Stat(filter); err != nil {
		return nil // it has no filter of bridges
	}
	return inNamespace(ctx, namespace, "sh", "-c", "echo 0 >"+filter)
}

// CreateSwitch creates the bridge between the nodes, and this machine's link to it.
func CreateSwitch(ctx context.Context, p *plan.Plan) error {
	if err := addBridge(ctx, p.Switch()); err != nil {
		return err
	}
	err := batch(ctx, "", fmt.Sprintf("link add %s type veth peer name %s netns %s", p.MachineLink(), machinePort, p.Switch()))
	if err != nil {
		return err
	}
	err = batch(ctx, p.Switch(),
		fmt.Sprintf("link set %s master %s up", machinePort, bridge))
	if err != nil {
		return err
	}
	return batch(ctx, "",
		fmt.Sprintf("addr add %s dev %s", netip.PrefixFrom(p.Machine(), p.Subnet.Bits()), p.MachineLink()),
		fmt.Sprintf("link set %s up", p.MachineLink()))
}

// CreateNode creates a node's network namespace and connects it. Service addresses are routed to the uplink so that the
// node's own programs reach them; the only other way out is the router of a federation.
func CreateNode(ctx context.Context, p *plan.Plan, node plan.Node) error {
	namespace := p.Namespace(node.Name)
	if err := addNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := inNamespace(ctx, namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"); err != nil {
		return err
	}
	err := batch(ctx, p.Switch(),
		fmt.Sprintf("link add %s mtu %d type veth peer name %s mtu %d netns %s", node.Name, plan.UplinkMTU, plan.Uplink, plan.UplinkMTU, namespace),
		fmt.Sprintf("link set %s master %s up", node.Name, bridge))
	if err != nil {
		return err
	}
	err = batch(ctx, namespace,
		"link set lo up",
		fmt.Sprintf("addr add %s dev %s", netip.PrefixFrom(node.Address, p.Subnet.Bits()), plan.Uplink),
		fmt.Sprintf("link set %s up", plan.Uplink),
		fmt.Sprintf("route add %s dev %s src %s", plan.ServiceCIDR, plan.Uplink, node.Address))
	if err != nil {
		return err
	}
	return routeNode(ctx, p, node)
}

// SetConnected cuts a node off, as if its cable were pulled at the switch, or reconnects it.
func SetConnected(ctx context.Context, p *plan.Plan, node plan.Node, connected bool) error {
	state := "down"
	if connected {
		state = "up"
	}
	return batch(ctx, p.Switch(), fmt.Sprintf("link set %s %s", node.Name, state))
}

// DeleteNode removes a node's network namespace. It removes the node's switch port first: the port would go with the
// namespace, but only later, when the node may be on again.
func DeleteNode(ctx context.Context, p *plan.Plan, node string) error {
	var err error
	if portExists(ctx, p, node) {
		if errDelete := batch(ctx, p.Switch(), "link del "+node); portExists(ctx, p, node) {
			err = errDelete
		}
	}
	return errors.Join(err, deleteNamespace(ctx, p.Namespace(node)))
}

func portExists(ctx context.Context, p *plan.Plan, node string) bool {
	return batch(ctx, p.Switch(), "link show "+node) == nil
}

// Delete removes all network namespaces of the cluster, and this machine's link to it.
func Delete(ctx context.Context, p *plan.Plan) error {
	paths, err := filepath.Glob(filepath.Join(namespaces, p.Prefix()+"-*"))
	if err != nil {
		return err
	}
	// Remove the link first: it would go with the switch, but only later.
	if linkExists(p) {
		if errDelete := batch(ctx, "", "link del "+p.MachineLink()); linkExists(p) {
			err = errDelete
		}
	}
	for _, path := range paths {
		err = errors.Join(err, deleteNamespace(ctx, filepath.Base(path)))
	}
	return err
}

func linkExists(p *plan.Plan) bool {
	_, err := net.InterfaceByName(p.MachineLink())
	return err == nil
}

// Left lists what still exists.
func Left(p *plan.Plan) []string {
	left, _ := filepath.Glob(filepath.Join(namespaces, p.Prefix()+"-*")) // the pattern is valid
	if linkExists(p) {
		left = append(left, "interface "+p.MachineLink())
	}
	return left
}

func addNamespace(ctx context.Context, name string) error {
	return run(exec.CommandContext(ctx, "ip", "netns", "add", name))
}

// deleteNamespace also removes the plain file that a killed `ip netns add` leaves.
func deleteNamespace(ctx context.Context, name string) error {
	if _, err := os.Stat(Path(name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err := run(exec.CommandContext(ctx, "ip", "netns", "del", name))
	if _, errStat := os.Stat(Path(name)); errors.Is(errStat, os.ErrNotExist) {
		return nil
	}
	if errRemove := os.Remove(Path(name)); errRemove != nil {
		return errors.Join(err, errRemove)
	}
	return nil
}

func inNamespace(ctx context.Context, namespace string, command ...string) error {
	return run(exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", namespace}, command...)...))
}

// batch runs ip commands, in a network namespace unless it is "".
func batch(ctx context.Context, namespace string, commands ...string) error {
	arguments := []string{"-batch", "-"}
	if namespace != "" {
		arguments = append([]string{"-n", namespace}, arguments...)
	}
	command := exec.CommandContext(ctx, "ip", arguments...)
	command.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	return run(command)
}

func run(command *exec.Cmd) error {
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, strings.TrimSpace(output.String()))
	}
	return nil
}
