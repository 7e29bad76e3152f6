// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// unplugger unplugs together what several ask for while it is at work: the kernel takes as long for one link as for many. The first is
// not kept waiting.
type unplugger struct {
	// unplug unplugs links, each with an error of its own.
	unplug func(context.Context, []*attachment.Plugged) []error

	mu      sync.Mutex
	waiting []*unplugging
	atWork  bool
}

// unplugging is a link that somebody waits for.
type unplugging struct {
	plugged *attachment.Plugged
	done    chan error
}

// do unplugs a link. It does not stop when ctx ends: what is begun would have to be done again.
func (u *unplugger) do(ctx context.Context, plugged *attachment.Plugged) error {
	one := &unplugging{plugged, make(chan error, 1)}
	u.mu.Lock()
	u.waiting = append(u.waiting, one)
	begins := !u.atWork
	u.atWork = true
	u.mu.Unlock()
	if begins {
		go u.work(context.WithoutCancel(ctx))
	}
	return <-one.done
}

// work goes on while somebody waits.
func (u *unplugger) work(ctx context.Context) {
	for {
		all := u.take()
		if len(all) == 0 {
			return
		}
		var links []*attachment.Plugged
		for _, one := range all {
			links = append(links, one.plugged)
		}
		for i, err := range u.unplug(ctx, links) {
			all[i].done <- err
		}
	}
}

func (u *unplugger) take() []*unplugging {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.waiting
	u.waiting, u.atWork = nil, len(all) > 0
	return all
}
