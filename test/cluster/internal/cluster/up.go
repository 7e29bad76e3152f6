// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// progress prints lines with the time since the start. It can be called from any goroutine.
type progress struct {
	mu    sync.Mutex
	to    io.Writer
	began time.Time
}

func (p *progress) say(format string, arguments ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, "%6.1f s  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, arguments...))
}

// start is one start of a cluster.
type start struct {
	*Cluster
	options Options
	built   *components.Built
	say     func(format string, arguments ...any)
}

// Up creates a cluster and waits until it is ready. A running cluster is left as it is; the traces of an interrupted
// start are removed first.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	p, err := newPlan(options)
	if err != nil {
		return nil, err
	}
	if err := checkMachine(); err != nil {
		return nil, err
	}
	unlock, err := lock(p.Name, p.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c := &Cluster{p}
	existing, err := c.existing(ctx, options)
	if existing != nil || err != nil {
		return existing, err
	}
	report := &progress{to: options.Progress, began: time.Now()}
	removeDead(ctx, p.Name, options.Dir, report.say)
	s := &start{Cluster: c, options: options, say: report.say}
	// The subnet is checked twice, because building may take long: early to report a conflict, and late to be sure.
	for _, prepare := range []func(context.Context) error{s.chooseSubnet, s.build, s.chooseSubnet} {
		if err := prepare(ctx); err != nil {
			_ = os.Remove(c.Dir)               // nothing is in it yet
			_ = os.Remove(filepath.Dir(c.Dir)) // fails while there are other clusters
			return nil, err
		}
	}
	report.began = time.Now()
	if err := s.bringUp(ctx); err != nil {
		return nil, fmt.Errorf("start cluster %s: %w", c.Name, err)
	}
	report.say("cluster %s is up", c.Name)
	return c, nil
}

func newPlan(options Options) (*plan.Plan, error) {
	if options.Hub {
		return plan.NewHub(options.Name, options.Dir, options.Subnet)
	}
	return plan.New(options.Name, options.Dir, options.Nodes, options.Subnet)
}

// existing returns the cluster if it is up, and removes the traces of one that is not.
func (c *Cluster) existing(ctx context.Context, options Options) (*Cluster, error) {
	opened, err := Open(c.Name, options.Dir)
	if errors.Is(err, plan.ErrNone) {
		// A start that was killed before its plan was saved has created nothing, but one with another --dir may have.
		if left := network.Left(c.Plan); len(left) > 0 {
			return nil, fmt.Errorf("parts of a cluster %s exist that do not belong to %s: %v; is it up with another --dir?",
				c.Name, options.Dir, left)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !opened.Ready() {
		fmt.Fprintf(options.Progress, "removing what an unfinished start of cluster %s left\n", c.Name)
		return nil, opened.removeKeepingLock(ctx)
	}
	if opened.Hub != options.Hub {
		return nil, fmt.Errorf("there is a cluster or a hub of the name %s already; take it down first, or give this one another --name", c.Name)
	}
	if len(opened.Nodes) != len(c.Nodes) || (options.Subnet.IsValid() && opened.Subnet != options.Subnet) {
		return nil, fmt.Errorf("cluster %s is up with %d nodes in %s; take it down first, or give this one another --name",
			c.Name, len(opened.Nodes), opened.Subnet)
	}
	fmt.Fprintf(options.Progress, "cluster %s is up already\n", c.Name)
	return opened, nil
}

// removeKeepingLock removes everything but the folder, which carries the lock.
func (c *Cluster) removeKeepingLock(ctx context.Context) error {
	// The plan goes last, as the folder does otherwise.
	if err := c.removeThings(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := removeAll(filepath.Join(c.Dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *start) build(ctx context.Context) error {
	s.options.Builder.Log = s.say
	build := s.options.Builder.Build
	if s.Hub {
		build = s.options.Builder.BuildHub
	}
	built, err := build(ctx)
	s.built = built
	return err
}

func (s *start) bringUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if err := s.Save(); err != nil {
		return err
	}
	err := s.makeNodes(ctx)
	if err == nil {
		s.say("nodes are running")
		complete := s.startKubernetes
		if s.Hub {
			complete = s.startHub
		}
		if err = complete(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			err = errors.Join(err, s.Explain())
		}
	}
	switch {
	case err == nil:
		return os.WriteFile(filepath.Join(s.Dir, readyFile), nil, 0o600)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("interrupted; `ktsn-cluster --name %s down` removes what there is, and `up` starts again", s.Name)
	case ctx.Err() != nil:
		return errors.Join(fmt.Errorf("not ready after %v", s.options.Timeout), err)
	}
	return err
}

// subnetTries exceeds the number of clusters on a machine.
const subnetTries = 16

// chooseSubnet takes the next free subnet, unless the caller chose one.
func (s *start) chooseSubnet(context.Context) error {
	for range subnetTries {
		err := network.CheckFree(s.Plan)
		if err == nil || s.options.Subnet.IsValid() {
			return err
		}
		s.NextSubnet()
	}
	return network.CheckFree(s.Plan)
}

// startKubernetes waits for the control plane and applies the system's manifests.
func (s *start) startKubernetes(ctx context.Context) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	config, err := s.Config()
	if err != nil {
		return err
	}
	// Images first: a pod that is created before its image waits long for the next try.
	group, groupCtx := errgroup.WithContext(ctx)
	for _, host := range s.Nodes {
		group.Go(func() error { return s.loadImages(groupCtx, host) })
	}
	group.Go(func() error {
		if err := kube.Wait(groupCtx, kube.ControlPlaneReady(client)); err != nil {
			return err
		}
		s.say("the control plane is ready")
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	applier, err := kube.NewApplier(config)
	if err != nil {
		return err
	}
	if err := applier.ApplySystem(ctx, components.Tag); err != nil {
		return err
	}
	s.say("images are loaded, manifests are applied")
	for _, host := range s.Nodes {
		if err := s.configurePodNetwork(ctx, client, host); err != nil {
			return err
		}
	}
	if err := kube.Wait(ctx, kube.NodesReady(client, len(s.Nodes))); err != nil {
		return err
	}
	s.say("nodes are ready")
	return kube.Wait(ctx, kube.SystemReady(client, len(s.Nodes)))
}

// configurePodNetwork configures the first pod network in a node's container runtime, once the node has its address
// range.
func (s *start) configurePodNetwork(ctx context.Context, client kubernetes.Interface, host plan.Node) error {
	var text []byte
	err := kube.Wait(ctx, func(ctx context.Context) error {
		var err error
		text, err = kube.PodNetwork(ctx, client, host.Name)
		return err
	})
	if err != nil {
		return err
	}
	file := filepath.Join(s.Root(host.Name), kube.PodNetworkFile)
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return fmt.Errorf("configure the network of pods on %s: %w", host.Name, err)
	}
	return os.Rename(file+".new", file)
}

func (s *start) loadImages(ctx context.Context, host plan.Node) error {
	err := kube.Wait(ctx, func(ctx context.Context) error {
		_, err := node.Output(ctx, s.Place(host.Name), nil, "ctr", "--connect-timeout=1s", "version")
		return err
	})
	if err != nil {
		return err
	}
	for _, archive := range s.built.Images {
		if err := s.load(ctx, archive, host.Name); err != nil {
			return err
		}
	}
	return nil
}
