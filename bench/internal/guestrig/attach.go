// SPDX-License-Identifier: Apache-2.0

package guestrig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// attached is an interface of a machine.
type attached struct {
	name string
	mac  string
	mtu  int
	// devices are QEMU's arguments.
	devices []string
}

// queues are the pairs of the interfaces with queueing disciplines: each class has its own.
var queues = map[string]int{Released: 2, Gated: 4}

func (r *Rig) attach(ctx context.Context, machine *Machine, node *Node, letter, name string) error {
	var result *attached
	var err error
	if name == Vhost {
		result, err = r.attachVhost(ctx, machine, node, letter)
	} else {
		result, err = r.attachTap(machine, node, letter, name)
	}
	if err == nil {
		machine.interfaces = append(machine.interfaces, result)
	}
	return err
}

// attachTap connects a machine by `ktsn vm attach`. Frames that ktsn-guest marks are captured.
func (r *Rig) attachTap(machine *Machine, node *Node, letter, name string) (*attached, error) {
	side, pairs, socket := node.Side.Another("", nil, machine.Addresses[name]), max(queues[name], 1), ""
	if letter == "a" && pairs == 1 {
		side.Capture(capture.Timed)
		socket = node.Control
	}
	dir := filepath.Join(machine.Out, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	network, text, err := side.Configuration(socket)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "10-tsn.conflist"), text, 0o644)
	}
	if err != nil {
		return nil, err
	}
	called := machineName(letter, name)
	output, err := r.vm(node, "attach", called, "--network", network, "--conf-dir", dir, "--plugin-dir", r.parts.Programs, "--state-dir", dir,
		"--vcpus", strconv.Itoa(Processors), "--queues", strconv.Itoa(pairs), "-o", "json")
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, func() error {
		_, err := r.vm(node, "detach", called, "--state-dir", dir)
		return err
	})
	var reply vm.Machine
	if err := json.Unmarshal(output, &reply); err != nil {
		return nil, fmt.Errorf("ktsn vm attach printed %q: %w", output, err)
	}
	return &attached{name, reply.Address, reply.MTU, reply.Interface()}, nil
}

// vm runs `ktsn vm` on a node.
func (r *Rig) vm(node *Node, arguments ...string) ([]byte, error) {
	command := exec.Command(r.parts.program("ktsn"), append([]string{"vm"}, arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := node.Namespace.Do(command.Run); err != nil {
		return nil, fmt.Errorf("ktsn vm %s: %w: %s", arguments[0], err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// attachVhost attaches the pod of a machine, and starts a relay for it.
func (r *Rig) attachVhost(ctx context.Context, machine *Machine, node *Node, letter string) (*attached, error) {
	pod, err := topology.NewNamespace(r.nodes.ID.String() + "-vhost-" + letter)
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, pod.Destroy)
	side := node.Side.Another("bench-vhost-"+letter, pod, machine.Addresses[Vhost])
	if err := side.Attach(ctx, node.Client, node.Control); err != nil {
		return nil, err
	}
	r.closers = append(r.closers, func() error { return side.Detach(context.WithoutCancel(ctx)) })
	mac, mtu, err := silence(pod)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(r.public, "vhost-"+letter)
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, relayUser, relayUser)); err != nil {
		return nil, fmt.Errorf("make a folder for the relay's socket: %w", err)
	}
	socket := filepath.Join(folder, "vhost.sock")
	relay, err := r.start(node.Namespace, "ktsn vm relay", "vm", "relay", "--netns", pod.Path(), "--socket", side.Socket(), "--vhost-socket", socket,
		"--vcpus", strconv.Itoa(Processors), "--records", "--relay-listens", "--relay-binary", filepath.Join(r.public, "ktsn-relay-vhost"), "--relay-user", strconv.Itoa(relayUser))
	if err != nil {
		return nil, err
	}
	if err := awaitFile(ctx, socket, relay); err != nil {
		return nil, err
	}
	if letter == "a" {
		r.relays = append(r.relays, relay)
	}
	const recordBytes = 24
	return &attached{Vhost, mac.String(), mtu - recordBytes, []string{"-chardev", "socket,id=vhost,path=" + socket,
		"-netdev", "vhost-user,id=vhost,chardev=vhost", "-device", "virtio-net-pci,netdev=vhost,mac=" + mac.String()}}, nil
}

// awaitFile waits for a socket that a program creates.
func awaitFile(ctx context.Context, path string, by *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, relayPatience)
	defer cancel()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-by.Done():
			return by.Ended()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; %s printed: %s", path, ctx.Err(), by.Name(), by.Stderr())
		case <-time.After(relayPoll):
		}
	}
}

// silence removes the addresses of the pod's interface, so that its kernel does not answer for the machine.
func silence(pod *topology.Namespace) (mac net.HardwareAddr, mtu int, err error) {
	err = pod.Do(func() error {
		link, err := netlink.LinkByName(topology.PodInterface)
		if err != nil {
			return err
		}
		mac, mtu = link.Attrs().HardwareAddr, link.Attrs().MTU
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for i := range addresses {
			if err := netlink.AddrDel(link, &addresses[i]); err != nil {
				return fmt.Errorf("remove %s from the pod's interface: %w", addresses[i].IPNet, err)
			}
		}
		return nil
	})
	return mac, mtu, err
}

// start starts ktsn on a node, until Close.
func (r *Rig) start(on *topology.Namespace, name string, arguments ...string) (*process.Process, error) {
	started, err := process.Start(on, name, exec.Command(r.parts.program("ktsn"), arguments...))
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, func() error { return started.Stop(stopGrace) })
	return started, nil
}
