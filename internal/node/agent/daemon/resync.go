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

// Sockets are those of the pods.
type Sockets interface {
	Restore(ctx context.Context) (count int, err error)
}

// Resync tells each ktsnd of what is attached to the node. It learns of a new one by the end of its connection to the
// old one.
type Resync struct {
	Link Link
	// StateDir is tsn-cni's.
	StateDir string
	Sockets  Sockets
	// First tells it what must be known before pods are served; nil: nothing.
	First func(ctx context.Context, client *control.Client) error
	// Report is told whether ktsnd is there and knows all.
	Report func(error)
	// Told is called when a ktsnd has been told.
	Told func()
	Log  *slog.Logger
}

const (
	// retryEvery is how often to look for a ktsnd that is not there. Applications try again for two seconds after
	// they have found it, so this is far below.
	retryEvery = 50 * time.Millisecond
	// repeatEvery is how often all is told again, as long as something could not be told.
	repeatEvery = 5 * time.Second
)

// Patience is how long to wait for network plugins at work.
const Patience = 10 * time.Second

// Run goes on until ctx ends.
func (r *Resync) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		client, err := control.Dial(ctx, r.Link.Path)
		if err != nil {
			r.Report(fmt.Errorf("ktsnd does not answer: %w", err))
			_ = retry.Pause(ctx, retryEvery)
			continue
		}
		r.serve(ctx, client)
		client.Close()
	}
	return nil
}

// serve tells one ktsnd, and returns when it has ended.
func (r *Resync) serve(ctx context.Context, client *control.Client) {
	gone, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		_ = client.Gone(gone) // whatever it is, the connection is of no more use
	}()
	for gone.Err() == nil {
		err := r.tell(gone)
		if gone.Err() != nil {
			break
		}
		r.Report(err)
		r.Told()
		if err == nil {
			<-gone.Done()
			break
		}
		_ = retry.Pause(gone, repeatEvery)
	}
	cancel()
	<-ended
	if ctx.Err() == nil {
		r.Report(errors.New("ktsnd has ended"))
		r.Log.Warn("ktsnd has ended; messages wait in the applications' rings until it is back")
	}
}

// tell gives ktsnd what comes first, peers and interfaces, and the sockets last, because applications that find one expect the rest.
func (r *Resync) tell(ctx context.Context) error {
	node, err := attachment.OpenNode(r.StateDir, Patience)
	if err != nil {
		return err
	}
	defer node.Close()
	return r.Link.Do(ctx, func(ctx context.Context, client *control.Client) error {
		var errFirst error
		if r.First != nil {
			errFirst = r.First(ctx, client)
		}
		done, err := attachment.Restore(ctx, r.StateDir, node, client, r.Link.Path)
		count, errSockets := r.Sockets.Restore(ctx)
		r.Log.Info("told ktsnd", "peers", done.Peers, "interfaces", done.Endpoints, "sockets", count+done.Sockets, "rebuilt", done.Rebuilt)
		return errors.Join(errFirst, err, errSockets)
	})
}
