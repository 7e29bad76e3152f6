// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// The cluster under test, nil without one.
var (
	under    *cluster.Cluster
	config   *rest.Config
	client   kubernetes.Interface
	whyNot   string
	firstFew = 10 * time.Second
)

// patience is how long anything may take that takes seconds on an idle machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if err := connect(); err != nil {
		whyNot = err.Error()
	}
	os.Exit(m.Run())
}

func connect() error {
	// Whoever tried to start one knows best why there is none.
	if reason := os.Getenv("KTSN_NO_CLUSTER"); reason != "" {
		return errors.New(reason)
	}
	name := os.Getenv("KTSN_CLUSTER")
	if name == "" {
		return fmt.Errorf("KTSN_CLUSTER names no cluster; `make e2e` makes one")
	}
	opened, err := cluster.Open(name, clusterDir())
	if err != nil {
		return err
	}
	config, err = opened.Config()
	if err != nil {
		return err
	}
	client, err = kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstFew)
	defer cancel()
	if err := kube.Wait(ctx, kube.ControlPlaneReady(client)); err != nil {
		return err
	}
	under = opened
	return nil
}

func clusterDir() string {
	if dir := os.Getenv("KTSN_CLUSTER_DIR"); dir != "" {
		return dir
	}
	return cluster.DefaultDir
}

// haveCluster skips a test where there is none.
func haveCluster(t *testing.T) {
	t.Helper()
	if under == nil {
		testlab.Missing(t, whyNot)
	}
}

// needCluster has one whose nodes and what runs on them are as they should be, which the test before may have disturbed, and
// bounds what a test does.
func needCluster(t *testing.T) context.Context {
	t.Helper()
	haveCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	waitForNodes(ctx, t)
	waitForSystem(ctx, t)
	return ctx
}

// needTwoNodes skips a test that has nothing to test in a smaller cluster.
func needTwoNodes(t *testing.T) context.Context {
	t.Helper()
	ctx := needCluster(t)
	if len(under.Nodes) < 2 {
		testlab.Missing(t, "needs two nodes")
	}
	return ctx
}
