// SPDX-License-Identifier: Apache-2.0

// Package chart installs the project's chart in test clusters.
package chart

import (
	"context"
	"os"
	"os/exec"
)

// Helm runs helm with the rights of a cluster's administrator, and returns its output.
func Helm(ctx context.Context, program, kubeconfig string, arguments ...string) (string, error) {
	dir, err := os.MkdirTemp("", "ktsn-helm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	output, err := command.CombinedOutput()
	return string(output), err
}
