// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/devices"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/cni"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// partDevices reports faults of single networks only, so that it is none of the parts that make the agent ready.
const partDevices = "devices"

// repairedInterval is the least time between two Events about repairs. The log has all of them.
const repairedInterval = time.Minute

// addDevices adds the part that repairs devices of the node's networks.
func addDevices(c *core, host *install.Node) error {
	events := c.manager.GetEventRecorderFor("ktsn-agent")
	node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: c.Node, UID: types.UID(c.Node)}
	var reported time.Time
	r := &devices.Repairer{
		Repair: func(ctx context.Context) ([]string, map[uint32]error, error) { return c.repairDevices(ctx, host) }, Watch: devices.Watch, Log: c.log.With("part", partNetworks),
		Report: func(faults map[uint32]error) { c.reportFaults(partDevices, faults) },
		Repaired: func(what []string) {
			if time.Since(reported) < repairedInterval {
				return
			}
			reported = time.Now()
			events.Event(node, corev1.EventTypeWarning, v1alpha1.ReasonTSNNodeRepaired, "another program changed devices of networks: "+strings.Join(what, "; "))
		},
	}
	if c.NoChecksumOffload {
		if err := c.manager.Add(manager.RunnableFunc(func(ctx context.Context) error { return devices.DisableChecksumOffload(ctx, r.Log) })); err != nil {
			return err
		}
	}
	return c.manager.Add(manager.RunnableFunc(r.Run))
}

func (c *core) repairDevices(ctx context.Context, host *install.Node) (repaired []string, faults map[uint32]error, err error) {
	networks, err := c.configuredNetworks(host)
	if err != nil {
		return nil, nil, err
	}
	node, err := attachment.OpenNode(c.StateDir, daemon.LockTimeout)
	if err != nil {
		return nil, nil, err
	}
	defer node.Close()
	answered := false
	err = c.ktsnd.Do(ctx, func(ctx context.Context, client *control.Client) (err error) {
		answered = true
		repaired, faults, err = attachment.Repair(ctx, c.StateDir, node, client, networks)
		return err
	})
	if !answered {
		return attachment.Repair(ctx, c.StateDir, node, nil, networks)
	}
	return repaired, faults, err
}

// configuredNetworks returns the networks of the configurations that this agent wrote, by name.
func (c *core) configuredNetworks(host *install.Node) (map[string]overlay.Network, error) {
	paths, err := host.Installed()
	if err != nil {
		return nil, err
	}
	networks := map[string]overlay.Network{}
	for _, path := range paths {
		if filepath.Dir(path) != c.ConfDir {
			continue
		}
		text, err := os.ReadFile(filepath.Join(c.Host, path))
		if err != nil {
			return nil, fmt.Errorf("read the configuration of a network: %w", err)
		}
		config, err := cni.ParseConfig(text)
		if err != nil {
			return nil, fmt.Errorf("configuration %s: %w", path, err)
		}
		networks[config.Network] = config.Overlay
	}
	return networks, nil
}

// networkFaults holds why single networks of the node do not work, by the part that reports it and VNI.
type networkFaults struct {
	mu     sync.Mutex
	byPart map[string]map[uint32]error
}

// set replaces the faults of a part, and reports whether they differ from those before.
func (f *networkFaults) set(part string, faults map[uint32]error) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byPart == nil {
		f.byPart = map[string]map[uint32]error{}
	}
	changed = fmt.Sprint(f.byPart[part]) != fmt.Sprint(faults)
	f.byPart[part] = faults
	return changed
}

// of returns the faults of a network, nil if there are none.
func (f *networkFaults) of(vni uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.byPart[partDevices][vni], f.byPart[partKtsnd][vni])
}

// reportFaults takes the faults of a part, and triggers a report if they have changed.
func (c *core) reportFaults(part string, faults map[uint32]error) {
	if c.faults.set(part, faults) {
		for vni, err := range faults {
			c.log.Warn("a network does not work", "part", part, "vni", vni, "error", err)
		}
		c.queue.wake(concernSchedule)
	}
}
