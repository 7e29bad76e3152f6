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
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Start starts one that knows the resources in these folders. The error says why there is none; stop may be called nevertheless.
func Start(resources ...string) (config *rest.Config, stop func() error, err error) {
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

// New prepares one for tests that start it their own way. The error says what is missing.
func New(resources ...string) (*envtest.Environment, error) {
	dir := os.Getenv("KTSN_KUBERNETES_DIR")
	if dir == "" {
		return nil, fmt.Errorf("KTSN_KUBERNETES_DIR names no folder with a kube-apiserver; `make e2e` builds one")
	}
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("%w; scripts/install-deps.sh cluster installs it", err)
	}
	return &envtest.Environment{
		ControlPlane: envtest.ControlPlane{
			APIServer: &envtest.APIServer{Path: filepath.Join(dir, "kube-apiserver")},
			Etcd:      &envtest.Etcd{Path: etcd},
		},
		CRDDirectoryPaths:        resources,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}, nil
}
