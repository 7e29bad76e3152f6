// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// removeDead removes clusters without processes: the program that would have taken them down was killed with them.
// Their cgroups hold real-time budget, and their networks addresses, that others need. A cluster that is being created
// or removed is locked, and skipped. Failures are logged only; they do not keep another cluster from starting.
func removeDead(ctx context.Context, except, dir string, say func(format string, arguments ...any)) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there are none
	}
	for _, entry := range entries {
		if entry.Name() == except {
			continue
		}
		if p, err := plan.Open(entry.Name(), dir); err == nil && isDead(p) {
			removeIfDead(ctx, &Cluster{p}, say)
		}
	}
}

func isDead(p *plan.Plan) bool {
	pids, err := cgroups.Processes(p.Cgroup())
	return err == nil && len(pids) == 0
}

// removeIfDead checks again once it has the lock: a start may have ended meanwhile.
func removeIfDead(ctx context.Context, c *Cluster, say func(format string, arguments ...any)) {
	unlock, err := lock(c.Name, c.Dir)
	if err != nil {
		return // somebody is at it
	}
	defer unlock()
	if !isDead(c.Plan) {
		return
	}
	if err := c.remove(ctx); err != nil {
		say("nothing runs of cluster %s any more, but it cannot be removed: %v", c.Name, err)
		return
	}
	say("removed cluster %s, of which nothing ran any more", c.Name)
}
