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

// Plugins are the plugins that attaching needs.
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
	// ContainerID identifies the pod, also for ktsnd.
	ContainerID string

	node, pod *topology.Namespace
	runtime   *libcni.CNIConfig
	// dir has the state of the node's plugins, and the pod's socket.
	dir   string
	local netip.Addr
	// addresses are the pod's addresses.
	addresses []netip.Prefix
	peer      control.Peer
	// uplink and tunnel are the node's devices towards the other node, port the tunnel's UDP port.
	uplink, bridge, tunnel string
	port                   uint16
	// unseen and capture are the plugin's fields of these names, "" for their defaults.
	unseen, capture string
	// attached is the configuration with which the pod is attached, nil if it is not.
	attached *libcni.NetworkConfigList
}

// Wire prepares to attach the pods with the plugins in pluginDir. containerA is the container ID of pod a.
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
		uplink: topology.PhysicalInterface, bridge: topology.BridgeName, tunnel: topology.TunnelName, port: topology.VXLANPort,
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

// Socket is the path of the pod's socket to ktsnd, if it is attached with one.
func (s *Side) Socket() string {
	return filepath.Join(s.dir, "pods", s.ContainerID, "app.sock")
}

// Through makes further attachments use other devices than the plugin's tunnel over the physical interface. Empty names
// are the defaults.
func (s *Side) Through(uplink, tunnel string) {
	s.uplink, s.tunnel = cmp.Or(uplink, topology.PhysicalInterface), cmp.Or(tunnel, topology.TunnelName)
}

// LetPass makes further attachments pass timed datagrams that bypass libktsn.so.
func (s *Side) LetPass() { s.unseen = "pass" }

// Capture makes further attachments capture frames in a mode.
func (s *Side) Capture(mode capture.Mode) { s.capture = mode.String() }

// Another returns a second pod on the side's node with the same settings.
func (s *Side) Another(container string, pod *topology.Namespace, address netip.Addr) *Side {
	other := *s
	other.ContainerID, other.pod, other.attached = container, pod, nil
	other.addresses = []netip.Prefix{netip.PrefixFrom(address, topology.PodPrefixBits)}
	return &other
}

// Also gives further attachments of the pod another address, and announces remote as a subnet of the node's peer.
func (s *Side) Also(address, remote netip.Prefix) {
	s.addresses = append(s.addresses, address)
	s.peer.Subnets = append(s.peer.Subnets, remote)
}

// Join makes further attachments join another network, whose tunnels have a UDP port of their own and whose pods on the other node have
// addresses of remote.
func (s *Side) Join(vni uint32, port uint16, remote netip.Prefix) {
	s.bridge, s.tunnel, s.port = overlay.BridgeName(vni), overlay.TunnelName(vni), port
	s.peer.VNI, s.peer.Port, s.peer.Subnets = vni, port, []netip.Prefix{remote}
}

// StateDir is where the node's plugins keep the state of attachments.
func (s *Side) StateDir() string { return filepath.Join(s.dir, "state") }

// Attach adds the other node as a peer and attaches the pod, with ktsnd unless client is nil.
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

// Detach undoes Attach, except for the peer, which does no harm. It can be repeated.
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
		"vni":           s.peer.VNI,
		"bridge":        s.bridge,
		"tunnel":        s.tunnel,
		"port":          s.port,
		"uplink":        s.uplink,
		"localAddress":  s.local.String(),
		"stateDir":      s.StateDir(),
		"controlSocket": controlSocket,
		"ipam":          map[string]any{"type": "static", "addresses": addresses},
		// Users of the wiring give pods of both nodes these addresses themselves.
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

// Configuration returns the network's configuration list for the side's pod, for another runtime.
func (s *Side) Configuration(controlSocket string) (name string, text []byte, err error) {
	list, err := s.configs(controlSocket)
	if err != nil {
		return "", nil, err
	}
	return list.Name, list.Bytes, nil
}

// addPeer runs on the node's thread, because package overlay uses the calling thread's namespace.
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
