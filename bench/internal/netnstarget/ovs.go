// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// OVSMissing returns why Open vSwitch cannot be used on this machine, nil if it can. It undoes its attempt.
func OVSMissing(ctx context.Context) error {
	if _, err := ovsnode.Program(); err != nil {
		return err
	}
	nodes, err := topology.Create(ctx)
	if err != nil {
		return err
	}
	_, err = nodes.ReserveHugepages(ovsnode.Pages)
	return errors.Join(err, nodes.Destroy())
}

// VLANMissing returns why frames with a VLAN tag cannot be received on this machine, nil if they can. It undoes its
// attempt.
func VLANMissing(ctx context.Context) error {
	nodes, err := topology.Create(ctx)
	if err != nil {
		return err
	}
	return errors.Join(nodes.TakeTags(), nodes.Destroy())
}

// enterOVS starts an Open vSwitch on node a and connects the pod's network to it.
func (l *Target) enterOVS(ctx context.Context, setting engine.Setting) (err error) {
	if l.ovs, err = ovsnode.Start(ctx, l.nodes); err != nil {
		return err
	}
	plan := l.ovs.Plan()
	plan.PMDMaxSleep = setting.PMDMaxSleep
	if l.pinning.polling != traffic.NotPinned {
		plan.PMDCPUs = []int{l.pinning.polling}
	}
	if err := l.ovs.Setup(ctx, plan); err != nil {
		return err
	}
	l.wiring.A.Through(ovs.BridgePhysical, overlay.TunnelName(topology.VNI))
	warning := fmt.Sprintf("path ovs: Open vSwitch polls on processor %d; the listener is on processor %d", l.pinning.polling, l.listenerCPU())
	if l.pinning.polling == l.pinning.listener && !slices.Contains(l.environment.Warnings, warning) {
		l.environment.Warnings = append(l.environment.Warnings, warning)
	}
	return nil
}

// awaitOVS waits until Open vSwitch fetches ktsnd's frames, if it does.
func (l *Target) awaitOVS(ctx context.Context) error {
	if l.ovs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return retry.Until(ctx, readyPoll, func() error {
		status, err := l.ovs.Status(ctx)
		if err != nil {
			return err
		}
		if problems := status.Problems(); len(problems) > 0 {
			return errors.New(problems[0])
		}
		return nil
	})
}

// leaveOVS removes it, so that a later setting starts again.
func (l *Target) leaveOVS(ctx context.Context) error {
	if l.ovs == nil {
		return nil
	}
	l.wiring.A.Through("", "")
	err := errors.Join(l.ovs.Teardown(ctx), l.ovs.Stop(), l.ovs.Forget())
	l.ovs = nil
	return err
}

// listenerCPU is the processor of the polling listener. If Open vSwitch uses that, it is ktsnd's, whose priority is
// higher.
func (l *Target) listenerCPU() int {
	if l.ovs != nil && l.pinning.polling == l.pinning.listener {
		return l.pinning.sender
	}
	return l.pinning.listener
}

// switchTime is the processor time of Open vSwitch until now, and the clock.
func (l *Target) switchTime() (time.Duration, time.Time, error) {
	if l.ovs == nil {
		return 0, time.Time{}, nil
	}
	used, err := process.CPUTime(l.ovs.PID())
	return used, time.Now(), err
}
