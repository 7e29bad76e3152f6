// SPDX-License-Identifier: Apache-2.0

package cniruntime

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// plugins returns the folder of built plugins. The test is skipped without it, or without root.
func plugins(t *testing.T) string {
	t.Helper()
	testlab.Root(t)
	for _, name := range Plugins {
		testlab.Program(t, name)
	}
	return testlab.BinDir(t)
}

func create(t *testing.T) *topology.Topology {
	t.Helper()
	nodes, err := topology.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return nodes
}

func TestAttachedPodsReachEachOther(t *testing.T) {
	dir := plugins(t)
	nodes := create(t)
	wiring := Wire(nodes, dir, "pod")
	if err := wiring.AttachBoth(t.Context()); err != nil {
		t.Fatal(err)
	}
	const largest = 1450 - 28
	for name, route := range map[string]struct {
		from, to       *topology.Namespace
		source, target netip.Addr
		bytes          int
	}{
		"from a to b":                        {nodes.PodA, nodes.PodB, topology.PodAddressA, topology.PodAddressB, 10},
		"from b to a":                        {nodes.PodB, nodes.PodA, topology.PodAddressB, topology.PodAddressA, 10},
		"from a to b in the largest":         {nodes.PodA, nodes.PodB, topology.PodAddressA, topology.PodAddressB, largest},
		"from a to itself over its loopback": {nodes.PodA, nodes.PodA, topology.PodAddressA, topology.PodAddressA, 10},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat("x", route.bytes)
			if got, source := testlab.SendUDP4(t, route.from, route.to, route.target, text); got != text || source.Addr() != route.source {
				t.Errorf("%d bytes arrived from %s", len(got), source)
			}
		})
	}
	t.Run("not after one was detached", func(t *testing.T) {
		for range 2 {
			if err := wiring.A.Detach(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		err := nodes.PodA.Do(func() error {
			_, err := net.InterfaceByName(topology.PodInterface)
			return err
		})
		if err == nil {
			t.Error("its interface is still there")
		}
	})
}
