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

const bridge = "bridge"

// Network is a bridge with a port for each guest, in a network namespace of its own.
type Network struct {
	namespace string
}

// NewNetwork makes one. Close removes it, with all ports.
func NewNetwork(ctx context.Context) (*Network, error) {
	n := &Network{namespace: fmt.Sprintf("ktsn-clock-%d", os.Getpid())}
	if err := ip(ctx, "netns", "add", n.namespace); err != nil {
		return nil, err
	}
	// Frames of IPv6 are no part of any scenario.
	err := errors.Join(
		n.run(ctx, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"),
		n.ip(ctx, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0"),
		n.ip(ctx, "link", "set", "dev", bridge, "up"))
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close removes the namespace.
func (n *Network) Close() error {
	return ip(context.Background(), "netns", "delete", n.namespace)
}

// addPort makes a port that a virtual machine opens.
func (n *Network) addPort(ctx context.Context, name string) error {
	if err := n.ip(ctx, "tuntap", "add", "dev", name, "mode", "tap"); err != nil {
		return err
	}
	return n.ip(ctx, "link", "set", "dev", name, "master", bridge, "up")
}

// Cut separates a guest from the network, which the guest does not see: its link stays up.
func (n *Network) Cut(ctx context.Context, guest string) error {
	return n.ip(ctx, "link", "set", "dev", guest, "nomaster")
}

// Join undoes Cut.
func (n *Network) Join(ctx context.Context, guest string) error {
	return n.ip(ctx, "link", "set", "dev", guest, "master", bridge)
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
