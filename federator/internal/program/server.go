// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	// closeTimeout is how long running requests may take at the end.
	closeTimeout = 5 * time.Second
	maxHeader    = 64 << 10
)

// server serves the API until its context ends. Each replica has one, which also answers while the hub does not.
type server struct {
	options *Options
	handler http.Handler
}

// Start serves requests.
func (s *server) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.options.Listen)
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	if listener, err = s.encrypt(ctx, listener); err != nil {
		return err
	}
	if s.options.OnListen != nil {
		s.options.OnListen(listener.Addr())
	}
	// All requests end with the program, watches as well.
	serving := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- serving.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("answer requests: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := serving.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("end requests: %w", err)
	}
	return nil
}

// encrypt adds TLS to the listener, if there is a certificate.
func (s *server) encrypt(ctx context.Context, listener net.Listener) (net.Listener, error) {
	if s.options.Certificate == "" {
		return listener, nil
	}
	watcher, err := certwatcher.New(s.options.Certificate, s.options.Key)
	if err != nil {
		_ = listener.Close() // nobody has connected
		return nil, fmt.Errorf("read the API's certificate: %w", err)
	}
	go func() { _ = watcher.Start(ctx) }() // it ends with ctx; it logs a certificate that it cannot read, and keeps the old one
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}), nil
}
