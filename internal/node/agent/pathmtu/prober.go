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
	// knownFor is how long a path counts as known, again when one is asked for again of which nothing was said.
	knownFor = 10 * time.Minute
	again    = time.Minute
)

// Prober knows the paths to some hosts. All functions may be called by any goroutine.
type Prober struct {
	// Find is Find, but in tests.
	Find func(ctx context.Context, to netip.Addr, largest int) (int, error)
	// Changed is called when more is known.
	Changed func()
	Now     func() time.Time
	Log     *slog.Logger

	mu    sync.Mutex
	paths map[netip.Addr]*path
	wake  chan struct{}
}

// path is what is known of one.
type path struct {
	// bytes is the largest packet, 0 as long as that is not known.
	bytes int
	// largest is what the node itself can send.
	largest int
	// due is when to ask again; asked is when somebody wanted to know it last.
	due, asked time.Time
}

// Least is the largest packet, in bytes, that all those paths to these hosts carry of which something is known: largest, which the node itself
// can send, or less. Of the others it will be known later.
func (p *Prober) Least(hosts []netip.Addr, largest int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
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

func (p *Prober) begin() {
	if p.paths == nil {
		p.paths, p.wake = map[netip.Addr]*path{}, make(chan struct{}, 1)
	}
}

// Run asks, one host after the other, until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	p.mu.Lock()
	p.begin()
	p.mu.Unlock()
	for {
		host, largest, wait := p.next()
		if host.IsValid() && ctx.Err() == nil {
			p.look(ctx, host, largest)
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

// next is a host that is due, with what the node can send, or for how long there is none. Hosts that nobody has asked for lately are
// forgotten.
func (p *Prober) next() (host netip.Addr, largest int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, wait := p.Now(), again
	for at, known := range p.paths {
		switch left := known.due.Sub(now); {
		case now.Sub(known.asked) > 2*knownFor:
			delete(p.paths, at)
		case left <= 0:
			return at, known.largest, 0
		default:
			wait = min(wait, left)
		}
	}
	return netip.Addr{}, 0, wait
}

// look asks for one path, and says so if it is another than before.
func (p *Prober) look(ctx context.Context, host netip.Addr, largest int) {
	due := knownFor
	bytes, err := p.Find(ctx, host, largest)
	if err != nil {
		bytes, due = 0, again
	}
	if p.learn(host, largest, bytes, due) {
		p.Log.Info("how large packets to a node of another cluster can be", "address", host, "bytes", bytes)
		p.Changed()
	}
}

// learn keeps what was found, and tells whether it is news. What was known stays while nobody answers.
func (p *Prober) learn(host netip.Addr, largest, bytes int, due time.Duration) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.paths[host]
	if known == nil || known.largest != largest {
		return false
	}
	known.due = p.Now().Add(due)
	news = bytes > 0 && bytes != known.bytes
	if bytes > 0 {
		known.bytes = bytes
	}
	return news
}
