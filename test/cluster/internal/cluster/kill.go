// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// KillServices kills all services of a node at once, and none is restarted. Files stay, including those in memory, and
// so does the network: as when programs run out of memory together.
func (c *Cluster) KillServices(ctx context.Context, host string) error {
	return c.allServices(ctx, host, "once", "kill")
}

// StartServices starts the services of a node that do not run.
func (c *Cluster) StartServices(ctx context.Context, host string) error {
	return c.allServices(ctx, host, "up")
}

// allServices applies runit commands to all services of a node.
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
