// SPDX-License-Identifier: Apache-2.0

package clusterreader

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

// bounds limit the duration and the output of a command in a container. Containers of tenants are not trusted.
type bounds struct {
	time  time.Duration
	bytes int
}

// ofTenants are the bounds for commands in other containers than the chart's.
var ofTenants = bounds{time: 15 * time.Second, bytes: 1 << 20}

// hold runs a command within the bounds and returns its standard error.
func (b bounds) hold(ctx context.Context, out io.Writer, command func(ctx context.Context, stdout, stderr io.Writer) error) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.time, fmt.Errorf("it has not ended within %v", b.time))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	tooMuch := func() { stop(fmt.Errorf("it has said more than %d bytes", b.bytes)) }
	var complaint bytes.Buffer
	err := command(ctx, &bounded{out: out, left: b.bytes, over: tooMuch}, &bounded{out: &complaint, left: b.bytes, over: tooMuch})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return complaint.String(), err
}

// bounded accepts a limited number of bytes and drops the rest.
type bounded struct {
	out  io.Writer
	left int
	over func()
}

// Write fails only if the other writer does: the client of the API server drains a stream whose writer fails, without end.
func (b *bounded) Write(text []byte) (int, error) {
	taken := text[:min(len(text), b.left)]
	if len(taken) < len(text) {
		b.over()
	}
	b.left -= len(taken)
	if _, err := b.out.Write(taken); err != nil {
		return 0, err
	}
	return len(text), nil
}
