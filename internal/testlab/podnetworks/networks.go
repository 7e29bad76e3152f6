// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// The names of the networks.
const (
	Host          = "host"
	Flannel       = "flannel"
	FlannelHostGW = "flannel-host-gw"
	TSN           = "tsn"
	Link          = "link"
)

// All has all networks.
var All = []string{Host, Flannel, FlannelHostGW, TSN, Link}

// The range of the MTU of the link between the nodes, and the largest number of pods on node b.
const (
	MinMTU  = 1500
	MaxMTU  = 9000
	MaxPods = 31
)

// EncapsulationBytes is VXLAN's overhead.
const EncapsulationBytes = 50

// Wanted describes the networks to create.
type Wanted struct {
	Networks []string
	// LinkMTU is the MTU of the link between the nodes.
	LinkMTU int
	// Routed puts a router between the nodes, which are then in two subnets like nodes of two clusters.
	Routed bool
	// Pods is the number of pods on node b.
	Pods int
	// Programs is the folder of ktsnd, libktsn.so, tsn-cni and static, for networks tsn and link.
	Programs string
}

// End is one end of a network, where a program can run.
type End struct {
	Address netip.Addr
	// Interface is the network's interface there, and MTU its MTU.
	Interface string
	MTU       int
	// Environment is added to the environment of programs there.
	Environment []string
	where       *topology.Namespace
}

// Do calls a function on a thread in the end's namespace.
func (e *End) Do(call func() error) error { return e.where.Do(call) }

// Namespace starts programs at the end.
func (e *End) Namespace() process.Starter { return e.where }

// Networks are created networks; Close removes them.
type Networks struct {
	wanted Wanted
	nodes  *topology.Topology
	// more are the pods of node b except its first.
	more []*topology.Namespace
	// managed is nil if no network needs it.
	managed *managed
}

// Create creates the networks, or leaves nothing behind.
func Create(ctx context.Context, wanted Wanted) (_ *Networks, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces are made by root only; try it with sudo")
	}
	if wanted.LinkMTU < MinMTU || wanted.LinkMTU > MaxMTU || wanted.Pods < 1 || wanted.Pods > MaxPods {
		return nil, fmt.Errorf("an MTU of %d and %d pods; give %d to %d, and 1 to %d", wanted.LinkMTU, wanted.Pods, MinMTU, MaxMTU, MaxPods)
	}
	create := topology.Create
	if wanted.Routed {
		create = topology.CreateRouted
	}
	nodes, err := create(ctx)
	if err != nil {
		return nil, err
	}
	n := &Networks{wanted: wanted, nodes: nodes}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := n.setMTU(); err != nil {
		return nil, err
	}
	if err := n.makePods(); err != nil {
		return nil, err
	}
	err = n.makeNetworks(ctx)
	return n, err
}

// setMTU sets the MTU of the link between the nodes.
func (n *Networks) setMTU() error {
	for _, node := range []*topology.Namespace{n.nodes.NodeA, n.nodes.NodeB} {
		if err := node.Do(func() error { return setMTU(topology.PhysicalInterface, n.wanted.LinkMTU) }); err != nil {
			return err
		}
	}
	if n.nodes.Router == nil {
		return nil
	}
	return n.nodes.Router.Do(func() error {
		var err error
		for _, name := range topology.RouterInterfaces {
			err = errors.Join(err, setMTU(name, n.wanted.LinkMTU))
		}
		return err
	})
}

func (n *Networks) makePods() error {
	for i := 2; i <= n.wanted.Pods; i++ {
		pod, err := topology.NewNamespace(n.nodes.ID.String() + "-pod-b" + strconv.Itoa(i))
		if err != nil {
			return err
		}
		n.more = append(n.more, pod)
		if err := pod.Do(func() error { return topology.SetUp("lo") }); err != nil {
			return err
		}
	}
	return nil
}

func (n *Networks) makeNetworks(ctx context.Context) error {
	for _, network := range n.wanted.Networks {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		switch network {
		case Host:
		case FlannelHostGW, Flannel:
			if n.wanted.Routed && network == FlannelHostGW {
				return fmt.Errorf("network %s needs both nodes on one link, and a router is between them", network)
			}
			err = n.makeRouted(routedBy[network])
		case TSN:
			err = n.makeTSN(ctx)
		case Link:
			err = n.makeLink(ctx)
		default:
			err = fmt.Errorf("no network is called %q; give some of %v", network, All)
		}
		if err != nil {
			return fmt.Errorf("make network %s: %w", network, err)
		}
	}
	return nil
}

// pods returns the pods of a side, numbered from 1.
func (n *Networks) pods(side int) []*topology.Namespace {
	if side == sideA {
		return []*topology.Namespace{n.nodes.PodA}
	}
	return append([]*topology.Namespace{n.nodes.PodB}, n.more...)
}

func (n *Networks) node(side int) *topology.Namespace {
	if side == sideA {
		return n.nodes.NodeA
	}
	return n.nodes.NodeB
}

// The sides of the link.
const (
	sideA = 1
	sideB = 2
)

func (n *Networks) nodeAddress(side int) netip.Addr {
	if side == sideA {
		return n.nodes.AddressA
	}
	return n.nodes.AddressB
}

// Near returns the end on node a.
func (n *Networks) Near(network string) *End { return n.end(network, sideA, 0) }

// Far returns the ends on node b, one for each pod. For network host all are the node itself.
func (n *Networks) Far(network string, count int) []*End {
	ends := make([]*End, count)
	for i := range ends {
		ends[i] = n.end(network, sideB, i)
	}
	return ends
}

func (n *Networks) end(network string, side, number int) *End {
	end := &End{where: n.node(side), Address: n.nodeAddress(side), Interface: topology.PhysicalInterface, MTU: n.wanted.LinkMTU}
	if network == Host {
		return end
	}
	end.where = n.pods(side)[number]
	switch network {
	case TSN:
		end.Address, end.Interface = tsnAddress(side, number), topology.PodInterface
	case Link:
		end.Address, end.Interface = linkAddress(0, side), linkInterface(0, side)
	default:
		by := routedBy[network]
		end.Address, end.Interface, end.MTU = by.podAddress(side, number), by.device, by.mtu(n.wanted.LinkMTU)
		return end
	}
	end.MTU, end.Environment = n.wanted.LinkMTU-EncapsulationBytes, n.managed.environment(side, number)
	return end
}

// Dir is a folder for files of programs, which is removed with the networks.
func (n *Networks) Dir() string { return n.nodes.Dir }

// Daemons returns the ktsnd of both nodes by name; none if no network needs them.
func (n *Networks) Daemons() map[string]*process.Process {
	if n.managed == nil {
		return nil
	}
	return n.managed.daemons()
}

// Close removes everything.
func (n *Networks) Close(ctx context.Context) error {
	var err error
	if n.managed != nil {
		err = n.managed.close(context.WithoutCancel(ctx), n.node)
	}
	for _, pod := range slices.Backward(n.more) {
		err = errors.Join(err, pod.Destroy())
	}
	return errors.Join(err, n.nodes.Destroy())
}
