// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	// validFor is how long a result is used, retryInterval the time until an unanswered path is probed again.
	validFor      = 10 * time.Minute
	retryInterval = time.Minute
)

// Prober caches the MTU of paths. All methods may be called from any goroutine.
type Prober struct {
	// Find is Find except in tests.
	Find func(ctx context.Context, to netip.Addr, largest int) (int, error)
	// Changed is called when a result changes.
	Changed func()
	Now     func() time.Time
	Log     *slog.Logger

	mu    sync.Mutex
	paths map[netip.Addr]*path
	wake  chan struct{}
}

// path is the state of one path.
type path struct {
	// bytes is the largest packet, 0 until it is known.
	bytes int
	// largest is the largest packet that the node can send.
	largest int
	// due is the time of the next probe, asked that of the last request.
	due, asked time.Time
}

// PathMTU returns the size in bytes of the largest packet that all known paths to these hosts carry, at most largest,
// which the node can send. Unknown paths are probed later.
func (p *Prober) PathMTU(hosts []netip.Addr, largest int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureInit()
	now, least := p.Now(), largest
	for _, host := range hosts {
		known := p.paths[host]
		if known == nil || known.largest != largest {
			known = &path{largest: largest, due: now}
			p.paths[host] = known
			select {
			case p.wake <- struct{}{}:
			default:
			}
		}
		known.asked = now
		if known.bytes > 0 {
			least = min(least, known.bytes)
		}
	}
	return least
}

func (p *Prober) ensureInit() {
	if p.paths == nil {
		p.paths, p.wake = map[netip.Addr]*path{}, make(chan struct{}, 1)
	}
}

// Run probes one host after the other until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ensureInit()
	p.mu.Unlock()
	for {
		host, largest, wait := p.next()
		if host.IsValid() && ctx.Err() == nil {
			p.measure(ctx, host, largest)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-time.After(wait):
		}
	}
}

// next returns a host that is due, or how long there is none. It forgets hosts that were not requested for a while.
func (p *Prober) next() (host netip.Addr, largest int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, wait := p.Now(), retryInterval
	for at, known := range p.paths {
		switch left := known.due.Sub(now); {
		case now.Sub(known.asked) > 2*validFor:
			delete(p.paths, at)
		case left <= 0:
			return at, known.largest, 0
		default:
			wait = min(wait, left)
		}
	}
	return netip.Addr{}, 0, wait
}

// measure probes one path and reports a change.
func (p *Prober) measure(ctx context.Context, host netip.Addr, largest int) {
	due := validFor
	bytes, err := p.Find(ctx, host, largest)
	if err != nil {
		bytes, due = 0, retryInterval
	}
	if p.record(host, largest, bytes, due) {
		p.Log.Info("the path MTU to a node of another cluster has changed", "address", host, "bytes", bytes)
		p.Changed()
	}
}

// record stores a result and reports whether it has changed. The previous result stays if there is no answer.
func (p *Prober) record(host netip.Addr, largest, bytes int, due time.Duration) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.paths[host]
	if known == nil || known.largest != largest {
		return false
	}
	known.due = p.Now().Add(due)
	changed = bytes > 0 && bytes != known.bytes
	if bytes > 0 {
		known.bytes = bytes
	}
	return changed
}
