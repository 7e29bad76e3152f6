// SPDX-License-Identifier: Apache-2.0

package netnstestbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/kubernetsn/kubernetsn/internal/bench/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/bench/process"
	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	cniVersion = "1.1.0"
	lockTime   = 10 * time.Second
)

// tsn is the network of tsn-cni, with a ktsnd on each node.
type tsn struct {
	library string
	sides   map[int]*tsnSide
}

type tsnSide struct {
	ktsnd   *ktsnd
	runtime *libcni.CNIConfig
	dir     string
	// attached are the pods that are to be detached.
	attached []attachment
}

type attachment struct {
	list *libcni.NetworkConfigList
	pod  *libcni.RuntimeConf
}

var tsnSubnet = map[int]netip.Prefix{sideA: topology.PodSubnetA, sideB: topology.PodSubnetB}

func tsnAddress(side, number int) netip.Addr {
	bytes := tsnSubnet[side].Addr().As4()
	bytes[3] = byte(number + 2)
	return netip.AddrFrom4(bytes)
}

// Programs that network tsn needs.
var tsnPrograms = append([]string{"ktsnd", "libktsn.so"}, cniruntime.Plugins...)

// CheckPrograms says how to make what network tsn needs and is missing.
func CheckPrograms(dir string) error {
	for _, name := range tsnPrograms {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s is missing; run `make build`, or name its folder with --bin-dir", filepath.Join(dir, name))
		}
	}
	return nil
}

func (n *Networks) makeTSN(ctx context.Context) (_ *tsn, err error) {
	programs, err := filepath.Abs(n.wanted.Programs)
	if err != nil {
		return nil, err
	}
	if err := CheckPrograms(programs); err != nil {
		return nil, err
	}
	t := &tsn{library: filepath.Join(programs, "libktsn.so"), sides: map[int]*tsnSide{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(context.WithoutCancel(ctx)))
		}
	}()
	for _, side := range []int{sideA, sideB} {
		if t.sides[side], err = n.startSide(ctx, side, programs); err != nil {
			return nil, err
		}
		for number, pod := range n.pods(side) {
			if err := t.sides[side].attach(ctx, pod, side, number); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (n *Networks) startSide(ctx context.Context, side int, programs string) (*tsnSide, error) {
	s := &tsnSide{dir: filepath.Join(n.nodes.Dir, "node-"+strconv.Itoa(side))}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	s.runtime = cniruntime.New(n.node(side).Path(), []string{programs}, filepath.Join(s.dir, "cache"), io.Discard)
	var err error
	s.ktsnd, err = startKtsnd(ctx, n.node(side), filepath.Join(programs, "ktsnd"), nodeAddress[side].String(), filepath.Join(s.dir, "control.sock"))
	if err != nil {
		return nil, err
	}
	other := sideA + sideB - side
	peer := control.Peer{VNI: topology.VNI, Address: nodeAddress[other], Subnets: []netip.Prefix{tsnSubnet[other]}}
	err = n.node(side).Do(func() error {
		node, err := overlay.Open(s.state(), lockTime)
		if err != nil {
			return err
		}
		defer node.Close()
		return node.PeerAdd(ctx, peer, s.ktsnd.client)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tell a node of the other: %w", err), s.ktsnd.stop())
	}
	return s, nil
}

func (s *tsnSide) state() string { return filepath.Join(s.dir, "state") }

func podID(side, number int) string {
	return fmt.Sprintf("pod-%d-%d", side, number+1)
}

func (s *tsnSide) attach(ctx context.Context, pod *topology.Namespace, side, number int) error {
	address := netip.PrefixFrom(tsnAddress(side, number), topology.PodPrefixBits)
	list, err := cniruntime.List(cniVersion, TSN, map[string]any{
		"type": "tsn-cni", "vni": topology.VNI, "bridge": topology.BridgeName, "tunnel": topology.TunnelName, "port": topology.VXLANPort,
		"uplink": topology.PhysicalInterface, "localAddress": nodeAddress[side].String(), "stateDir": s.state(),
		"controlSocket": s.ktsnd.socket, "socketDir": filepath.Join(s.dir, "pods"),
		"ipam": map[string]any{"type": "static", "addresses": []map[string]string{{"address": address.String()}}},
	})
	if err != nil {
		return err
	}
	one := attachment{list, &libcni.RuntimeConf{ContainerID: podID(side, number), NetNS: pod.Path(), IfName: topology.PodInterface}}
	if _, err := s.runtime.AddNetworkList(ctx, one.list, one.pod); err != nil {
		return fmt.Errorf("attach %s: %w", one.pod.ContainerID, err)
	}
	s.attached = append(s.attached, one)
	return nil
}

// environment has libktsn preloaded, and its pod's socket.
func (t *tsn) environment(side, number int) []string {
	return []string{"LD_PRELOAD=" + t.library, "KTSN_SOCKET=" + filepath.Join(t.sides[side].dir, "pods", podID(side, number), "app.sock")}
}

func (t *tsn) daemons() map[string]*process.Process {
	return map[string]*process.Process{"ktsnd_a": t.sides[sideA].ktsnd.process, "ktsnd_b": t.sides[sideB].ktsnd.process}
}

func (t *tsn) close(ctx context.Context) error {
	var err error
	for _, side := range t.sides {
		if side == nil {
			continue
		}
		for _, one := range side.attached {
			err = errors.Join(err, side.runtime.DelNetworkList(ctx, one.list, one.pod))
		}
		err = errors.Join(err, side.ktsnd.stop())
	}
	return err
}
