// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
)

// ovsOptions are the options of a node whose ktsnd sends through Open vSwitch.
type ovsOptions struct {
	device, iface, runDir, pmdCPUs string
	pmdMaxSleep                    time.Duration
	prefixBits                     int
	dpdkExtra                      string
	plan                           ovs.Plan
}

func addOVSOptions(flags *flag.FlagSet) *ovsOptions {
	o := &ovsOptions{}
	flags.StringVar(&o.device, "ovs-device", "", "have Open vSwitch make the tunnels by this network `CARD`: a PCI address, or a device of DPDK's")
	flags.StringVar(&o.iface, "ovs-interface", "", "the same by a network `INTERFACE` of the kernel's, through a packet socket")
	flags.StringVar(&o.runDir, "ovs-run-dir", ovs.DefaultRunDir, "`FOLDER` of the sockets of ovsdb-server and ovs-vswitchd")
	flags.StringVar(&o.pmdCPUs, "ovs-pmd-cpus", "", "`PROCESSORS` on which Open vSwitch polls, such as 2,3; empty: left as it is")
	flags.DurationVar(&o.pmdMaxSleep, "ovs-pmd-max-sleep", 0, "how long its polling may pause when there is nothing; 0: left as it is")
	flags.IntVar(&o.prefixBits, "ovs-prefix-length", 24, "of the tunnel's address where no interface has it yet")
	flags.StringVar(&o.dpdkExtra, "ovs-dpdk-extra", "", "further `ARGUMENTS` of DPDK in Open vSwitch")
	return o
}

// validate returns the checked options, nil for a node without Open vSwitch.
func (o *ovsOptions) validate() (*ovsOptions, error) {
	switch {
	case o.device == "" && o.iface == "":
		return nil, nil
	case o.device != "" && o.iface != "":
		return nil, errors.New("--ovs-device and --ovs-interface: give one of them")
	case o.prefixBits < 1 || o.prefixBits > 32:
		return nil, fmt.Errorf("--ovs-prefix-length %d: give 1 to 32", o.prefixBits)
	case o.pmdMaxSleep < 0 || o.pmdMaxSleep > 10*time.Millisecond:
		return nil, fmt.Errorf("--ovs-pmd-max-sleep %v: give at most 10ms", o.pmdMaxSleep)
	}
	o.plan = ovs.Plan{Device: o.device, Interface: o.iface, PMDMaxSleep: o.pmdMaxSleep, DPDKExtra: o.dpdkExtra}
	for _, text := range strings.FieldsFunc(o.pmdCPUs, func(r rune) bool { return r == ',' }) {
		cpu, err := strconv.Atoi(text)
		if err != nil || cpu < 0 {
			return nil, fmt.Errorf("--ovs-pmd-cpus %q: give processors such as 2,3", o.pmdCPUs)
		}
		o.plan.PMDCPUs = append(o.plan.PMDCPUs, cpu)
	}
	return o, nil
}

func newSwitch(runDir string) *ovs.Switch {
	return &ovs.Switch{Database: "unix:" + filepath.Join(runDir, "db.sock"), RunDir: runDir}
}

// newOVS adds the watch of the node's Open vSwitch. It returns nil if ktsnd sends without one.
func newOVS(c *core) (*openvswitch.Reconciler, error) {
	if c.OVS == nil {
		return nil, nil
	}
	ovsSwitch := newSwitch(c.OVS.runDir)
	plan := c.OVS.plan
	plan.VhostSocket = filepath.Join(c.runDir(), filepath.Base(ovs.DefaultVhostSocket))
	r := &openvswitch.Reconciler{Switch: ovsSwitch, Plan: plan, PrefixBits: c.OVS.prefixBits, PrefixOf: ovs.PrefixOf, Now: time.Now}
	onRestart := func() { c.queue.wake(concernPeers) }
	return r, c.manager.Add(manager.RunnableFunc(func(ctx context.Context) error { return openvswitch.Watch(ctx, ovsSwitch, onRestart) }))
}

// teardownOVS removes everything that the agent set up in Open vSwitch. A node without Open vSwitch is not an error.
func teardownOVS(ctx context.Context, runDir string) error {
	if _, err := os.Stat(filepath.Join(runDir, "db.sock")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := newSwitch(runDir).Teardown(ctx); err != nil {
		return fmt.Errorf("take Open vSwitch down: %w", err)
	}
	return nil
}
