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

// askTimeout bounds what is asked at once.
const askTimeout = 10 * time.Second

// Link makes a connection for each question: they are rare, and none outlives the ktsnd that it was for.
type Link struct {
	// Path is that of the control socket.
	Path string
}

// Do has ask talk to ktsnd.
func (l Link) Do(ctx context.Context, ask func(context.Context, *control.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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

// SocketDel has ktsnd stop listening for a pod. One that does not run does not listen.
func (l Link) SocketDel(ctx context.Context, identity string) error {
	err := l.Do(ctx, func(ctx context.Context, client *control.Client) error { return client.SocketDel(ctx, identity) })
	if Ended(err) {
		return nil
	}
	return err
}

// Ended tells whether the error says that no ktsnd runs.
func Ended(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
