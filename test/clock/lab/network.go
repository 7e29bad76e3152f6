// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Bridge is one of a network's two bridges. A forwarding guest connects them.
type Bridge string

// These are the bridges of each network.
const (
	Near Bridge = "near"
	Far  Bridge = "far"
)

// Network has two bridges with the guests' ports, in a separate network namespace.
type Network struct {
	namespace string
}

// NewNetwork creates a network. Close removes it, with all ports.
func NewNetwork(ctx context.Context) (*Network, error) {
	n := &Network{namespace: fmt.Sprintf("ktsn-clock-%d", os.Getpid())}
	if err := ip(ctx, "netns", "add", n.namespace); err != nil {
		return nil, err
	}
	// IPv6 frames are not part of any scenario.
	err := errors.Join(
		n.run(ctx, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"),
		n.addBridge(ctx, Near), n.addBridge(ctx, Far))
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close removes the namespace.
func (n *Network) Close() error {
	return ip(context.Background(), "netns", "delete", n.namespace)
}

func (n *Network) addBridge(ctx context.Context, bridge Bridge) error {
	if err := n.ip(ctx, "link", "add", string(bridge), "type", "bridge", "mcast_snooping", "0"); err != nil {
		return err
	}
	return n.ip(ctx, "link", "set", "dev", string(bridge), "up")
}

// addPort creates a port for a virtual machine.
func (n *Network) addPort(ctx context.Context, name string, bridge Bridge) error {
	if err := n.ip(ctx, "tuntap", "add", "dev", name, "mode", "tap"); err != nil {
		return err
	}
	return n.ip(ctx, "link", "set", "dev", name, "master", string(bridge), "up")
}

// Cut separates a guest from the network. The guest does not notice: its link stays up.
func (n *Network) Cut(ctx context.Context, guest *Guest) error {
	return n.ip(ctx, "link", "set", "dev", guest.port(Near), "nomaster")
}

// Move connects a guest's port to a bridge, also after Cut.
func (n *Network) Move(ctx context.Context, guest *Guest, bridge Bridge) error {
	return n.ip(ctx, "link", "set", "dev", guest.port(Near), "master", string(bridge))
}

func (n *Network) ip(ctx context.Context, arguments ...string) error {
	return ip(ctx, append([]string{"-n", n.namespace}, arguments...)...)
}

// run runs a command in the namespace.
func (n *Network) run(ctx context.Context, arguments ...string) error {
	return ip(ctx, append([]string{"netns", "exec", n.namespace}, arguments...)...)
}

func ip(ctx context.Context, arguments ...string) error {
	output, err := exec.CommandContext(ctx, "ip", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
