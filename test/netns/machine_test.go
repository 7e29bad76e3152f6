// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
)

// guestPatience is for a virtual machine, which takes half a minute on an idle machine.
const guestPatience = 5 * time.Minute

var (
	// machineName is of this process alone: network namespaces are the node's, whichever node a test has made.
	machineName = "v" + strconv.Itoa(os.Getpid()%1_000_000_000)
	// machineIdentity is how ktsnd calls it.
	machineIdentity = "vm-" + machineName
)

// virtualMachine is one that `ktsn vm attach` has connected to node a.
type virtualMachine struct {
	*vm.Machine
	stateDir string
}

// attachMachine connects one to the network of pod a, until the test's end.
func (c *captured) attachMachine(t *testing.T, options ...string) *virtualMachine {
	t.Helper()
	return c.attachMachineAs(t, machineName, c.wiring.A.Another("", nil, neighborAddress), options...)
}

// attachMachineAs connects one of any name and with the addresses of a side.
func (c *captured) attachMachineAs(t *testing.T, name string, side *cniruntime.Side, options ...string) *virtualMachine {
	t.Helper()
	confDir, stateDir := t.TempDir(), t.TempDir()
	network, text, err := side.Configuration(c.control)
	if err == nil {
		err = os.WriteFile(filepath.Join(confDir, "10-tsn.conflist"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	machine := &virtualMachine{stateDir: stateDir}
	output := c.vm(t, append([]string{"attach", name, "--network", network, "--conf-dir", confDir, "--plugin-dir", filepath.Dir(program(t, "tsn-cni")),
		"--state-dir", stateDir, "-o", "json"}, options...)...)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(stateDir, name+".json")); err == nil {
			c.vm(t, "detach", name, "--state-dir", stateDir)
		}
	})
	if err := json.Unmarshal(output, &machine.Machine); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	return machine
}

// vm runs `ktsn vm` on node a.
func (c *captured) vm(t *testing.T, arguments ...string) []byte {
	t.Helper()
	output, err := c.runVM(t, arguments)
	if err != nil {
		t.Fatalf("ktsn vm %q: %v", arguments, err)
	}
	return output
}

func (c *captured) tryVM(t *testing.T, arguments ...string) error {
	t.Helper()
	_, err := c.runVM(t, arguments)
	return err
}

func (c *captured) runVM(t *testing.T, arguments []string) ([]byte, error) {
	t.Helper()
	command := exec.Command(program(t, "ktsn"), append([]string{"vm"}, arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := c.NodeA.Do(command.Run); err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// guestStatus is what ktsn-guest says of an interface.
type guestStatus struct {
	Known   bool              `json:"known"`
	BoundNs int64             `json:"bound_ns"`
	AheadNs int64             `json:"host_tai_ahead_of_guest_ns"`
	Sent    uint64            `json:"sent"`
	Refused map[string]uint64 `json:"refused"`
}

// argumentsOf are those that `ktsn vm attach` prints, but for the number of processors.
func argumentsOf(m *vm.Machine) []string {
	return strings.Fields(strings.ReplaceAll(strings.TrimPrefix(m.QEMU(), fmt.Sprintf("-smp %d", m.VCPUs)), "\\\n", ""))
}

// checkHeld checks that all left once, in order, not before their times by the host's clock, and that these are the guest's.
func checkHeld(t *testing.T, traced []control.TracedMessage, seen []onWire, count int, before, after guestStatus) {
	t.Helper()
	if len(traced) != count || len(seen) != count {
		t.Fatalf("ktsnd saw %d of %d messages, and %d were on the wire", len(traced), count, len(seen))
	}
	// What the host's clock is ahead is known at both ends only, each time within a bound.
	bound := max(before.BoundNs, after.BoundNs)
	least, most := min(before.AheadNs, after.AheadNs)-bound, max(before.AheadNs, after.AheadNs)+bound
	for i, message := range seen {
		due := traced[i].DueTAI
		if int(message.number) != i || due < message.txtime+least || due > message.txtime+most {
			t.Errorf("in place %d is message %d of the guest's time %d, due at %d; the host is ahead by %d to %d", i, message.number, message.txtime, due, least, most)
		}
		if early := due - min(message.wireTAI, traced[i].EndedTAI); early > 0 {
			t.Errorf("message %d left %v early", message.number, time.Duration(early))
		}
	}
}

// departures says how far behind their times messages left.
func departures(traced []control.TracedMessage) string {
	var errors []int64
	for _, message := range traced {
		errors = append(errors, message.EndedTAI-message.DueTAI)
	}
	slices.Sort(errors)
	return fmt.Sprintf("p50 %v, p99 %v", time.Duration(stats.Percentile(errors, stats.P50)), time.Duration(stats.Percentile(errors, stats.P99)))
}

func TestGuestsDetachLeavesNothing(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	before := c.linksOfNode(t)
	m := c.attachMachine(t, "--queues", "4", "--vcpus", "2", "--mac", "0a:58:0a:2a:01:77")
	if m.Address != "0a:58:0a:2a:01:77" || m.MTU != 1450 || len(m.Prefixes) != 1 || m.Prefixes[0].Addr() != neighborAddress {
		t.Errorf("it was attached as %+v", m.Machine)
	}
	if output := string(c.vm(t, "list", "--state-dir", m.stateDir)); !strings.Contains(output, m.Tap) || !strings.Contains(output, m.Address) {
		t.Errorf("ktsn vm list says %q", output)
	}
	for part, arguments := range map[string][]string{
		"is connected already": {"attach", machineName, "--network", "tsn", "--conf-dir", m.ConfDir},
		"at least 2 virtual":   {"attach", "vm2", "--network", "tsn", "--conf-dir", m.ConfDir, "--queues", "2"},
		"no net configuration": {"attach", "vm2", "--network", "other", "--conf-dir", m.ConfDir},
		"no virtual machine":   {"detach", "vm2"},
	} {
		if err := c.tryVM(t, append(arguments, "--state-dir", m.stateDir)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ktsn vm %q: %v, and should speak of %q", arguments, err, part)
		}
	}
	c.vm(t, "detach", machineName, "--state-dir", m.stateDir)
	if after := c.linksOfNode(t); !slices.Equal(before, after) {
		t.Errorf("the node's interfaces were %q and are %q", before, after)
	}
	if _, err := os.Stat("/run/netns/ktsn-vm-" + machineName); !os.IsNotExist(err) {
		t.Errorf("its network namespace is left: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(m.stateDir, "*.json"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// linksOfNode are the names of node a's interfaces.
func (c *captured) linksOfNode(t *testing.T) (names []string) {
	t.Helper()
	if err := c.NodeA.Do(func() error {
		links, err := netlink.LinkList()
		for _, link := range links {
			// The relay's device goes when the supervisor has seen that its interface has gone.
			if !strings.HasPrefix(link.Attrs().Name, "ktsnr") {
				names = append(names, link.Attrs().Name)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}
