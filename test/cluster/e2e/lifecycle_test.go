// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// second is another cluster on this machine, of one node, for the tests of start and removal.
type second struct{ *clustertest.Other }

func newSecond(t *testing.T) *second {
	t.Helper()
	haveCluster(t)
	// The name combines the first cluster's and this process's, so that two test runs do not conflict.
	p, err := plan.New(fmt.Sprintf("%.20s-%d", under.Name, os.Getpid()), clustertest.Dir(), 1, netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	s := &second{clustertest.NewOther(t, p)}
	t.Cleanup(func() {
		if output, err := s.command(context.WithoutCancel(t.Context()), "down").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	})
	return s
}

// command returns a call of ktsn-cluster for the second cluster.
func (s *second) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	arguments = append([]string{name}, arguments...)
	if name == "up" {
		// Real-time budget is scarce, and not used here.
		arguments = append(arguments, "--nodes", "1", "--realtime", "10000")
		if cache := os.Getenv("KTSN_CLUSTER_CACHE"); cache != "" {
			arguments = append(arguments, "--cache", cache)
		}
	}
	return s.Command(ctx, arguments...)
}

// run calls ktsn-cluster and expects success.
func (s *second) run(ctx context.Context, t *testing.T, name string, arguments ...string) string {
	t.Helper()
	output, err := s.command(ctx, name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, output)
	}
	return string(output)
}

func TestSecondCluster(t *testing.T) {
	ctx := needCluster(t)
	s := newSecond(t)
	s.IsGone(t)
	s.run(ctx, t, "up")
	c, err := cluster.Open(s.Name, clustertest.Dir())
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func(context.Context) error{
		"the first":  kube.SystemReady(client, len(under.Nodes)),
		"the second": kube.SystemReady(other, 1),
	} {
		if err := kube.Wait(ctx, check); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if output := s.run(ctx, t, "up"); !strings.Contains(output, "is up already") {
		t.Errorf("up of a cluster that is up says %q", output)
	}
	if output := s.run(ctx, t, "status"); !strings.Contains(output, "node1") || !strings.Contains(output, "kube-apiserver") {
		t.Errorf("status says %q", output)
	}
	if output := s.run(ctx, t, "kubeconfig"); strings.TrimSpace(output) != c.Kubeconfig() {
		t.Errorf("kubeconfig says %q", output)
	}
	if output := s.run(ctx, t, "logs", "node1", "kubelet"); !strings.Contains(output, "node1 kubelet") {
		t.Errorf("logs says %.200q", output)
	}
	refuses(ctx, t, s, "cluster "+s.Name+" has no node \"node2\"", "node", "cut", "node2")
	refuses(ctx, t, s, "node1 carries the control plane", "node", "stop", "node1")
	s.run(ctx, t, "down")
	s.IsGone(t)
	s.run(ctx, t, "down")
	refuses(ctx, t, s, "there is no such cluster", "status")
	if err := kube.Wait(ctx, kube.SystemReady(client, len(under.Nodes))); err != nil {
		t.Errorf("the first is disturbed: %v", err)
	}
}

// refuses expects that a command fails with a one-line message that contains sentence.
func refuses(ctx context.Context, t *testing.T, s *second, sentence, name string, arguments ...string) {
	t.Helper()
	output, err := s.command(ctx, name, arguments...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), sentence) || strings.Count(string(output), "\n") != 1 {
		t.Errorf("%s %q: %v, it says %q, want %q", name, arguments, err, output, sentence)
	}
}

// TestKilledStartIsRemoved kills a start at several moments: while it creates the network, starts nodes, starts the
// control plane, and starts pods. It also kills the next start, and the removal.
func TestKilledStartIsRemoved(t *testing.T) {
	t.Parallel()
	s, ctx := newSecond(t), t.Context()
	killed := 0
	for _, after := range []time.Duration{50, 200, 400, 1000, 8000} {
		after *= time.Millisecond
		t.Run("after "+after.String(), func(t *testing.T) {
			if !s.killAfter(ctx, t, after, "up") {
				t.Error("the start ended by itself")
			}
			// The next start finds these traces.
			if after == 400*time.Millisecond && !s.killAfter(ctx, t, 600*time.Millisecond, "up") {
				t.Error("the next start ended by itself")
			}
			if s.killAfter(ctx, t, 50*time.Millisecond, "down") {
				killed++
			}
			s.run(ctx, t, "down")
			s.IsGone(t)
		})
	}
	if killed == 0 {
		t.Error("every removal was over before it was killed")
	}
}

// killAfter starts a command and kills it after a time. It reports false if the command had ended before.
func (s *second) killAfter(ctx context.Context, t *testing.T, after time.Duration, name string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	output, err := s.command(ctx, name).CombinedOutput()
	if ctx.Err() == nil {
		t.Logf("%s ended by itself, with %v: %s", name, err, output)
	}
	return ctx.Err() != nil && err != nil
}
