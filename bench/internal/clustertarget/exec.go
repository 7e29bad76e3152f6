// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

// started is a program that runs in a pod.
type started struct {
	name string
	// ready is closed when the program has written something to stderr, or ended.
	ready  chan struct{}
	done   chan struct{}
	stdout bytes.Buffer
	stderr watched
	// err is valid after done is closed.
	err error
}

// watched closes a channel at the first byte.
type watched struct {
	mutex sync.Mutex
	text  bytes.Buffer
	once  sync.Once
	first chan struct{}
}

func (w *watched) Write(data []byte) (int, error) {
	w.once.Do(func() { close(w.first) })
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.text.Write(data)
}

func (w *watched) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.text.String()
}

// start starts a program in a pod's container. It ends when the program does or, from this side, when ctx does.
func (c *connection) start(ctx context.Context, name string, pod *corev1.Pod, container string, command ...string) (*started, error) {
	executor, err := c.executor(pod, container, command)
	if err != nil {
		return nil, fmt.Errorf("start %s in pod %s: %w", name, pod.Name, err)
	}
	s := &started{name: name, ready: make(chan struct{}), done: make(chan struct{})}
	s.stderr.first = s.ready
	go func() {
		defer close(s.done)
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &s.stdout, Stderr: &s.stderr})
		s.err = c.ended(name, pod.Name, s.stderr.String(), err)
	}()
	return s, nil
}

func (c *connection) executor(pod *corev1.Pod, container string, command []string) (remotecommand.Executor, error) {
	request := c.core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, parameters)
	byWebSocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	bySPDY, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(byWebSocket, bySPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// ended describes how a program ended.
func (c *connection) ended(name, pod, output string, err error) error {
	var status utilexec.ExitError
	switch output = strings.Join(strings.Fields(output), " "); {
	case err == nil:
		return nil
	case errors.As(err, &status) && output != "":
		return fmt.Errorf("%s in pod %s: %s", name, pod, output)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s in pod %s: the pod is gone", name, pod)
	}
	return c.explain(fmt.Sprintf("%s in pod %s", name, pod), err)
}

// wait returns when the program has ended.
func (s *started) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", s.name, ctx.Err())
	}
}

// awaitReady returns when the program has reported that it is ready.
func (s *started) awaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.done:
		if s.err == nil {
			return fmt.Errorf("%s ended before it was ready", s.name)
		}
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("wait until %s is ready: %w", s.name, ctx.Err())
	}
}

// run runs a program to its end and returns its output.
func (c *connection) run(ctx context.Context, name string, pod *corev1.Pod, container string, command ...string) (string, error) {
	s, err := c.start(ctx, name, pod, container, command...)
	if err != nil {
		return "", err
	}
	err = s.wait(ctx)
	if err != nil {
		return "", err
	}
	return s.stdout.String(), nil
}

func missesAccount(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount")
}
