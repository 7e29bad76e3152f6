// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	readyTimeout = 10 * time.Second
	readyPoll    = 20 * time.Millisecond
	stopGrace    = 10 * time.Second
)

// ktsnd is the daemon of a node.
type ktsnd struct {
	process *process.Process
	client  *control.Client
	socket  string
}

// startKtsnd returns once the daemon answers.
func startKtsnd(ctx context.Context, node *topology.Namespace, program, local, socket string) (_ *ktsnd, err error) {
	started, err := process.Start(node, "ktsnd", exec.Command(program, "--interface", topology.PhysicalInterface, "--local-address", local,
		"--control", socket, "--log-level", "warning", "--fifo", "50"))
	if err != nil {
		return nil, err
	}
	k := &ktsnd{process: started, socket: socket}
	if k.client, err = k.connect(ctx); err != nil {
		return nil, errors.Join(err, k.stop())
	}
	return k, nil
}

func (k *ktsnd) connect(ctx context.Context) (*control.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		client, err := control.Dial(ctx, k.socket)
		if err == nil {
			return client, nil
		}
		select {
		case <-k.process.Done():
			return nil, k.process.Ended()
		case <-ctx.Done():
			return nil, fmt.Errorf("ktsnd did not answer: %w (%w)", ctx.Err(), err)
		case <-time.After(readyPoll):
		}
	}
}

func (k *ktsnd) stop() error {
	var err error
	if k.client != nil {
		err = k.client.Close()
	}
	return errors.Join(err, k.process.Stop(stopGrace))
}
