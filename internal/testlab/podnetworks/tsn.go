// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	cniVersion = "1.1.0"
	lockTime   = 10 * time.Second
)

// attachment is the attachment of a pod to network tsn.
type attachment struct {
	runtime *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	pod     *libcni.RuntimeConf
}

var tsnSubnet = map[int]netip.Prefix{sideA: topology.PodSubnetA, sideB: topology.PodSubnetB}

func tsnAddress(side, number int) netip.Addr {
	bytes := tsnSubnet[side].Addr().As4()
	bytes[3] = byte(number + 2)
	return netip.AddrFrom4(bytes)
}

// makeTSN attaches all pods by tsn-cni.
func (n *Networks) makeTSN(ctx context.Context) error {
	if err := n.manage(ctx); err != nil {
		return err
	}
	for number, side := range n.managed.sides {
		if err := n.addTSNPeer(ctx, number, side); err != nil {
			return err
		}
		for i, pod := range n.pods(number) {
			if err := n.attach(ctx, pod, number, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// addTSNPeer adds the other node's pods to a node.
func (n *Networks) addTSNPeer(ctx context.Context, number int, side *managedSide) error {
	other := sideA + sideB - number
	peer := control.Peer{VNI: topology.VNI, Address: n.nodeAddress(other), Subnets: []netip.Prefix{tsnSubnet[other]}}
	err := n.node(number).Do(func() error {
		node, err := overlay.Open(side.state(), lockTime)
		if err != nil {
			return err
		}
		defer node.Close()
		return node.PeerAdd(ctx, peer, side.ktsnd.client)
	})
	if err != nil {
		return fmt.Errorf("tell a node of the other: %w", err)
	}
	return nil
}

func (n *Networks) attach(ctx context.Context, pod *topology.Namespace, number, podNumber int) error {
	side := n.managed.sides[number]
	address := netip.PrefixFrom(tsnAddress(number, podNumber), topology.PodPrefixBits)
	list, err := cniruntime.List(cniVersion, TSN, map[string]any{
		"type": "tsn-cni", "vni": topology.VNI, "bridge": topology.BridgeName, "tunnel": topology.TunnelName, "port": topology.VXLANPort,
		"uplink": topology.PhysicalInterface, "localAddress": n.nodeAddress(number).String(), "stateDir": side.state(),
		"controlSocket": side.ktsnd.socket, "socketDir": filepath.Join(side.dir, "pods"),
		"ipam": map[string]any{"type": "static", "addresses": []map[string]string{{"address": address.String()}}},
	})
	if err != nil {
		return err
	}
	attached := attachment{
		runtime: cniruntime.New(n.node(number).Path(), []string{n.managed.programs}, filepath.Join(side.dir, "cache"), io.Discard),
		list:    list,
		pod:     &libcni.RuntimeConf{ContainerID: podID(number, podNumber), NetNS: pod.Path(), IfName: topology.PodInterface},
	}
	if _, err := attached.runtime.AddNetworkList(ctx, attached.list, attached.pod); err != nil {
		return fmt.Errorf("attach %s: %w", attached.pod.ContainerID, err)
	}
	side.attached = append(side.attached, attached)
	return nil
}

func (s *managedSide) detach(ctx context.Context) error {
	var err error
	for _, attached := range s.attached {
		err = errors.Join(err, attached.runtime.DelNetworkList(ctx, attached.list, attached.pod))
	}
	return err
}
