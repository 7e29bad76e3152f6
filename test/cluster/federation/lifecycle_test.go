// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// secondHub is another hub, without members.
type secondHub struct {
	*plan.Plan
	program string
}

func newSecondHub(t *testing.T) *secondHub {
	t.Helper()
	p, err := plan.NewHub(fmt.Sprintf("%.20s-%d", hub.Name, os.Getpid()), clustertest.Dir(), netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	s := &secondHub{Plan: p, program: testlab.Program(t, "ktsn-cluster")}
	t.Cleanup(func() { s.run(context.WithoutCancel(t.Context()), t, "hub", "down") })
	return s
}

func (s *secondHub) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, s.program, append([]string{"--name", s.Name, "--dir", clustertest.Dir()}, arguments...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// run calls ktsn-cluster, and logs its output with the time of each line.
func (s *secondHub) run(ctx context.Context, t *testing.T, arguments ...string) {
	t.Helper()
	line := strings.Join(arguments, " ")
	var output []byte
	var err error
	took(t, line, func() { output, err = s.command(ctx, arguments...).CombinedOutput() })
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	if len(output) > 0 {
		t.Logf("%s", output)
	}
}

func (s *secondHub) isGone(t *testing.T) {
	t.Helper()
	left, err := clustertest.Leftovers(s.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n      "))
	}
}

func TestAHubThatIsTakenDownLeavesNothing(t *testing.T) {
	ctx := needFederation(t)
	s := newSecondHub(t)
	t.Run("when its start was killed", func(t *testing.T) {
		for _, after := range []time.Duration{300 * time.Millisecond, 5 * time.Second} {
			ctx, cancel := context.WithTimeout(ctx, after)
			if err := s.command(ctx, "hub", "up").Run(); err == nil {
				t.Errorf("it was up within %v, and not killed", after)
			}
			cancel()
			s.run(t.Context(), t, "hub", "down")
			s.isGone(t)
		}
	})
	t.Run("when it was complete, frozen and delayed", func(t *testing.T) {
		s.run(ctx, t, "hub", "up")
		s.run(ctx, t, "wan", "set", s.Name, "--delay", "10ms")
		s.run(ctx, t, "node", "freeze", plan.HubHost)
		s.run(ctx, t, "hub", "down")
		s.isGone(t)
	})
}
