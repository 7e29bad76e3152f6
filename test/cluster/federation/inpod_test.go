// SPDX-License-Identifier: Apache-2.0

//go:build bench || healing

package federation

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// inPod is a program that runs in a pod.
type inPod struct {
	started chan struct{}
	once    sync.Once
	ended   chan struct{}
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	err     error
}

// Write takes what the program says on stderr, which is how it tells that it has begun.
func (p *inPod) Write(text []byte) (int, error) {
	defer p.once.Do(func() { close(p.started) })
	return p.stderr.Write(text)
}

// begin starts a program in a container of a member.
func (p *place) begin(ctx context.Context, in kube.Container, command ...string) *inPod {
	program := &inPod{started: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(program.ended)
		program.err = kube.Exec(ctx, p.config, p.client, in, &program.stdout, program, command...)
	}()
	return program
}

// hasBegun waits until the program has said something on stderr.
func (p *inPod) hasBegun(t *testing.T) {
	t.Helper()
	select {
	case <-p.started:
	case <-p.ended:
		t.Fatalf("a program ended before it began: %v %s", p.err, p.stderr.String())
	}
}

// said waits for the end, and returns what the program has printed.
func (p *inPod) said() (string, error) {
	<-p.ended
	if p.err != nil {
		return p.stdout.String(), errors.Join(p.err, errors.New(p.stderr.String()))
	}
	return p.stdout.String(), nil
}
