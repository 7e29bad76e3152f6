// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
)

// restFor is the time of a measurement at rest, restTurns their number.
const (
	restFor   = 20 * time.Second
	restTurns = 3
)

// used is the processor and memory usage of programs.
type used struct{ cores, mebibytes float64 }

func (u *used) take(more cluster.Usage) {
	u.cores += more.Cores
	u.mebibytes += float64(more.PSSBytes) / (1 << 20)
}

// looked is the result of one turn.
type looked struct{ hub, federator, agent used }

// look measures the hub, the federator and the members' agents in the same seconds.
func (b *bench) look(ctx context.Context, t *testing.T) (seen looked) {
	t.Helper()
	type view struct {
		usage []cluster.Usage
		err   error
	}
	views := make([]view, 4)
	var all sync.WaitGroup
	for i, use := range []func() ([]cluster.Usage, error){
		func() ([]cluster.Usage, error) { return hub.Usage(ctx, restFor) },
		func() ([]cluster.Usage, error) { return cluster.UsageOf(ctx, b.f.process.Process.Pid, restFor) },
		func() ([]cluster.Usage, error) { return b.east.Usage(ctx, restFor) },
		func() ([]cluster.Usage, error) { return b.west.Usage(ctx, restFor) },
	} {
		all.Go(func() { views[i].usage, views[i].err = use() })
	}
	all.Wait()
	for i, view := range views {
		if view.err != nil {
			t.Fatal(view.err)
		}
		for _, usage := range view.usage {
			switch {
			case i == 0:
				seen.hub.take(usage)
			case i == 1:
				seen.federator.take(usage)
			case usage.Program == "karmada-agent":
				// Use the mean of both members.
				seen.agent.cores += usage.Cores / 2
				seen.agent.mebibytes += float64(usage.PSSBytes) / (1 << 20) / 2
			}
		}
	}
	return seen
}

// rest measures restTurns times.
func (b *bench) rest(ctx context.Context, t *testing.T) (cores, mebibytes, agent, agentCores []float64, rows [][]string) {
	t.Helper()
	rows = [][]string{{"turn", "hub", "federator", "agent of a member, mean"}}
	for turn := range times(restTurns) {
		seen := b.look(ctx, t)
		cores = append(cores, seen.hub.cores+seen.federator.cores)
		mebibytes = append(mebibytes, seen.hub.mebibytes+seen.federator.mebibytes)
		agent, agentCores = append(agent, seen.agent.mebibytes), append(agentCores, seen.agent.cores)
		rows = append(rows, []string{strconv.Itoa(turn + 1), seen.hub.String(), seen.federator.String(), seen.agent.String()})
	}
	return cores, mebibytes, agent, agentCores, rows
}

func (u used) String() string { return fmt.Sprintf("%.4f cores, %.0f MiB", u.cores, u.mebibytes) }

// atRest measures the usage of the hub, the federator and a member's agent while nothing happens.
func (b *bench) atRest(ctx context.Context, t *testing.T) {
	time.Sleep(restFor) // until caches are filled
	cores, mebibytes, agent, agentCores, rows := b.rest(ctx, t)
	b.add(t,
		over("at rest: hub with federator", "cores", cores...).most(0.06),
		over("at rest: hub with federator, memory", "MiB", mebibytes...).most(750),
		over("at rest: a member's agent, memory", "MiB", agent...).most(100),
		over("at rest: a member's agent", "cores", agentCores...),
	)
	b.section("At rest", fmt.Sprintf("Each turn lasts %.0f s. Memory is the proportional set size (PSS) of all processes: of the hub those of etcd, Kubernetes and\nKarmada.",
		restFor.Seconds()), rows)
}
