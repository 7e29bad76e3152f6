// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// Names of the parts of every topology. Interfaces of different topologies can have the same names, because they are
// created inside namespaces.
const (
	// PhysicalInterface is a node's end of the link between the nodes.
	PhysicalInterface = "phys0"
	// PodInterface is the interface of a pod.
	PodInterface = "tsn0"
	// VNI is the VXLAN network of the pods, VXLANPort its UDP port.
	VNI       = 42
	VXLANPort = 4789

	// BridgeName and TunnelName are the names of a node's bridge and VXLAN device.
	BridgeName = "br0"
	TunnelName = "vxlan42"

	physicalMTU = 1500
)

// runDir has a directory for each topology, named by its ID.
const runDir = "/run"

// Addresses, from documentation and private ranges.
var (
	NodeAddressA = netip.MustParseAddr("192.0.2.1")
	NodeAddressB = netip.MustParseAddr("192.0.2.2")
	PodAddressA  = netip.MustParseAddr("10.42.1.2")
	PodAddressB  = netip.MustParseAddr("10.42.2.2")
	// PodSubnetA and PodSubnetB are the nodes' subnets of the pods' network. Node a's has room for BackgroundAddresses
	// and hundreds more: the other node accepts only these sources from it.
	PodSubnetA = netip.MustParsePrefix("10.42.0.0/23")
	PodSubnetB = netip.MustParsePrefix("10.42.2.0/24")
	// BackgroundAddresses is the first address of many pods on node a.
	BackgroundAddresses = netip.MustParseAddr("10.42.0.1")
)

const (
	nodePrefixBits = 24
	// PodPrefixBits covers both nodes' subnets: the pods are on one overlay.
	PodPrefixBits = 16
)

// Topology is two nodes with a pod each.
type Topology struct {
	ID ID
	// Dir is a directory for sockets and files of programs in this topology, which only root can enter. Destroy removes
	// it.
	Dir   string
	NodeA *Namespace
	NodeB *Namespace
	PodA  *Namespace
	PodB  *Namespace
	// Router is between the nodes; nil if one link joins them.
	Router *Namespace
	// AddressA and AddressB are the nodes' addresses on their physical interfaces.
	AddressA, AddressB netip.Addr
}

// Create creates a topology whose nodes are on one link and whose pods have no network yet, or leaves nothing behind.
func Create(ctx context.Context) (*Topology, error) {
	return createJoined(ctx, NodeAddressB, (*Topology).linkNodes)
}

// createJoined creates a topology whose nodes a function joins. addressB is the address of node b.
func createJoined(ctx context.Context, addressB netip.Addr, join func(*Topology) error) (_ *Topology, err error) {
	id, err := NewID()
	if err != nil {
		return nil, err
	}
	t := &Topology{ID: id, Dir: filepath.Join(runDir, id.String()), AddressA: NodeAddressA, AddressB: addressB}
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, t.Destroy())
		}
	}()
	if err := os.Mkdir(t.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for sockets: %w", err)
	}
	for _, step := range []func(*Topology) error{(*Topology).makeNamespaces, join} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(t); err != nil {
			return nil, err
		}
	}
	success = true
	return t, nil
}

// Preloadable returns another path of a library for LD_PRELOAD, whose entries spaces and colons separate.
func (t *Topology) Preloadable(library string) (string, error) {
	link := filepath.Join(t.Dir, filepath.Base(library))
	if err := os.Symlink(library, link); err != nil {
		return "", fmt.Errorf("make a path of %s for LD_PRELOAD: %w", library, err)
	}
	return link, nil
}

func (t *Topology) makeNamespaces() error {
	for _, created := range []struct {
		role string
		into **Namespace
	}{
		{"node-a", &t.NodeA}, {"node-b", &t.NodeB}, {"pod-a", &t.PodA}, {"pod-b", &t.PodB},
	} {
		namespace, err := NewNamespace(t.ID.namespace(created.role))
		if err != nil {
			return err
		}
		*created.into = namespace
		if err := namespace.Do(prepareNamespace); err != nil {
			return fmt.Errorf("prepare %s: %w", created.role, err)
		}
	}
	return nil
}

func (t *Topology) linkNodes() error {
	if err := makeVeth(t.NodeA, PhysicalInterface, t.NodeB, PhysicalInterface, physicalMTU); err != nil {
		return fmt.Errorf("link the nodes: %w", err)
	}
	if err := addAddress(t.NodeA, PhysicalInterface, t.AddressA, nodePrefixBits); err != nil {
		return fmt.Errorf("link the nodes: %w", err)
	}
	if err := addAddress(t.NodeB, PhysicalInterface, t.AddressB, nodePrefixBits); err != nil {
		return fmt.Errorf("link the nodes: %w", err)
	}
	return nil
}

// Destroy removes everything that Create made, and the directory. It can be repeated.
func (t *Topology) Destroy() error {
	var all error
	for _, namespace := range []*Namespace{t.PodA, t.PodB, t.NodeA, t.NodeB, t.Router} {
		if namespace != nil {
			all = errors.Join(all, namespace.Destroy())
		}
	}
	if err := releaseHugepages(t.Dir); err != nil {
		return errors.Join(all, err)
	}
	if err := os.RemoveAll(t.Dir); err != nil {
		all = errors.Join(all, fmt.Errorf("remove directory for sockets: %w", err))
	}
	return all
}
