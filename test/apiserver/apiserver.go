// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts the API server and etcd of Kubernetes, and nothing else of it, for tests. `make e2e` runs the
// tests with the API server that it has built; by hand:
//
//	KTSN_KUBERNETES_DIR=$(bin/ktsn-cluster build | sed -n 's/^kubernetes\t//p') scripts/go.sh test ./test/operator
package apiserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Suite is the tests of a package, with one API server for all of them.
type Suite struct {
	// Scheme is that of Admin.
	Scheme *runtime.Scheme
	// Resources are folders with those that the API server knows.
	Resources []string
	// Before is called when the API server has been started, with a client that may do all, or with why there is none.
	Before func(config *rest.Config, admin client.Client, whyNot error)
	// After is called when the tests have ended, before the API server goes; nil: nothing is.
	After func()
}

// Run runs the tests, and returns the exit status.
func (s *Suite) Run(m *testing.M) int {
	config, stop, err := start(s.Resources)
	var admin client.Client
	if err == nil {
		admin, err = client.New(config, client.Options{Scheme: s.Scheme})
	}
	s.Before(config, admin, err)
	status := m.Run()
	if s.After != nil {
		s.After()
	}
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	return status
}

// start starts one that knows the resources in these folders. The error says why there is none; stop may be called nevertheless.
func start(resources []string) (config *rest.Config, stop func() error, err error) {
	stop = func() error { return nil }
	server, err := New(resources...)
	if err != nil {
		return nil, stop, err
	}
	config, err = server.Start()
	if err != nil {
		_ = server.Stop() // of what was started
		return nil, stop, err
	}
	return config, server.Stop, nil
}

// New prepares one for tests that start it their own way. The error says what is missing. An interruption of the tests stops it: API server
// and etcd are in process groups of their own, which no signal to the tests' group reaches.
func New(resources ...string) (*envtest.Environment, error) {
	dir := os.Getenv("KTSN_KUBERNETES_DIR")
	if dir == "" {
		return nil, fmt.Errorf("KTSN_KUBERNETES_DIR names no folder with a kube-apiserver; `make e2e` builds one")
	}
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("%w; scripts/install-deps.sh cluster installs it", err)
	}
	server := &envtest.Environment{
		ControlPlane: envtest.ControlPlane{
			APIServer: &envtest.APIServer{Path: filepath.Join(dir, "kube-apiserver")},
			Etcd:      &envtest.Etcd{Path: etcd},
		},
		CRDDirectoryPaths:        resources,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	stopWhenInterrupted(server)
	return server, nil
}

func stopWhenInterrupted(server *envtest.Environment) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		received := <-interrupted
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		signal.Reset()
		_ = unix.Kill(os.Getpid(), received.(unix.Signal))
	}()
}
