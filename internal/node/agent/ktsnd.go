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

// statusValidFor is how long a statusCache uses a status of ktsnd.
const statusValidFor = 5 * time.Second

// addResync adds the part that restores the state of a restarted ktsnd. encrypted may be nil.
func addResync(c *core, volumes *csi.Volumes, clock *clocks.Follower, encrypted *encryption.Reconciler) error {
	resync := &daemon.Resync{
		Link: c.ktsnd, StateDir: c.StateDir, Sockets: volumes, Log: c.log.With("part", partKtsnd),
		Report:  func(err error) { c.board.set(partKtsnd, err) },
		Faults:  func(faults map[uint32]error) { c.reportFaults(partKtsnd, faults) },
		Prepare: func(ctx context.Context, client *control.Client) error { return clock.Updater.Prepare(ctx, client) },
		Restored: func() {
			c.queue.wake(concernPeers, concernSchedule, concernLimits)
			clock.Updater.Reset()
			if encrypted != nil {
				encrypted.KtsndRestarted()
				c.queue.wake(concernEncryption)
			}
		},
	}
	return c.manager.Add(manager.RunnableFunc(resync.Run))
}

// ktsndTunnels implements overlay.Timed with a connection per call, so that tunnels are recreated even without ktsnd.
type ktsndTunnels struct{ link daemon.Link }

// Status implements overlay.Timed.
func (t ktsndTunnels) Status(ctx context.Context) (status *control.Status, err error) {
	err = t.link.Do(ctx, func(ctx context.Context, client *control.Client) (err error) {
		status, err = client.Status(ctx)
		return err
	})
	return status, err
}

// PeerAdd implements overlay.Timed.
func (t ktsndTunnels) PeerAdd(ctx context.Context, peer control.Peer) error {
	return t.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.PeerAdd(ctx, peer) })
}

// PeerDel implements overlay.Timed.
func (t ktsndTunnels) PeerDel(ctx context.Context, vni uint32, address netip.Addr) error {
	return t.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.PeerDel(ctx, vni, address) })
}

// statusCache is the last status of ktsnd, for many links at once.
type statusCache struct {
	ktsnd ktsndTunnels

	mu        sync.Mutex
	status    *control.Status
	fetchedAt time.Time
}

func (s *statusCache) get(ctx context.Context) (*control.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != nil && time.Since(s.fetchedAt) < statusValidFor {
		return s.status, nil
	}
	var err error
	if s.status, err = s.ktsnd.Status(ctx); err != nil {
		s.status = nil
		return nil, err
	}
	s.fetchedAt = time.Now()
	return s.status, nil
}
