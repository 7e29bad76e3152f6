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

// The networks.
const (
	Host          = "host"
	Flannel       = "flannel"
	FlannelHostGW = "flannel-host-gw"
	TSN           = "tsn"
	Link          = "link"
)

// All are the networks there are.
var All = []string{Host, Flannel, FlannelHostGW, TSN, Link}

// The MTU of the link between the nodes, and how many pods node b can have.
const (
	MinMTU  = 1500
	MaxMTU  = 9000
	MaxPods = 31
)

// EncapsulationBytes is what VXLAN takes of the link's MTU.
const EncapsulationBytes = 50

// Wanted is what to make.
type Wanted struct {
	Networks []string
	// LinkMTU is that of the link between the nodes.
	LinkMTU int
	// Routed puts a router between the nodes, which are in two subnets then, as those of two clusters.
	Routed bool
	// Pods are on node b.
	Pods int
	// Programs is the folder of ktsnd, libktsn.so, tsn-cni and static, for networks tsn and link.
	Programs string
}

// End is where a program runs in order to be at one end of a network.
type End struct {
	Address netip.Addr
	// Interface is the network's there, and MTU its.
	Interface string
	MTU       int
	// Environment is what programs there have besides.
	Environment []string
	where       *topology.Namespace
}

// Do calls a function on a thread that is in the end's namespace.
func (e *End) Do(call func() error) error { return e.where.Do(call) }

// Namespace is what programs are started in.
func (e *End) Namespace() process.Starter { return e.where }

// Networks are made, and removed by Close.
type Networks struct {
	wanted Wanted
	nodes  *topology.Topology
	// more are the pods of node b but its first.
	more []*topology.Namespace
	// managed is nil where no network needs it.
	managed *managed
}

// Create makes the networks, or leaves nothing behind.
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

// setMTU sets that of the link between the nodes.
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
		if err := pod.Do(func() error { return setUp("lo") }); err != nil {
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

// pods are those of a side, from 1.
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

// Near is the end on node a.
func (n *Networks) Near(network string) *End { return n.end(network, sideA, 0) }

// Far are the ends on node b: one for each pod, of which those of network host are all the node itself.
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

// Dir is a folder for files of programs, which goes away with the networks.
func (n *Networks) Dir() string { return n.nodes.Dir }

// Daemons are the ktsnd of both nodes by what to call them; none where no network needs them.
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
