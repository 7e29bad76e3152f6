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

// tick is how often it is looked which links are due.
const tick = 25 * time.Millisecond

// mostMTU is the largest that an interface can have.
const mostMTU = 65535

// Prober asks links of a node, by names that its user gives. All functions may be called by any goroutine.
type Prober struct {
	// Changed is called when there is another finding of a link. It must not block.
	Changed func(name string)
	Log     *slog.Logger

	mu      sync.Mutex
	targets map[string]*asked
}

// Watch has a link asked from now on, or differently than before.
func (p *Prober) Watch(name string, target *Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.targets == nil {
		p.targets = map[string]*asked{}
	}
	known := p.targets[name]
	if known != nil && known.same(target) {
		return
	}
	if known != nil {
		known.close()
	}
	now := time.Now()
	p.targets[name] = &asked{Target: *target, since: now, due: now}
}

// same tells whether a target asks for what is asked already. One that adapts to what the way carries is asked with that.
func (a *asked) same(target *Target) bool {
	wanted := *target
	if wanted.Adapt && a.finding.Up {
		wanted.MTU = a.MTU
	}
	return a.Target == wanted && !a.finding.Broken
}

// Forget has a link asked no more. When it returns, nothing of the pod's network namespace is held.
func (p *Prober) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.targets[name]; known != nil {
		known.close()
		delete(p.targets, name)
	}
}

// Of is what is known of a link; false of one that is not watched.
func (p *Prober) Of(name string) (Finding, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.targets[name]
	if known == nil {
		return Finding{}, false
	}
	return known.finding, true
}

// Run asks until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	defer p.closeAll()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	scratch := make([]byte, mostMTU)
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticks.C:
			p.look(now, scratch)
		}
	}
}

func (p *Prober) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.targets {
		one.close()
	}
}

// look asks the links that are due.
func (p *Prober) look(now time.Time, scratch []byte) {
	p.mu.Lock()
	changed := map[string]Finding{}
	for name, one := range p.targets {
		if !one.due.After(now) && one.turn(now, scratch) {
			changed[name] = one.finding
		}
	}
	p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		finding := changed[name]
		p.Log.Info("link", "name", name, "up", finding.Up, "mtu", finding.MTU, "reason", finding.Sentence)
		p.Changed(name)
	}
}
