// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Sockets restores the sockets of pods.
type Sockets interface {
	Restore(ctx context.Context) (count int, err error)
}

// Resync restores the node's attachments in each new ktsnd, which it detects by the end of the connection to the
// previous one.
type Resync struct {
	Link Link
	// StateDir is tsn-cni's state folder.
	StateDir string
	Sockets  Sockets
	// Prepare sends what ktsnd must know before it serves pods; may be nil.
	Prepare func(ctx context.Context, client *control.Client) error
	// Report gets nil while ktsnd runs and has all state.
	Report func(error)
	// Faults gets by VNI why single networks, or pods on them, could not be restored.
	Faults func(map[uint32]error)
	// Restored is called after each attempt to restore a ktsnd.
	Restored func()
	Log      *slog.Logger
}

const (
	// dialInterval is the time between two attempts to connect. Applications retry for two seconds after they have
	// found ktsnd.
	dialInterval = 50 * time.Millisecond
	// retryInterval is the time between two attempts to restore, as long as part of it fails.
	retryInterval = 5 * time.Second
)

// LockTimeout is how long to wait for running network plugins.
const LockTimeout = 10 * time.Second

// Run restores each new ktsnd until ctx ends.
func (r *Resync) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		client, err := control.Dial(ctx, r.Link.Path)
		if err != nil {
			r.Report(fmt.Errorf("ktsnd does not answer: %w", err))
			_ = retry.Pause(ctx, dialInterval)
			continue
		}
		r.serve(ctx, client)
		client.Close()
	}
	return nil
}

// serve restores one ktsnd and returns when that has ended.
func (r *Resync) serve(ctx context.Context, client *control.Client) {
	connCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		defer cancel()
		_ = client.WaitClosed(connCtx) // after any error the connection is useless
	}()
	for connCtx.Err() == nil {
		faults, err := r.restore(connCtx)
		if connCtx.Err() != nil {
			break
		}
		r.Report(err)
		r.Faults(faults)
		r.Restored()
		if err == nil && len(faults) == 0 {
			<-connCtx.Done()
			break
		}
		_ = retry.Pause(connCtx, retryInterval)
	}
	cancel()
	<-closed
	if ctx.Err() == nil {
		r.Report(errors.New("ktsnd has ended"))
		r.Log.Warn("ktsnd has ended; messages wait in the applications' rings until it is back")
	}
}

// restore sends what Prepare has, then peers and interfaces, and the sockets last, because applications that find a
// socket expect the rest.
func (r *Resync) restore(ctx context.Context) (faults map[uint32]error, err error) {
	node, err := attachment.OpenNode(r.StateDir, LockTimeout)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	err = r.Link.Do(ctx, func(ctx context.Context, client *control.Client) error {
		var errPrepare error
		if r.Prepare != nil {
			errPrepare = r.Prepare(ctx, client)
		}
		restored, err := attachment.Restore(ctx, r.StateDir, node, client, r.Link.Path)
		count, errSockets := r.Sockets.Restore(ctx)
		r.Log.Info("restored the state of ktsnd", "peers", restored.Peers, "interfaces", restored.Endpoints, "sockets", count+restored.Sockets, "rebuilt", restored.Rebuilt)
		faults = restored.Faults
		return errors.Join(errPrepare, err, errSockets)
	})
	return faults, err
}
