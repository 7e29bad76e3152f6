// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// program returns the path of a built program, and skips the test where there is none or no root.
func program(t testing.TB, name string) string {
	t.Helper()
	testlab.Root(t)
	return testlab.Program(t, name)
}

// referencePlugins is the folder of the plugins of the CNI project, built once and kept in the build folder.
func referencePlugins(t testing.TB) string {
	t.Helper()
	dir, err := buildReferences()
	if err != nil {
		testlab.Missing(t, "the reference plugins cannot be built: "+err.Error())
	}
	return dir
}

var buildReferences = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../build/cni-plugins")
	if err != nil {
		return "", err
	}
	const module = "github.com/containernetworking/plugins/plugins/"
	return dir, build("../../scripts/cni-plugins", dir, module+"ipam/host-local", module+"ipam/static",
		module+"main/bridge", module+"meta/tuning")
})

// killablePlugin is the folder of a tsn-cni that can be told to kill itself at a fault point.
func killablePlugin(t testing.TB) string {
	t.Helper()
	dir, err := buildKillable()
	if err != nil {
		testlab.Missing(t, "tsn-cni cannot be built with fault points: "+err.Error())
	}
	return dir
}

var buildKillable = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../build/cni-killable")
	if err != nil {
		return "", err
	}
	return dir, build("../..", dir, "-tags=ktsn_faults", "./cmd/tsn-cni")
})

// build runs `go build`, which does nothing when nothing has changed.
func build(from, into string, arguments ...string) error {
	script, err := filepath.Abs("../../scripts/go.sh")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	command := exec.Command(script, append([]string{"build", "-buildvcs=false", "-o", into + "/"}, arguments...)...)
	command.Dir = from
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, output)
	}
	return nil
}
