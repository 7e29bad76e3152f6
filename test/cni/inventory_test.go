// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// inventory lists everything that tsn-cni and its delegated plugins can leave on a node and in pods.
func (n *node) inventory(t testing.TB, pods ...*pod) []string {
	t.Helper()
	all := slices.Concat(links(t, "node", n.Namespace), n.tables(t))
	for _, pod := range pods {
		all = append(all, links(t, pod.id, pod.Namespace)...)
	}
	must(t, n.Do(func() error {
		entries, err := netlink.NeighList(0, unix.AF_BRIDGE)
		for _, entry := range entries {
			if entry.HardwareAddr[0]&1 == 1 {
				continue // a multicast group of a device
			}
			if link, err := netlink.LinkByIndex(entry.LinkIndex); err == nil && link.Attrs().Name != uplinkName {
				all = append(all, fmt.Sprintf("forwarding %s %s", link.Attrs().Name, entry.HardwareAddr))
			}
		}
		return err
	}))
	all = append(all, n.files(t)...)
	all = append(all, n.ktsndState(t)...)
	slices.Sort(all)
	return all
}

func links(t testing.TB, where string, namespace *topology.Namespace) []string {
	t.Helper()
	var all []string
	must(t, namespace.Do(func() error {
		links, err := netdev.Dump(netlink.LinkList)
		for _, link := range links {
			all = append(all, where+" has "+link.Attrs().Name)
		}
		return err
	}))
	return all
}

// tables lists the tables and chains of nftables.
func (n *node) tables(t testing.TB) []string {
	t.Helper()
	var all []string
	must(t, n.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		chains, err := conn.ListChains()
		for _, chain := range chains {
			all = append(all, fmt.Sprintf("filter %s of family %d has %s", chain.Table.Name, chain.Table.Family, chain.Name))
		}
		return err
	}))
	return all
}

// files lists records, allocated addresses and sockets of pods.
func (n *node) files(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, part := range []string{"state", "ipam", "pods"} {
		_ = filepath.WalkDir(filepath.Join(n.dir, part), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() && part != "pods" || path == filepath.Join(n.dir, part) {
				return nil
			}
			name := entry.Name()
			if name != "lock" && name != "peers.json" && !strings.HasPrefix(name, "last_reserved_ip") {
				all = append(all, "file "+strings.TrimPrefix(path, n.dir))
			}
			return nil
		})
	}
	return all
}

// ktsndState lists the peers, endpoints and sockets of ktsnd.
func (n *node) ktsndState(t testing.TB) []string {
	t.Helper()
	if n.client == nil {
		return nil
	}
	var all []string
	endpoints, err := n.client.Endpoints(context.Background())
	must(t, err)
	for _, endpoint := range endpoints {
		all = append(all, fmt.Sprintf("ktsnd has endpoint %s %s", endpoint.Identity, endpoint.Interface))
	}
	status, err := n.client.Status(context.Background())
	must(t, err)
	return append(all, fmt.Sprintf("ktsnd has %d sockets", status.Sockets))
}

// checkSame compares two inventories.
func checkSame(t testing.TB, when string, before, after []string) {
	t.Helper()
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("%s: left: %s", when, line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("%s: lost: %s", when, line)
		}
	}
}
