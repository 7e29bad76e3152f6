// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// DefaultDir is the default folder of all clusters' files.
const DefaultDir = "/var/lib/ktsn-cluster"

// Options are the caller's choices.
type Options struct {
	Name string
	// Dir holds the folders of all clusters.
	Dir string
	// Hub asks for the hub of a federation, which has no nodes.
	Hub    bool
	Nodes  int
	Subnet netip.Prefix
	// Builder builds the parts of a cluster.
	Builder *components.Builder
	// RealtimeBudgets are the nodes' shares of real-time processor time, in microseconds per second, the first node's
	// first. Further nodes get the last value. 0: none.
	RealtimeBudgets []int
	// Timeout bounds a start, without the building.
	Timeout time.Duration
	// Progress receives a line for each step.
	Progress io.Writer
}

// Cluster is an existing cluster.
type Cluster struct {
	*plan.Plan
}

// Open opens a cluster by name.
func Open(name, dir string) (*Cluster, error) {
	p, err := plan.Open(name, dir)
	if err != nil {
		return nil, err
	}
	return &Cluster{p}, nil
}

// Place returns the paths and cgroup of a node.
func (c *Cluster) Place(host string) node.Place {
	return node.Place{
		Host:      host,
		Dir:       c.NodeDir(host),
		Runc:      filepath.Join(c.Dir, "runc"),
		Namespace: network.Path(c.Namespace(host)),
		Cgroup:    filepath.Join(c.Cgroup(), host),
	}
}

// Config returns an administrator's client configuration.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", c.Name, err)
	}
	// Do not throttle a test machine's only client.
	config.QPS, config.Burst = 200, 400
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// Client returns an administrator's client.
func (c *Cluster) Client() (kubernetes.Interface, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// readyFile exists if the last start was completed.
const readyFile = "ready"

// Ready reports whether the last start was completed.
func (c *Cluster) Ready() bool {
	_, err := os.Stat(filepath.Join(c.Dir, readyFile))
	return err == nil
}

// Load imports an archive of images into the nodes.
func (c *Cluster) Load(ctx context.Context, archive string, hosts ...plan.Node) error {
	for _, host := range hosts {
		if err := c.load(ctx, archive, host.Name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) load(ctx context.Context, archive, host string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("load image: %w", err)
	}
	defer file.Close()
	_, err = node.Output(ctx, c.Place(host), file, "ctr", "--namespace=k8s.io", "images", "import", "-")
	if err != nil {
		return fmt.Errorf("load image %s: %w", filepath.Base(archive), err)
	}
	return nil
}

// errBusy means that another program is changing the cluster.
var errBusy = errors.New("another ktsn-cluster is at work on it; wait for that one or end it")
