// SPDX-License-Identifier: Apache-2.0

package linkprobe

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// tickInterval is the least time that the prober sleeps, unless a link is added.
const tickInterval = 25 * time.Millisecond

// maxMTU is the largest possible MTU of an interface.
const maxMTU = 65535

// Prober probes links of a node, by names of the caller. All methods may be called from any goroutine.
type Prober struct {
	// Changed is called when the finding of a link changes. It must not block.
	Changed func(name string)
	Log     *slog.Logger

	mu      sync.Mutex
	targets map[string]*probe
	// added has an element after a target was added; nil until the prober runs.
	added chan struct{}
}

// Watch starts to probe a link, or changes its target.
func (p *Prober) Watch(name string, target *Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.targets == nil {
		p.targets = map[string]*probe{}
	}
	existing := p.targets[name]
	if existing != nil && existing.matches(target) {
		return
	}
	if existing != nil {
		existing.close()
	}
	now := time.Now()
	p.targets[name] = &probe{Target: *target, since: now, due: now}
	select {
	case p.added <- struct{}{}:
	default: // it is not running, or checks the links soon
	}
}

// matches reports whether the target is being probed already. A target with Adapt is probed with the MTU that the path
// carries.
func (a *probe) matches(target *Target) bool {
	wanted := *target
	if wanted.Adapt && a.finding.Up {
		wanted.MTU = a.MTU
	}
	return a.Target == wanted && !a.finding.Broken
}

// Forget stops probing a link. When it returns, nothing refers to the pod's network namespace.
func (p *Prober) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if target := p.targets[name]; target != nil {
		target.close()
		delete(p.targets, name)
	}
}

// Finding returns the finding of a link, false if the link is not watched.
func (p *Prober) Finding(name string) (Finding, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	target := p.targets[name]
	if target == nil {
		return Finding{}, false
	}
	return target.finding, true
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	defer p.closeAll()
	added := make(chan struct{}, 1)
	p.mu.Lock()
	p.added = added
	p.mu.Unlock()
	scratch := make([]byte, maxMTU)
	for {
		next := time.NewTimer(p.probeDue(time.Now(), scratch))
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case <-next.C:
		case <-added:
			next.Stop()
		}
	}
}

func (p *Prober) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, target := range p.targets {
		target.close()
	}
}

// probeDue probes the links that are due, and returns the time until the next ones are, an hour without links.
func (p *Prober) probeDue(now time.Time, scratch []byte) (left time.Duration) {
	left = time.Hour
	p.mu.Lock()
	changed := map[string]Finding{}
	for name, target := range p.targets {
		if !target.due.After(now) && target.step(now, scratch) {
			changed[name] = target.finding
		}
		left = min(left, target.due.Sub(now))
	}
	p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		finding := changed[name]
		p.Log.Info("link state changed", "name", name, "up", finding.Up, "mtu", finding.MTU, "reason", finding.Message)
		p.Changed(name)
	}
	return max(left, tickInterval)
}
