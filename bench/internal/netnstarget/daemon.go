// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	podIdentity  = "bench-pod-a"
	readyTimeout = 10 * time.Second
	readyPoll    = 20 * time.Millisecond
	stopGrace    = 3 * time.Second
	// daemonGrace is longer: a thread that keeps the core awake has the lowest priority and ends when it gets a turn.
	daemonGrace = 20 * time.Second
	// endedGrace is how long after its last sign of life a process that fails has ended for certain.
	endedGrace = 500 * time.Millisecond
)

// daemon is ktsnd on node a.
type daemon struct {
	process *process.Process
	client  *control.Client
	// control is where the network plugin reaches it.
	control string
	// lastDeparture is the sequence number up to which departures were read.
	lastDeparture uint64
}

// daemonSetting is how a block of runs wants ktsnd.
type daemonSetting struct {
	// receiving is of node b's, which sends nothing: virtual machines receive by its relays.
	receiving bool
	cpu       int
	spin      time.Duration
	keepAwake bool
	// linkSpeed is what ktsnd is told of the link; empty: it asks the link.
	linkSpeed string
	// vhostSocket is where Open vSwitch fetches frames; empty: ktsnd sends them itself.
	vhostSocket string
	// departures is how many it has to remember; 0: as many as it does by itself.
	departures int
	// podRate is how many messages a second it takes from one pod; 0: as many as it does by itself.
	podRate int
	// vlan is the tag of its frames; 0: none.
	vlan int
}

// arguments are those of a ktsnd in this setting.
func (setting *daemonSetting) arguments(controlSocket string) []string {
	local := topology.NodeAddressA
	if setting.receiving {
		local = topology.NodeAddressB
	}
	arguments := []string{"--interface", topology.PhysicalInterface,
		"--local-address", local.String(),
		"--control", controlSocket,
		"--log-level", "warning",
		"--fifo", strconv.Itoa(fifoPriority),
		"--spin", traffic.Nanoseconds(setting.spin)}
	if setting.cpu != traffic.NotPinned {
		arguments = append(arguments, "--cpu", strconv.Itoa(setting.cpu))
	}
	if setting.keepAwake {
		arguments = append(arguments, "--keep-awake")
	}
	if setting.linkSpeed != "" {
		arguments = append(arguments, "--link-speed", setting.linkSpeed)
	}
	if setting.departures != 0 {
		arguments = append(arguments, "--departures", strconv.Itoa(setting.departures))
	}
	if setting.podRate != 0 {
		arguments = append(arguments, "--pod-rate", strconv.Itoa(setting.podRate))
	}
	if setting.vlan != 0 {
		arguments = append(arguments, "--vlan", strconv.Itoa(setting.vlan))
	}
	if setting.vhostSocket != "" {
		arguments = append(arguments, "--uplink", "ovs", "--interface", ovs.BridgePhysical, "--vhost-socket", setting.vhostSocket)
	}
	return arguments
}

// startDaemon returns once ktsnd answers.
func startDaemon(ctx context.Context, nodes *topology.Topology, program string,
	setting daemonSetting) (_ *daemon, err error) {
	node, controlSocket := nodes.NodeA, filepath.Join(nodes.Dir, "control.sock")
	if setting.receiving {
		node, controlSocket = nodes.NodeB, filepath.Join(nodes.Dir, "control-b.sock")
	}
	started, err := process.Start(node, "ktsnd", exec.Command(program, setting.arguments(controlSocket)...))
	if err != nil {
		return nil, err
	}
	d := &daemon{process: started, control: controlSocket}
	success := false
	defer func() {
		if !success {
			err = errors.Join(d.explain(err), d.stop())
		}
	}()
	if err := d.connect(ctx, controlSocket); err != nil {
		return nil, err
	}
	success = true
	return d, nil
}

// explain replaces an error in talking to ktsnd by what ktsnd said when it ended, if it did.
func (d *daemon) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-d.process.Done():
		return d.process.Ended()
	case <-time.After(endedGrace):
		return err
	}
}

// connect waits until ktsnd answers on its control socket.
func (d *daemon) connect(ctx context.Context, controlSocket string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		client, err := control.Dial(ctx, controlSocket)
		if err == nil {
			d.client = client
			_, err = client.Status(ctx)
			return err
		}
		select {
		case <-d.process.Done():
			return d.process.Ended()
		case <-ctx.Done():
			return fmt.Errorf("ktsnd did not answer: %w (%w)", ctx.Err(), err)
		case <-time.After(readyPoll):
		}
	}
}

// departures returns those since it was last called.
func (d *daemon) departures(ctx context.Context) ([]control.Departure, error) {
	departures, overwritten, err := d.client.Departures(ctx, d.lastDeparture)
	if err != nil {
		return nil, err
	}
	if overwritten > 0 {
		return nil, fmt.Errorf("ktsnd has already forgotten %d departures", overwritten)
	}
	if len(departures) > 0 {
		d.lastDeparture = departures[len(departures)-1].Sequence
	}
	return departures, nil
}

func (d *daemon) stop() error {
	var err error
	if d.client != nil {
		err = d.client.Close()
	}
	return errors.Join(err, d.process.Stop(daemonGrace))
}
