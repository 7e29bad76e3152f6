// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// change runs f with an existing node and the cluster's lock held.
func (c *Cluster) change(host string, f func(plan.Node) error) error {
	which, err := c.Node(host)
	if err != nil {
		return err
	}
	unlock, err := lock(c.Name, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	return f(which)
}

// StopNode switches a node off, as if its power failed: /run and memory are lost, files are not.
func (c *Cluster) StopNode(ctx context.Context, host string) error {
	return c.change(host, func(which plan.Node) error {
		if which == c.ControlPlane() {
			return fmt.Errorf("%s carries the control plane; stop another node, or take the cluster down", host)
		}
		return c.switchOff(ctx, host)
	})
}

// switchOff removes the traces of a running node, or of an interrupted start or stop. The cgroup goes first, with all
// its processes: runc would not return the real-time budget.
func (c *Cluster) switchOff(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, downPatience)
	defer cancel()
	place := c.Place(host)
	return errors.Join(cgroups.Remove(ctx, place.Cgroup), node.Delete(ctx, place), network.DeleteNode(ctx, c.Plan, host))
}

// StartNode switches on a node that is off, and reconnects one that was cut off.
func (c *Cluster) StartNode(ctx context.Context, host string) error {
	return c.change(host, func(which plan.Node) error {
		place := c.Place(host)
		if node.Status(ctx, place) == "running" {
			return network.SetConnected(ctx, c.Plan, which, true)
		}
		if err := c.switchOff(ctx, host); err != nil {
			return err
		}
		if err := network.CreateNode(ctx, c.Plan, which); err != nil {
			return err
		}
		return node.Start(ctx, place)
	})
}

// CutNode separates a node from the others and from this machine; it keeps running.
func (c *Cluster) CutNode(ctx context.Context, host string) error {
	return c.change(host, func(which plan.Node) error { return network.SetConnected(ctx, c.Plan, which, false) })
}

// AddService adds a service to a node, and returns when it runs.
func (c *Cluster) AddService(ctx context.Context, host string, service node.Service) error {
	return c.change(host, func(plan.Node) error {
		if err := service.Add(c.Root(host)); err != nil {
			return err
		}
		return kube.Wait(ctx, func(ctx context.Context) error {
			output, err := node.Output(ctx, c.Place(host), nil, "sv", "start", "/etc/service/"+service.Name)
			if err != nil {
				return fmt.Errorf("start %s: %w: %s", service.Name, err, strings.TrimSpace(output))
			}
			return nil
		})
	})
}

// RemoveService removes a service of a node. It is not an error if it does not exist.
func (c *Cluster) RemoveService(ctx context.Context, host, service string) error {
	return c.change(host, func(plan.Node) error {
		folder := filepath.Join(c.Root(host), "etc", "service", service)
		if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		wait := strconv.Itoa(int(serviceGrace.Seconds()))
		// sv fails if it had to kill, or if nothing was started yet: check whether the service runs instead.
		_, err := node.Output(ctx, c.Place(host), nil, "sv", "-w", wait, "force-stop", "/etc/service/"+service)
		status, _ := node.Output(ctx, c.Place(host), nil, "sv", "status", "/etc/service/"+service)
		if strings.HasPrefix(status, "run:") {
			return fmt.Errorf("end %s: %w: %s", service, err, strings.TrimSpace(status))
		}
		return os.RemoveAll(folder)
	})
}

// serviceGrace is how long a service may take to end before it is killed, and then to run again.
const serviceGrace = 20 * time.Second

// RestartService restarts a service of a node, and waits until it runs.
func (c *Cluster) RestartService(ctx context.Context, host, service string) error {
	return c.change(host, func(plan.Node) error {
		if _, err := os.Stat(c.Root(host) + "/etc/service/" + service); err != nil {
			return fmt.Errorf("%s has no service %q", host, service)
		}
		wait := strconv.Itoa(int(serviceGrace.Seconds()))
		// sv fails if it had to kill: check whether the service runs instead.
		_, killed := node.Output(ctx, c.Place(host), nil, "sv", "-w", wait, "force-restart", "/etc/service/"+service)
		if killed == nil {
			return nil
		}
		output, err := node.Output(ctx, c.Place(host), nil, "sv", "-w", wait, "start", "/etc/service/"+service)
		if err != nil {
			return fmt.Errorf("restart %s: %w: %s", service, errors.Join(killed, err), strings.TrimSpace(output))
		}
		return nil
	})
}
