// SPDX-License-Identifier: Apache-2.0

//go:build healing

package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/asker"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
)

// death is a failure while a client is answered continuously.
type death struct {
	name string
	// spare is the node of another endpoint: 0 is the client's node, 1 that of the first endpoint, -1 none.
	spare int
	// die causes the failure, and returns once recovery is possible.
	die func(w *watched, ctx context.Context, t *testing.T)
	// stays means that the client keeps its endpoint, unnoticed that nothing may be lost.
	stays, unnoticed bool
	// replaced means that the client itself dies, and another one is answered.
	replaced bool
	// nodeAway means that the endpoint's node is off until the end.
	nodeAway bool
	// timed is for how long timed messages are sent as well, only if the endpoint stays.
	timed time.Duration
}

const (
	nowhere = -1
	// away is for how long something is off that is not only restarted.
	away = 5 * time.Second
)

// TestHealing measures for how long a client is not answered when something that its link needs fails. `make
// bench-healing` runs it.
func TestHealing(t *testing.T) {
	ctx := needTwoNodes(t)
	budget, err := cgroups.Realtime(under.Cgroup())
	if err != nil && cgroups.RealtimeDivided() {
		t.Fatal(err)
	}
	// On nodes without real-time budget, each start of ktsnd would first wait for some.
	withOperator(ctx, t, "--set", "operator.linger=1h", "--set", fmt.Sprintf("ktsnd.cgroupV1=%v", cgroups.RealtimeDivided() && budget > 0))
	w := newWatched(ctx, t)
	var all []asker.Outcome
	for i, victim := range deaths() {
		t.Run(victim.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			all = append(all, w.dies(ctx, t, &victim, 100*i))
			// Write after each failure, so that an interrupted run keeps its results.
			if folder := os.Getenv("KTSN_HEALING_OUT"); folder != "" {
				if err := asker.Write(folder, "cluster", all); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// dies causes a failure, and returns its effect on the client.
func (w *watched) dies(ctx context.Context, t *testing.T, victim *death, id int) asker.Outcome {
	t.Helper()
	clustertest.RenewPods(ctx, t, client, chartSystem)
	await(ctx, t, func(ctx context.Context) error {
		_, err := leader(ctx)
		return err
	})
	operatorOn(ctx, t, under.Nodes[0].Name) // where the client will be, and which stays
	defer func() {
		ctx := context.WithoutCancel(ctx)
		if victim.nodeAway {
			comeBack(ctx, t, under.Nodes[1])
		}
		w.ends(ctx, t)
	}()
	spareOn := ""
	if victim.spare != nowhere {
		spareOn = under.Nodes[victim.spare].Name
	}
	*w = watched{namespace: w.namespace}
	w.begins(ctx, t, spareOn)
	var timed func() *asker.Timed
	if victim.timed > 0 {
		timed = w.timedOver(ctx, t, id, victim.timed)
		time.Sleep(asksBefore)
	}
	w.died = time.Now()
	victim.die(w, ctx, t)
	if victim.stays {
		waitForChart(ctx, t)
		w.isAnswered(ctx, t, w.endpoint)
	} else {
		w.isAnswered(ctx, t, w.spare)
	}
	time.Sleep(answered)
	var timedFound *asker.Timed
	if timed != nil {
		timedFound = timed()
	}
	outcome := w.judged(ctx, t, victim.name)
	outcome.Timed = timedFound
	if !outcome.Kept {
		t.Error("the client was replaced or started again")
	}
	outcome.Kept = outcome.Kept && !victim.replaced
	if victim.unnoticed && (outcome.Lost > 0 || timedFound != nil && timedFound.Lost > 0) {
		t.Errorf("messages were lost: %s", &outcome)
	}
	return outcome
}

// timedOver sends timed messages over the client's link for a time, from now on.
func (w *watched) timedOver(ctx context.Context, t *testing.T, id int, lasts time.Duration) (wait func() *asker.Timed) {
	t.Helper()
	const cycle = 10 * time.Millisecond
	link := waitLink(ctx, t, w.client, w.endpoint)
	address, count := addressOf(t, &link.Spec.Endpoint, true).String(), strconv.Itoa(int(lasts/cycle))
	done := make(chan *asker.Timed)
	go func() {
		defer close(done)
		got, err := talkOnce(ctx, w.client, w.endpoint, address, id, []string{"--count", count, "--cycle", cycle.String(), "--lead", "5ms"},
			[]string{"--count", count, "--block", "--idle-timeout", "20s"}, nil)
		if err != nil {
			t.Errorf("timed messages: %v", err)
			return
		}
		done <- asker.JudgeTimed(got.sent, got.received)
	}()
	return func() *asker.Timed { return <-done }
}
