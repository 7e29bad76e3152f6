// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// relayPIDs are the relays that the supervisor has started.
func (c *captured) relayPIDs(t *testing.T) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		before, behind, _ := strings.Cut(string(stat), ") ")
		pid, _, _ := strings.Cut(before, " ")
		if fields := strings.Fields(behind); len(fields) > 1 && fields[1] == strconv.Itoa(c.relays.PID()) && fields[0] != "Z" {
			number, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, number)
		}
	}
	return all
}

// killRelays ends all relays as a crash would, and waits until they have ended.
func (c *captured) killRelays(t *testing.T) {
	t.Helper()
	relays := c.relayPIDs(t)
	for _, pid := range relays {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	awaitEnd(t, relays)
}

// awaitEnd waits until processes have ended.
func awaitEnd(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		testlab.Eventually(t, patience, time.Millisecond, func() error {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				return nil
			}
			return fmt.Errorf("process %d goes on", pid)
		})
	}
}

// frameCounts is what the programs of the kernel and the relays of pod a have counted.
type frameCounts struct {
	// captured got a record in the pod; passed took the kernel's path in mode All.
	captured, passed uint64
	// refused were dropped by a program of the kernel, by the device of a relay that was full, or by a relay.
	refused uint64
}

// counted reads them.
func (c *captured) counted(t *testing.T) frameCounts {
	t.Helper()
	pod, err := capture.ReadIn(c.PodA.Path(), topology.PodInterface)
	if err != nil {
		t.Fatal(err)
	}
	port := c.port(t, identity)
	counts := frameCounts{captured: pod.Captured, passed: port.Passed,
		refused: pod.RefusedSum() + port.NoRelay + port.Segments + relayDrops(t, c.relays)}
	for _, device := range c.relayDevices(t) {
		counts.refused += device.Attrs().Statistics.TxDropped
	}
	return counts
}

// relayDevices are those of node a in which frames wait for relays.
func (c *captured) relayDevices(t *testing.T) []netlink.Link {
	t.Helper()
	var devices []netlink.Link
	if err := c.NodeA.Do(func() error {
		all, err := netlink.LinkList()
		for _, link := range all {
			if _, ok := link.(*netlink.Tuntap); ok {
				devices = append(devices, link)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return devices
}

// port is what the program at the port of a pod of node a has counted.
func (c *captured) port(t *testing.T, pod string) (count capture.PortCount) {
	t.Helper()
	name := c.portName(t, pod)
	if err := c.NodeA.Do(func() (err error) {
		count, err = capture.ReadPort(name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return count
}

// portName is what node a calls the port of a pod.
func (c *captured) portName(t *testing.T, pod string) string {
	t.Helper()
	all, err := attachment.Relayed(c.wiring.A.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].ContainerID == pod {
			return all[i].PortName()
		}
	}
	t.Fatalf("pod %s is not captured: %+v", pod, all)
	return ""
}

// relayDrops are the frames that relays have dropped, or lost when they were killed.
func relayDrops(t *testing.T, supervisor *process.Process) uint64 {
	t.Helper()
	sum := uint64(0)
	for _, counted := range relayCounters(t, supervisor) {
		sum += counted.drops()
	}
	return sum
}

// relayCounters are what a supervisor holds for its relays: datapath/relay/counters.h.
func relayCounters(t *testing.T, supervisor *process.Process) (all []relayed) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", supervisor.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if to, err := os.Readlink(file); err != nil || !strings.Contains(to, "ktsn-relay-counters") {
			continue
		}
		text, err := os.ReadFile(file)
		var counted relayed
		if err == nil {
			err = binary.Read(bytes.NewReader(text), binary.NativeEndian, &counted)
		}
		if err != nil {
			t.Fatalf("read the counters of a relay: %d bytes, %v", len(text), err)
		}
		all = append(all, counted)
	}
	return all
}
