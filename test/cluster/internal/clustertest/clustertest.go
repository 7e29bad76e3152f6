// SPDX-License-Identifier: Apache-2.0

// Package clustertest has what the tests of clusters and of federations share: the cluster that the environment names, and the traces of
// a removed cluster.
package clustertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// Name returns the name of the cluster under test from an environment variable. hint says how to start one.
func Name(variable, hint string) (string, error) {
	// The script that tried to start a cluster knows best why there is none.
	if reason := os.Getenv("KTSN_NO_CLUSTER"); reason != "" {
		return "", errors.New(reason)
	}
	name := os.Getenv(variable)
	if name == "" {
		return "", fmt.Errorf("%s is not set; %s", variable, hint)
	}
	return name, nil
}

// Patience bounds everything that takes seconds on an idle machine.
const Patience = 2 * time.Minute

// Await repeats a question until it returns nil. After Patience it fails the test with the last error.
func Await(ctx context.Context, t *testing.T, question func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := kube.Wait(ctx, question); err != nil {
		t.Fatal(err)
	}
}

// Dir returns the folder of all clusters.
func Dir() string { return cmp.Or(os.Getenv("KTSN_CLUSTER_DIR"), cluster.DefaultDir) }

// Leftovers lists everything that belongs to a cluster on this machine.
func Leftovers(p *plan.Plan) ([]string, error) {
	left := network.Left(p)
	folders, err := cgroups.Find(p.Cgroup())
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		left = append(left, "cgroup "+folder)
	}
	if _, err := os.Stat(p.Dir); !errors.Is(err, os.ErrNotExist) {
		left = append(left, "files "+p.Dir)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(mounts), p.Dir) || strings.Contains(string(mounts), p.Prefix()) {
		left = append(left, "mounts")
	}
	running, err := processes(p)
	return append(left, running...), err
}

// processes returns the processes that are in the cluster's cgroups or name its folder. Zombies do not count.
func processes(p *plan.Plan) ([]string, error) {
	var names []string
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		cgroup, _ := os.ReadFile(filepath.Join(folder, "cgroup"))   // it may have ended
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // likewise
		root, _ := os.Readlink(filepath.Join(folder, "root"))       // likewise
		if ended(folder) {
			continue
		}
		if strings.Contains(string(cgroup), p.Prefix()) || bytes.Contains(command, []byte(p.Dir)) || strings.HasPrefix(root, p.Dir) {
			names = append(names, fmt.Sprintf("process %s %q", filepath.Base(folder), command))
		}
	}
	return names, nil
}

// ended reports whether the process of a folder in /proc is a zombie or gone.
func ended(folder string) bool {
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	return err != nil || strings.Contains(string(status), "\nState:\tZ")
}
