// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// unplugger batches the requests that arrive while it is running: the kernel takes as long for one link as for many.
// The first request is not delayed.
type unplugger struct {
	// unplug unplugs links and returns one error per link.
	unplug func(context.Context, []*attachment.Plugged) []error

	mu      sync.Mutex
	pending []*unplugRequest
	running bool
}

// unplugRequest is a link that a caller waits for.
type unplugRequest struct {
	plugged *attachment.Plugged
	done    chan error
}

// do unplugs a link. It does not stop when ctx ends, because the work would have to be repeated.
func (u *unplugger) do(ctx context.Context, plugged *attachment.Plugged) error {
	request := &unplugRequest{plugged, make(chan error, 1)}
	u.mu.Lock()
	u.pending = append(u.pending, request)
	idle := !u.running
	u.running = true
	u.mu.Unlock()
	if idle {
		go u.work(context.WithoutCancel(ctx))
	}
	return <-request.done
}

// work unplugs links until no request is pending.
func (u *unplugger) work(ctx context.Context) {
	for {
		requests := u.take()
		if len(requests) == 0 {
			return
		}
		var links []*attachment.Plugged
		for _, request := range requests {
			links = append(links, request.plugged)
		}
		for i, err := range u.unplug(ctx, links) {
			requests[i].done <- err
		}
	}
}

func (u *unplugger) take() []*unplugRequest {
	u.mu.Lock()
	defer u.mu.Unlock()
	requests := u.pending
	u.pending, u.running = nil, len(requests) > 0
	return requests
}
