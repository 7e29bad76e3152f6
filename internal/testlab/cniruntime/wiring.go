// SPDX-License-Identifier: Apache-2.0

package cniruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Plugins are the programs that attaching needs in the folder of plugins.
var Plugins = []string{"tsn-cni", "static"}

const (
	networkName = "tsn"
	cniVersion  = "1.1.0"
	lockTime    = 10 * time.Second
)

// Wiring attaches the pods of a topology to one network, each on its node.
type Wiring struct {
	A, B *Side
}

// Side is one node with its pod.
type Side struct {
	// ContainerID is the pod's, and its identity for ktsnd.
	ContainerID string

	node, pod *topology.Namespace
	runtime   *libcni.CNIConfig
	// dir holds what the node's plugins remember, and the pod's socket.
	dir   string
	local netip.Addr
	// addresses are those of the pod.
	addresses []netip.Prefix
	peer      control.Peer
	// uplink and tunnel are the node's devices towards the other.
	uplink, tunnel string
	// unseen and capture are the plugin's fields of these names, "" for their defaults.
	unseen, capture string
	// attached is the configuration with which the pod is attached, nil when it is not.
	attached *libcni.NetworkConfigList
}

// Wire prepares to attach the pods; the plugins are in pluginDir. containerA is how pod a is called.
func Wire(nodes *topology.Topology, pluginDir, containerA string) *Wiring {
	return &Wiring{
		A: newSide(nodes, pluginDir, "a", containerA, nodes.NodeA, nodes.PodA, topology.NodeAddressA, topology.PodAddressA,
			topology.NodeAddressB, topology.PodSubnetB),
		B: newSide(nodes, pluginDir, "b", containerA+"-b", nodes.NodeB, nodes.PodB, topology.NodeAddressB, topology.PodAddressB,
			topology.NodeAddressA, topology.PodSubnetA),
	}
}

func newSide(nodes *topology.Topology, pluginDir, name, container string, node, pod *topology.Namespace,
	local, address, remote netip.Addr, remotePods netip.Prefix) *Side {
	dir := filepath.Join(nodes.Dir, "node-"+name)
	return &Side{
		ContainerID: container, node: node, pod: pod, dir: dir, local: local,
		uplink: topology.PhysicalInterface, tunnel: topology.TunnelName,
		addresses: []netip.Prefix{netip.PrefixFrom(address, topology.PodPrefixBits)},
		peer:      control.Peer{VNI: topology.VNI, Address: remote, Subnets: []netip.Prefix{remotePods}},
		runtime:   New(node.Path(), []string{pluginDir}, filepath.Join(dir, "cache"), io.Discard),
	}
}

// AttachBoth attaches both pods without ktsnd.
func (w *Wiring) AttachBoth(ctx context.Context) error {
	var errs [2]error
	var both sync.WaitGroup
	for i, side := range []*Side{w.A, w.B} {
		both.Go(func() { errs[i] = side.Attach(ctx, nil, "") })
	}
	both.Wait()
	return errors.Join(errs[:]...)
}

// Socket is where the pod's applications reach ktsnd, if it is attached with one.
func (s *Side) Socket() string {
	return filepath.Join(s.dir, "pods", s.ContainerID, "app.sock")
}

// Through makes further attachments go through other devices than a tunnel of the plugin's on the physical interface.
// Empty names are what they are by default.
func (s *Side) Through(uplink, tunnel string) {
	s.uplink, s.tunnel = cmp.Or(uplink, topology.PhysicalInterface), cmp.Or(tunnel, topology.TunnelName)
}

// LetPass makes further attachments let datagrams with a transmit time out that do not come through libktsn.so.
func (s *Side) LetPass() { s.unseen = "pass" }

// Capture makes further attachments capture what a mode says.
func (s *Side) Capture(mode capture.Mode) { s.capture = mode.String() }

// Another is a further pod of the side's node, for which as much holds.
func (s *Side) Another(container string, pod *topology.Namespace, address netip.Addr) *Side {
	other := *s
	other.ContainerID, other.pod, other.attached = container, pod, nil
	other.addresses = []netip.Prefix{netip.PrefixFrom(address, topology.PodPrefixBits)}
	return &other
}

// Also gives further attachments of the pod another address, and tells the node of the other pods behind its peer.
func (s *Side) Also(address, remote netip.Prefix) {
	s.addresses = append(s.addresses, address)
	s.peer.Subnets = append(s.peer.Subnets, remote)
}

// StateDir is where the node's plugins remember what they attached.
func (s *Side) StateDir() string { return filepath.Join(s.dir, "state") }

// Attach tells the node of the other one and attaches its pod, with ktsnd unless client is nil.
func (s *Side) Attach(ctx context.Context, client *control.Client, controlSocket string) error {
	configs, err := s.configs(controlSocket)
	if err != nil {
		return err
	}
	if err := s.addPeer(ctx, client); err != nil {
		return fmt.Errorf("tell the node of the other: %w", err)
	}
	if _, err := s.runtime.AddNetworkList(ctx, configs, s.attachment()); err != nil {
		return fmt.Errorf("attach %s: %w", s.ContainerID, err)
	}
	s.attached = configs
	return nil
}

// Detach undoes Attach, but for the peer, which does no harm. Repeating it does nothing.
func (s *Side) Detach(ctx context.Context) error {
	if s.attached == nil {
		return nil
	}
	if err := s.runtime.DelNetworkList(ctx, s.attached, s.attachment()); err != nil {
		return fmt.Errorf("detach %s: %w", s.ContainerID, err)
	}
	s.attached = nil
	return nil
}

func (s *Side) attachment() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: s.ContainerID, NetNS: s.pod.Path(), IfName: topology.PodInterface}
}

func (s *Side) configs(controlSocket string) (*libcni.NetworkConfigList, error) {
	var addresses []map[string]string
	for _, address := range s.addresses {
		addresses = append(addresses, map[string]string{"address": address.String()})
	}
	config := map[string]any{
		"type":          "tsn-cni",
		"vni":           topology.VNI,
		"bridge":        topology.BridgeName,
		"tunnel":        s.tunnel,
		"port":          topology.VXLANPort,
		"uplink":        s.uplink,
		"localAddress":  s.local.String(),
		"stateDir":      s.StateDir(),
		"controlSocket": controlSocket,
		"ipam":          map[string]any{"type": "static", "addresses": addresses},
		// Those who use the wiring give pods of both nodes such addresses themselves.
		"sourceAddresses": []string{"10.42.1.9/32", "10.42.2.3/32", "fd00:42:1::/124", "fd00:42:2::/124"},
	}
	if s.unseen != "" {
		config["unseen"] = s.unseen
	}
	if s.capture != "" {
		config["capture"] = s.capture
	}
	if controlSocket != "" {
		config["socketDir"] = filepath.Join(s.dir, "pods")
	}
	return List(cniVersion, networkName, config)
}

// Configuration is the network's configuration list with which the side's pod is attached, for a runtime of its own.
func (s *Side) Configuration(controlSocket string) (name string, text []byte, err error) {
	list, err := s.configs(controlSocket)
	if err != nil {
		return "", nil, err
	}
	return list.Name, list.Bytes, nil
}

// addPeer works on the node's thread: package overlay asks the kernel about the namespace that it is in.
func (s *Side) addPeer(ctx context.Context, client *control.Client) error {
	var timed overlay.Timed
	if client != nil {
		timed = client
	}
	return s.node.Do(func() error {
		node, err := overlay.Open(s.StateDir(), lockTime)
		if err != nil {
			return err
		}
		defer node.Close()
		return node.PeerAdd(ctx, s.peer, timed)
	})
}
