// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// Freeze stops all processes of a node: it exists and answers nothing. Its network keeps working.
func (c *Cluster) Freeze(host string) error { return c.signal(host, syscall.SIGSTOP) }

// Thaw continues a frozen node.
func (c *Cluster) Thaw(host string) error { return c.signal(host, syscall.SIGCONT) }

// signal signals all processes of a node, including those that start meanwhile.
func (c *Cluster) signal(host string, signal syscall.Signal) error {
	return c.change(host, func(plan.Node) error {
		var reached []int
		for {
			pids, err := cgroups.Processes(c.Place(host).Cgroup)
			if err != nil {
				return err
			}
			fresh := slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(reached, pid) })
			if len(fresh) == 0 {
				return nil
			}
			for _, pid := range fresh {
				if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("signal process %d of %s: %w", pid, host, err)
				}
			}
			reached = append(reached, fresh...)
		}
	})
}
