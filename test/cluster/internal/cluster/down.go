// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// downPatience bounds how long killed processes may take to disappear.
const downPatience = 60 * time.Second

// Down removes a cluster completely. It is not an error if the cluster, or part of it, does not exist.
func Down(ctx context.Context, name, dir string) error {
	c, err := find(name, dir)
	if err != nil {
		return err
	}
	unlock, err := lock(name, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	return c.remove(ctx)
}

// find returns the saved plan, or the one that follows from the name if a start was killed before it was saved.
func find(name, dir string) (*Cluster, error) {
	c, err := Open(name, dir)
	if !errors.Is(err, plan.ErrNone) {
		return c, err
	}
	p, err := plan.New(name, dir, 1, netip.Prefix{})
	if err != nil {
		return nil, err
	}
	return &Cluster{p}, nil
}

// remove is Down, with the lock held.
func (c *Cluster) remove(ctx context.Context) error {
	if err := c.removeThings(ctx); err != nil {
		return err
	}
	if err := removeAll(c.Dir); err != nil {
		return fmt.Errorf("take cluster %s down: %w", c.Name, err)
	}
	_ = os.Remove(filepath.Dir(c.Dir)) // fails while there are other clusters
	return nil
}

// removeThings removes everything but files.
func (c *Cluster) removeThings(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, downPatience)
	defer cancel()
	// From now on the cluster is not completely started.
	if err := os.Remove(filepath.Join(c.Dir, readyFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take cluster %s down: %w", c.Name, err)
	}
	// runc does not know cgroups of a start that was killed.
	problems := cgroups.Remove(ctx, c.Cgroup())
	for _, host := range c.Nodes {
		problems = errors.Join(problems, node.Delete(ctx, c.Place(host.Name)))
	}
	problems = errors.Join(problems, network.Delete(ctx, c.Plan), c.GiveHugepagesBack())
	if problems != nil {
		return fmt.Errorf("take cluster %s down: %w", c.Name, problems)
	}
	return nil
}

// removeAll removes a folder, but nothing that is mounted in it. runc mounts in its own mount namespaces, so nothing
// should be; if something is, it must not be deleted.
func removeAll(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(mounts[i], unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", mounts[i], err)
		}
	}
	return os.RemoveAll(dir)
}
