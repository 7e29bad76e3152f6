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

// DefaultDir is where clusters keep their files.
const DefaultDir = "/var/lib/ktsn-cluster"

// Options are what a caller chooses.
type Options struct {
	Name string
	// Dir holds the folders of all clusters.
	Dir string
	// Hub asks for the hub of a federation, which has no nodes.
	Hub    bool
	Nodes  int
	Subnet netip.Prefix
	// Builder makes what a cluster consists of.
	Builder *components.Builder
	// RealtimeBudgets are what the nodes' cgroups may use for real-time threads, in microseconds of each second, the first node's
	// first; nodes beyond them have the last. 0: nothing.
	RealtimeBudgets []int
	// Timeout bounds a start, without the building.
	Timeout time.Duration
	// Progress is told what happens.
	Progress io.Writer
}

// Cluster is an existing one.
type Cluster struct {
	*plan.Plan
}

// Open finds a cluster by name.
func Open(name, dir string) (*Cluster, error) {
	p, err := plan.Open(name, dir)
	if err != nil {
		return nil, err
	}
	return &Cluster{p}, nil
}

// Place says where a node stands.
func (c *Cluster) Place(host string) node.Place {
	return node.Place{
		Host:      host,
		Dir:       c.NodeDir(host),
		Runc:      filepath.Join(c.Dir, "runc"),
		Namespace: network.Path(c.Namespace(host)),
		Cgroup:    filepath.Join(c.Cgroup(), host),
	}
}

// Config is how an administrator's client reaches the API server.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", c.Name, err)
	}
	// A test machine's only client may ask as fast as it likes.
	config.QPS, config.Burst = 200, 400
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// Client is an administrator's client.
func (c *Cluster) Client() (kubernetes.Interface, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// readyFile says that the last start was completed.
const readyFile = "ready"

// Ready tells whether the last start was completed.
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

// errBusy says that another program works on the cluster.
var errBusy = errors.New("another ktsn-cluster is at work on it; wait for that one or end it")
