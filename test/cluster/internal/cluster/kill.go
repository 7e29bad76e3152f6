// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// KillServices ends all services of a node at once, without warning, and none is started again. Files stay, also those in memory, and the
// network goes on: so programs end that ran out of memory together.
func (c *Cluster) KillServices(ctx context.Context, host string) error {
	return c.allServices(ctx, host, "once", "kill")
}

// StartServices starts the services of a node that do not run.
func (c *Cluster) StartServices(ctx context.Context, host string) error {
	return c.allServices(ctx, host, "up")
}

// allServices gives commands of runit to all services of a node.
func (c *Cluster) allServices(ctx context.Context, host string, commands ...string) error {
	return c.change(host, func(plan.Node) error {
		for _, command := range commands {
			if _, err := node.Output(ctx, c.Place(host), nil, "sh", "-c", "exec sv "+command+" /etc/service/*"); err != nil {
				return fmt.Errorf("%s the services of %s: %w", command, host, err)
			}
		}
		return nil
	})
}
