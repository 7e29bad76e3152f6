// SPDX-License-Identifier: Apache-2.0

package ovsnode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	// Pages is the number of 2 MB pages for ports with Ethernet's usual MTU, with some spare for DPDK.
	Pages        = 192
	readyTimeout = 10 * time.Second
	readyPoll    = 20 * time.Millisecond
	stopGrace    = 10 * time.Second
	schema       = "/usr/share/openvswitch/vswitch.ovsschema"
)

// daemons are the paths at which packages install ovs-vswitchd with DPDK.
var daemons = []string{"/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"}

// Node is an Open vSwitch on node a.
type Node struct {
	ovs.Switch

	nodes *topology.Topology
	// program is ovs-vswitchd, hugeDir the hugetlbfs; "" for a Node without hugepages.
	program, hugeDir string
	database         *process.Process
	daemon           *process.Process
}

// ErrMissing means that the machine cannot run an Open vSwitch with DPDK.
var ErrMissing = errors.New("no Open vSwitch with DPDK")

// Start starts an Open vSwitch with its own hugepages.
func Start(ctx context.Context, nodes *topology.Topology) (*Node, error) {
	program, err := findDaemon()
	if err != nil {
		return nil, err
	}
	hugeDir, err := nodes.ReserveHugepages(Pages)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return start(ctx, nodes, program, hugeDir)
}

// StartProgram starts ovs-vswitchd by its path, without hugepages.
func StartProgram(ctx context.Context, nodes *topology.Topology, program string) (*Node, error) {
	return start(ctx, nodes, program, "")
}

// Program returns the path of ovs-vswitchd with DPDK.
func Program() (string, error) { return findDaemon() }

func findDaemon() (string, error) {
	for _, path := range daemons {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s is missing; on Debian: apt-get install openvswitch-switch-dpdk", ErrMissing, daemons[0])
}

func start(ctx context.Context, nodes *topology.Topology, program, hugeDir string) (_ *Node, err error) {
	dir := filepath.Join(nodes.Dir, "ovs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	n := &Node{Switch: ovs.Switch{Database: "unix:" + filepath.Join(dir, "db.sock"), RunDir: dir}, nodes: nodes, program: program, hugeDir: hugeDir}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Stop())
		}
	}()
	if err := n.startDatabase(ctx); err != nil {
		return nil, err
	}
	if err := n.StartDaemon(); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Node) startDatabase(ctx context.Context) (err error) {
	file := filepath.Join(n.RunDir, "conf.db")
	if out, err := exec.CommandContext(ctx, "ovsdb-tool", "create", file, schema).CombinedOutput(); err != nil {
		return fmt.Errorf("make a database of Open vSwitch: %w: %s", err, out)
	}
	n.database, err = process.Start(n.nodes.NodeA, "ovsdb-server", exec.Command("ovsdb-server", file, "--remote=p"+n.Database,
		"--unixctl="+filepath.Join(n.RunDir, "db.ctl"), "-vconsole:warn"))
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(readyTimeout); ; time.Sleep(readyPoll) {
		out, err := exec.CommandContext(ctx, "ovs-vsctl", "--db="+n.Database, "--no-wait", "--timeout=5", "init", "--", "set", "Open_vSwitch", ".",
			"ovs_version=of_the_lab").CombinedOutput()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("ovsdb-server does not answer: %w: %s", err, out)
		}
	}
}

// StartDaemon starts ovs-vswitchd, which applies the database asynchronously.
func (n *Node) StartDaemon() (err error) {
	command := exec.Command(n.program, n.Database, "--unixctl="+filepath.Join(n.RunDir, "switch.ctl"), "--log-file="+n.Log(),
		"--pidfile="+filepath.Join(n.RunDir, "ovs-vswitchd.pid"), "-vconsole:emer")
	command.Env = append(os.Environ(), "OVS_RUNDIR="+n.RunDir)
	n.daemon, err = process.Start(n.nodes.NodeA, "ovs-vswitchd", command)
	return err
}

// Kill kills ovs-vswitchd by SIGKILL, and waits for its end.
func (n *Node) Kill() error {
	if err := n.Signal(os.Kill); err != nil {
		return err
	}
	<-n.daemon.Done()
	return nil
}

// Signal sends a signal to ovs-vswitchd.
func (n *Node) Signal(signal os.Signal) error {
	daemon, err := os.FindProcess(n.daemon.PID())
	if err != nil {
		return err
	}
	return daemon.Signal(signal)
}

// PID is the process ID of ovs-vswitchd.
func (n *Node) PID() int { return n.daemon.PID() }

// Log is the path of ovs-vswitchd's log.
func (n *Node) Log() string { return filepath.Join(n.RunDir, "switch.log") }

// VhostSocket is the path of a vhost-user socket for ktsnd.
func (n *Node) VhostSocket() string { return filepath.Join(n.nodes.Dir, "vhost.sock") }

// Plan returns the plan for the topology's network over the link between its nodes. The receiving end must not leave
// checksums to a virtual card.
func (n *Node) Plan() *ovs.Plan {
	return &ovs.Plan{Interface: topology.PhysicalInterface, Address: netip.PrefixFrom(topology.NodeAddressA, 24), Networks: []uint32{topology.VNI},
		Peers: []netip.Addr{topology.NodeAddressB}, Port: topology.VXLANPort, VhostSocket: n.VhostSocket(), DPDKExtra: n.DPDKExtra()}
}

// DPDKExtra returns arguments that keep DPDK's files separate from other instances.
func (n *Node) DPDKExtra() string {
	extra := "--no-pci --single-file-segments --file-prefix=" + n.nodes.ID.String()
	if n.hugeDir != "" {
		extra += " --huge-dir=" + n.hugeDir
	}
	return extra
}

// Setup applies the plan on node a, and prepares node b's end of the link.
func (n *Node) Setup(ctx context.Context, plan *ovs.Plan) error {
	err := n.nodes.NodeB.Do(func() error { return netdev.DisableChecksumOffload(topology.PhysicalInterface) })
	if err != nil {
		return err
	}
	err = n.nodes.NodeA.Do(func() error { return n.Switch.Setup(ctx, plan) })
	if lastError := lastLoggedError(n.Log()); err != nil && lastError != "" && ctx.Err() == nil {
		return fmt.Errorf("%w (it said: %s)", err, lastError)
	}
	return err
}

// lastLoggedError returns the last error in a log of ovs-vswitchd, which is removed with the Node; "" if there is none.
func lastLoggedError(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	for _, line := range slices.Backward(strings.Split(string(text), "\n")) {
		// 2026-11-21T19:35:04.293Z|00012|dpdk|EMER|Unable to initialize DPDK: Cannot allocate memory
		if fields := strings.SplitN(line, "|", 5); len(fields) == 5 && (fields[3] == "ERR" || fields[3] == "EMER") {
			return fields[4]
		}
	}
	return ""
}

// Teardown undoes Setup on node a.
func (n *Node) Teardown(ctx context.Context) error {
	return n.nodes.NodeA.Do(func() error { return n.Switch.Teardown(ctx) })
}

// Forget releases the hugepages and removes all files, so that another Node can be started. Both daemons must have
// ended.
func (n *Node) Forget() error {
	return errors.Join(n.nodes.ReleaseHugepages(), os.RemoveAll(n.RunDir))
}

// Stop ends both daemons. It can be repeated.
func (n *Node) Stop() error {
	var err error
	for _, running := range []*process.Process{n.daemon, n.database} {
		if running != nil {
			err = errors.Join(err, running.Stop(stopGrace))
		}
	}
	return err
}
