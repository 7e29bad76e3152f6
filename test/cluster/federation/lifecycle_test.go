// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// newSecondHub returns another hub, without members.
func newSecondHub(t *testing.T) *clustertest.Other {
	t.Helper()
	p, err := plan.NewHub(fmt.Sprintf("%.20s-%d", hub.Name, os.Getpid()), clustertest.Dir(), netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	s := clustertest.NewOther(t, p)
	t.Cleanup(func() { runTimed(context.WithoutCancel(t.Context()), t, s, "hub", "down") })
	return s
}

// runTimed calls ktsn-cluster, and logs its output with the time of each line.
func runTimed(ctx context.Context, t *testing.T, s *clustertest.Other, arguments ...string) {
	t.Helper()
	line := strings.Join(arguments, " ")
	var output []byte
	var err error
	took(t, line, func() { output, err = s.Command(ctx, arguments...).CombinedOutput() })
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	if len(output) > 0 {
		t.Logf("%s", output)
	}
}

func TestHubDownLeavesNothing(t *testing.T) {
	ctx := needFederation(t)
	s := newSecondHub(t)
	t.Run("when its start was killed", func(t *testing.T) {
		for _, after := range []time.Duration{300 * time.Millisecond, 5 * time.Second} {
			ctx, cancel := context.WithTimeout(ctx, after)
			if err := s.Command(ctx, "hub", "up").Run(); err == nil {
				t.Errorf("it was up within %v, and not killed", after)
			}
			cancel()
			runTimed(t.Context(), t, s, "hub", "down")
			s.IsGone(t)
		}
	})
	t.Run("when it was complete, frozen and delayed", func(t *testing.T) {
		runTimed(ctx, t, s, "hub", "up")
		runTimed(ctx, t, s, "wan", "set", s.Name, "--delay", "10ms")
		runTimed(ctx, t, s, "node", "freeze", plan.HubHost)
		runTimed(ctx, t, s, "hub", "down")
		s.IsGone(t)
	})
}
