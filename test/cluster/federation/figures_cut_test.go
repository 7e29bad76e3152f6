// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

const (
	cutLasts = 60 * time.Second
	cutCycle = 2 * time.Millisecond
	// Traffic runs for these times before and after the cut.
	cutBefore, cutAfter = 5 * time.Second, 20 * time.Second
	// backWithin is for how long after the cut messages across may still be lost.
	backWithin = time.Second
)

// tai returns the time of the messages' clock.
func tai(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

// severed freezes the hub and cuts all members off the WAN for some time. It returns the begin and the end.
func severed(ctx context.Context, t *testing.T, lasts time.Duration) (began, ended int64) {
	t.Helper()
	mend := func() {
		if err := hub.Thaw(plan.HubHost); err != nil {
			t.Error(err)
		}
		for _, member := range members {
			if err := hub.MendSite(context.WithoutCancel(ctx), member.Name); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(mend)
	began = tai(t)
	if err := hub.Freeze(plan.HubHost); err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		if err := hub.CutSite(ctx, member.Name); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(lasts)
	mend()
	return began, tai(t)
}

// missing returns the transmit times of messages that did not arrive.
func missing(sent []tsnperf.Sent, received []tsnperf.Received) (lost []int64) {
	arrived := map[uint32]bool{}
	for _, message := range received {
		arrived[message.Sequence] = true
	}
	for _, message := range sent {
		if message.Errno == 0 && !arrived[message.Sequence] {
			lost = append(lost, message.Txtime)
		}
	}
	return lost
}

// cut sends timed messages within a cluster and across while there is no hub and no route between the clusters.
func (s *stations) cut(ctx context.Context, t *testing.T) {
	lasts := cutLasts
	if trial() {
		lasts /= 6
	}
	count := int((cutBefore + lasts + cutAfter) / cutCycle)
	near, far := s.near.listen(ctx, t, count, 3*time.Second), s.far.listen(ctx, t, count, lasts+10*time.Second)
	toNear, toFar := s.talk(ctx, s.near, count, cutCycle), s.talk(ctx, s.far, count, cutCycle)
	time.Sleep(cutBefore)
	began, ended := severed(ctx, t, lasts)
	sentNear, gotNear := records(t, toNear, near)
	sentFar, gotFar := records(t, toFar, far)
	s.judge(t, began, ended, [2]int{len(sentNear), len(sentFar)}, missing(sentNear, gotNear), missing(sentFar, gotFar))
	await(ctx, t, kube.ControlPlaneReady(hub.client))
	// The federator ends when it cannot renew its lease; a kubelet would restart it.
	s.f.kill()
	s.f.start()
	await(ctx, t, func(ctx context.Context) error {
		_, err := s.f.try(ctx, "clusters")
		return err
	})
	for _, member := range members {
		await(ctx, t, kube.MemberReady(hub.client, member.as))
	}
}

// judge reports the lost messages.
func (s *stations) judge(t *testing.T, began, ended int64, sent [2]int, near, far []int64) {
	t.Helper()
	gap := time.Duration(ended - began)
	outside, last := 0, began
	for _, at := range far {
		if at < began || at > ended+int64(backWithin) {
			outside++
		}
		last = max(last, at)
	}
	lostFor := time.Duration(len(far)) * cutCycle
	s.add(t,
		over(fmt.Sprintf("hub and WAN away for %.0f s: lost within a cluster", gap.Seconds()), "", float64(len(near))).most(0),
		over("hub and WAN away: lost across, more than was due meanwhile", "s", (lostFor-gap).Seconds()).most(backWithin.Seconds()),
		over("hub and WAN away: lost across before, or more than 1 s after", "", float64(outside)).most(0),
	)
	s.section("Hub and WAN away", fmt.Sprintf("All programs of the hub hang and the cables of both routers to the WAN are pulled, for %.1f s. %d timed messages were sent within a cluster and %d across,\n"+
		"one each 2 ms. Of those across %d were lost, as many as are due in %.2f s; the last one was due %.2f s after the cables were back.",
		gap.Seconds(), sent[0], sent[1], len(far), lostFor.Seconds(), time.Duration(last-ended).Seconds()), nil)
}
