// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// addFloodPeers makes the kernel's tunnel of node a flood to count nodes, all behind node b's address.
func (l *lab) addFloodPeers(t *testing.T, peers int) {
	t.Helper()
	var batch strings.Builder
	for i := range peers {
		fmt.Fprintf(&batch, "fdb append 00:00:00:00:00:00 dev %s dst %s self permanent\n", topology.TunnelName, peerAt(i).Address)
	}
	command := exec.Command("bridge", "-force", "-batch", "-")
	command.Stdin = strings.NewReader(batch.String())
	began := time.Now()
	must(t, finish(t, start(t, l.NodeA, "bridge", command)))
	t.Logf("%d forwarding entries in %v", peers, time.Since(began))
}

// timeRequest returns the median time in which the kernel floods one request for an unknown address from pod a.
func (l *lab) timeRequest(t *testing.T) time.Duration {
	t.Helper()
	const requests = 201
	frame := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, make([]byte, 6), []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 6),
		topology.PodAddressA.AsSlice(), make([]byte, 6), []byte{10, 42, 3, 200})
	mac := interfaceMAC(t, l.PodA)
	copy(frame[6:], mac)
	copy(frame[22:], mac)
	fd := frameSocket(t, l.PodA, topology.PodInterface, 0)
	defer unix.Close(fd)
	var took []time.Duration
	for range requests {
		began := time.Now()
		_, err := unix.Write(fd, frame)
		must(t, err)
		took = append(took, time.Since(began))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// TestBenchRequestFloodedToNodes measures the cost of an ARP request on the requesting node by the number of nodes to
// which the kernel's tunnel floods it. It has no limit.
func TestBenchRequestFloodedToNodes(t *testing.T) {
	for _, peers := range []int{10, 100, 1000} {
		t.Run(fmt.Sprint(peers), func(t *testing.T) {
			lab := newLab(t)
			ip(t, lab.NodeA, "route", "add", "198.18.0.0/15", "via", topology.NodeAddressB.String())
			lab.addFloodPeers(t, peers)
			record(t, reported(fmt.Sprintf("ARP request flooded to %d nodes", peers), float64(lab.timeRequest(t).Nanoseconds())/1000, "us"))
		})
	}
}
