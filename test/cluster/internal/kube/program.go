// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Program is a program that runs in a pod.
type Program struct {
	started chan struct{}
	once    sync.Once
	ended   chan struct{}
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	err     error
}

// Write receives the program's standard error; the first output shows that it has begun.
func (p *Program) Write(text []byte) (int, error) {
	defer p.once.Do(func() { close(p.started) })
	return p.stderr.Write(text)
}

// Begin starts a program in a container.
func Begin(ctx context.Context, config *rest.Config, client kubernetes.Interface, in Container, command ...string) *Program {
	program := &Program{started: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(program.ended)
		program.err = Exec(ctx, config, client, in, &program.stdout, program, command...)
	}()
	return program
}

// HasBegun waits until the program has written to stderr.
func (p *Program) HasBegun() error {
	select {
	case <-p.started:
		return nil
	case <-p.ended:
		return fmt.Errorf("a program ended before it began: %w %s", p.err, p.stderr.String())
	}
}

// Said waits for the end, and returns the program's standard output.
func (p *Program) Said() (string, error) {
	<-p.ended
	if p.err != nil {
		return p.stdout.String(), errors.Join(p.err, errors.New(p.stderr.String()))
	}
	return p.stdout.String(), nil
}
