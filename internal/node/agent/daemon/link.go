// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// requestTimeout limits the requests of one connection.
const requestTimeout = 10 * time.Second

// Link opens a connection per call: calls are rare, and no connection outlives its ktsnd.
type Link struct {
	// Path is the control socket.
	Path string
}

// Do calls ask with a connection to ktsnd.
func (l Link) Do(ctx context.Context, ask func(context.Context, *control.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, err := control.Dial(ctx, l.Path)
	if err != nil {
		return fmt.Errorf("ktsnd does not answer on %s: %w", l.Path, err)
	}
	defer client.Close()
	return ask(ctx, client)
}

// SocketAdd makes ktsnd listen for a pod, and sets the name of the pod.
func (l Link) SocketAdd(ctx context.Context, identity, path, name string) error {
	return l.Do(ctx, func(ctx context.Context, client *control.Client) error {
		if err := client.SocketAdd(ctx, identity, path); err != nil {
			return err
		}
		return client.PodNameSet(ctx, identity, name)
	})
}

// SocketDel makes ktsnd stop listening for a pod. It is not an error if ktsnd does not run.
func (l Link) SocketDel(ctx context.Context, identity string) error {
	err := l.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.SocketDel(ctx, identity) })
	if NotRunning(err) {
		return nil
	}
	return err
}

// NotRunning reports whether the error means that no ktsnd runs.
func NotRunning(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
