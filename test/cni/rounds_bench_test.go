// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// roundPods is the number of pods on a node at which the cost of the agent's rounds is measured.
const roundPods = 100

// round is something that the agent does periodically.
type round struct {
	name  string
	every time.Duration
	do    func() error
}

// BenchmarkAgentRounds measures the processor time of one round of each kind with 100 pods at rest, which each have an eth0 too, and the
// share of a core that it takes at the agent's interval.
func BenchmarkAgentRounds(b *testing.B) {
	for _, capture := range []string{"None", "Timed"} {
		b.Run("capture="+capture, func(b *testing.B) {
			lab := newLab(b)
			lab.a.startDaemon(b)
			lab.a.populateForRounds(b, roundPods, fields{"capture": capture})
			for _, r := range lab.a.rounds(b) {
				b.Run(r.name, func(b *testing.B) { lab.a.benchmarkRound(b, r) })
			}
		})
	}
}

// benchmarkRound reports the processor time of one round, and its share of a core.
func (n *node) benchmarkRound(b *testing.B, r round) {
	b.Helper()
	must(b, n.Do(func() error {
		if err := r.do(); err != nil { // the first round reads what later ones know
			return err
		}
		before := processorOfSelf(b)
		rounds := 0
		for b.Loop() {
			if err := r.do(); err != nil {
				return err
			}
			rounds++
		}
		each := (processorOfSelf(b) - before) / time.Duration(rounds)
		b.ReportMetric(each.Seconds()*1e3, "cpu-ms/round")
		b.ReportMetric(each.Seconds()/r.every.Seconds(), "cores")
		return nil
	}))
}

// rounds returns the agent's periodic work that depends on the number of pods.
func (n *node) rounds(b *testing.B) []round {
	b.Helper()
	state := filepath.Join(n.dir, "state")
	guards := &attachment.GuardRound{StateDir: state}
	changes, sandboxes := &attachment.Changes{StateDir: state}, &attachment.SandboxList{StateDir: state}
	host := &hostcheck.Watcher{Node: hostcheck.Node{Files: os.DirFS("/")}, Networks: func() ([]hostcheck.Network, error) {
		node, err := attachment.OpenNode(state, patience)
		if err != nil {
			return nil, err
		}
		defer node.Close()
		return hostcheck.Networks(node, state)
	}}
	ctx := context.Background()
	return []round{
		{"filters", 10 * time.Second, func() error {
			all, err := guards.Run()
			if err == nil && len(all) < roundPods {
				err = fmt.Errorf("%d interfaces have filters", len(all))
			}
			return err
		}},
		{"devices", 30 * time.Second, func() error {
			node, err := attachment.OpenNode(state, patience)
			if err != nil {
				return err
			}
			defer node.Close()
			_, _, err = attachment.Repair(ctx, state, node, n.client, nil)
			return err
		}},
		{"list", 30 * time.Second, func() error {
			node, err := overlay.Open(state, patience)
			if err != nil {
				return err
			}
			defer node.Close()
			_, err = attachment.List(state, node)
			return err
		}},
		{"host", 30 * time.Second, func() error {
			_, err := host.Check()
			return err
		}},
		{"relayed", 5 * time.Second, func() error {
			_, err := attachment.Relayed(state)
			return err
		}},
		{"ktsnd", 5 * time.Second, func() error {
			_, errStatus := n.client.Status(ctx)
			_, errPods := n.client.Pods(ctx)
			_, err := n.client.Flows(ctx)
			return firstOf(errStatus, errPods, err)
		}},
		{"changes", 500 * time.Millisecond, func() error {
			changes.Any()
			return nil
		}},
		{"sandboxes", 50 * time.Millisecond, func() error {
			_, err := sandboxes.Refresh()
			return err
		}},
		{"idle-prober", time.Second, func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return (&linkprobe.Prober{Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		}},
	}
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// populateForRounds attaches pods with another interface, as Kubernetes has them.
func (n *node) populateForRounds(b *testing.B, count int, changes fields) {
	b.Helper()
	configs, spaces := list(b, n.config(changes)), namespaces(b, count)
	far, err := os.Open(n.Path())
	must(b, err)
	defer far.Close()
	inParallel(b, count, func(i int) error {
		err := spaces[i].Do(func(ns.NetNS) error {
			attributes := netlink.NewLinkAttrs()
			attributes.Name = "eth0"
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: fmt.Sprint("veth", i), PeerNamespace: netlink.NsFd(int(far.Fd()))})
		})
		if err != nil {
			return err
		}
		at := &libcni.RuntimeConf{ContainerID: fmt.Sprintf("resident-%d", i), NetNS: spaces[i].Path(), IfName: podIf, Args: [][2]string{
			{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", fmt.Sprint("pod-", i)}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_UID", fmt.Sprint("uid-", i)},
		}}
		_, err = n.runtime.AddNetworkList(context.Background(), configs, at)
		return err
	})
}
