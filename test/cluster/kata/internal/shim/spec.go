// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// These are annotations of containerd's CRI.
const (
	kindAnnotation    = "io.kubernetes.cri.container-type"
	sandboxAnnotation = "io.kubernetes.cri.sandbox-id"
)

// readSpec reads the OCI configuration of a bundle.
func readSpec(bundle string) (*specs.Spec, error) {
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return nil, err
	}
	spec := &specs.Spec{}
	if err := json.Unmarshal(text, spec); err != nil {
		return nil, fmt.Errorf("read the description of a container: %w", err)
	}
	return spec, nil
}

func isSandbox(spec *specs.Spec) bool { return spec.Annotations[kindAnnotation] == "sandbox" }

// sandboxOf returns the ID of the pod's sandbox.
func sandboxOf(spec *specs.Spec, id string) string {
	return cmp.Or(spec.Annotations[sandboxAnnotation], id)
}

// netnsOf returns the pod's network namespace, or "" for its node's.
func netnsOf(spec *specs.Spec) string {
	if spec.Linux == nil {
		return ""
	}
	for _, namespace := range spec.Linux.Namespaces {
		if namespace.Type == specs.NetworkNamespace {
			return namespace.Path
		}
	}
	return ""
}

// processOf returns the request to start a process.
func processOf(id, container string, process *specs.Process) *protocol.Process {
	return &protocol.Process{
		ID: id, Container: container, Arguments: process.Args, Environment: process.Env, Dir: process.Cwd,
		UID: process.User.UID, GID: process.User.GID, Groups: process.User.AdditionalGids,
	}
}
