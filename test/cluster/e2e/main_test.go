// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// The cluster under test, nil if there is none.
var (
	under         *cluster.Cluster
	config        *rest.Config
	client        kubernetes.Interface
	dynamicClient dynamic.Interface
	whyNot        string
	firstFew      = 10 * time.Second
)

const patience = clustertest.Patience

var await = clustertest.Await

func TestMain(m *testing.M) {
	if err := connect(); err != nil {
		whyNot = err.Error()
	}
	os.Exit(m.Run())
}

func connect() error {
	name, err := clustertest.Name("KTSN_CLUSTER", "`make e2e` makes one")
	if err != nil {
		return err
	}
	opened, err := cluster.Open(name, clustertest.Dir())
	if err != nil {
		return err
	}
	config, err = opened.Config()
	if err != nil {
		return err
	}
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if dynamicClient, err = dynamic.NewForConfig(config); err != nil {
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

// haveCluster skips a test without a cluster.
func haveCluster(t *testing.T) {
	t.Helper()
	if under == nil {
		testlab.Missing(t, whyNot)
	}
}

// needCluster waits until the nodes and the system's pods have recovered from earlier tests, and returns a context that
// bounds the test.
func needCluster(t *testing.T) context.Context {
	t.Helper()
	haveCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	waitForNodes(ctx, t)
	waitForSystem(ctx, t)
	return ctx
}

// needTwoNodes is needCluster for tests that need two nodes.
func needTwoNodes(t *testing.T) context.Context {
	t.Helper()
	ctx := needCluster(t)
	if len(under.Nodes) < 2 {
		testlab.Missing(t, "needs two nodes")
	}
	return ctx
}
