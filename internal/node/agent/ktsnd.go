// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/clocks"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// statusValidFor is how long the status of ktsnd in a statusCache is used.
const statusValidFor = 5 * time.Second

// addResync adds the part that gives each new ktsnd what its predecessor had. encrypted may be nil.
func addResync(c *core, volumes *csi.Volumes, clock *clocks.Follower, encrypted *encryption.Reconciler) error {
	resync := &daemon.Resync{
		Link: c.ktsnd, StateDir: c.StateDir, Sockets: volumes, Log: c.log.With("part", partKtsnd),
		Report: func(err error) { c.board.Set(partKtsnd, err) },
		First:  func(ctx context.Context, client *control.Client) error { return clock.Teller.TellNew(ctx, client) },
		Told: func() {
			c.queue.wake(concernPeers, concernSchedule, concernLimits)
			clock.Teller.Anew()
			if encrypted != nil {
				encrypted.KtsndRestarted()
				c.queue.wake(concernEncryption)
			}
		},
	}
	return c.manager.Add(manager.RunnableFunc(resync.Run))
}

// timed connects to ktsnd for each call, so that tunnels are recreated without ktsnd, too.
type timed struct{ link daemon.Link }

// Status implements overlay.Timed.
func (t timed) Status(ctx context.Context) (status *control.Status, err error) {
	err = t.link.Do(ctx, func(ctx context.Context, client *control.Client) (err error) {
		status, err = client.Status(ctx)
		return err
	})
	return status, err
}

// PeerAdd implements overlay.Timed.
func (t timed) PeerAdd(ctx context.Context, peer control.Peer) error {
	return t.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.PeerAdd(ctx, peer) })
}

// PeerDel implements overlay.Timed.
func (t timed) PeerDel(ctx context.Context, vni uint32, address netip.Addr) error {
	return t.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.PeerDel(ctx, vni, address) })
}

// statusCache is the last status of ktsnd, for many links at once.
type statusCache struct {
	ktsnd timed

	mu     sync.Mutex
	status *control.Status
	at     time.Time
}

func (s *statusCache) get(ctx context.Context) (*control.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != nil && time.Since(s.at) < statusValidFor {
		return s.status, nil
	}
	var err error
	if s.status, err = s.ktsnd.Status(ctx); err != nil {
		s.status = nil
		return nil, err
	}
	s.at = time.Now()
	return s.status, nil
}
