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
	// daemonGrace is longer: a thread that keeps the core awake has the lowest priority and ends when it gets processor
	// time.
	daemonGrace = 20 * time.Second
	// endedGrace is how long after its last output a failing process has ended for certain.
	endedGrace = 500 * time.Millisecond
)

// daemon is ktsnd on node a.
type daemon struct {
	process *process.Process
	client  *control.Client
	// control is the path of the control socket.
	control string
	// lastDeparture is the sequence number up to which departures were read.
	lastDeparture uint64
}

// daemonSetting configures ktsnd for a block of runs.
type daemonSetting struct {
	// receiving: ktsnd of node b, which sends nothing; virtual machines receive by its relays.
	receiving bool
	cpu       int
	spin      time.Duration
	keepAwake bool
	// linkSpeed is the configured speed of the link; empty: ktsnd asks the link.
	linkSpeed string
	// vhostSocket is where Open vSwitch fetches frames; empty: ktsnd sends them itself.
	vhostSocket string
	// departures is the number of departures that it stores; 0: its default.
	departures int
	// podRate is the messages per second that it takes from one pod; 0: its default.
	podRate int
	// vlan is the VLAN ID of its frames; 0: untagged.
	vlan int
}

// arguments returns the arguments of ktsnd in this setting.
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

// explain replaces an error of the control connection by ktsnd's own error if it has ended.
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

// departures returns the departures since the last call.
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
