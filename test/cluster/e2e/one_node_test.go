// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
)

// This is all that a cluster of one node can show: kubelet, the runtime and Multus do their parts for the chart.
func TestOneNode(t *testing.T) {
	ctx := withChart(needCluster(t), t)
	host := under.ControlPlane().Name
	before := chartStatus(ctx, t, host)
	t.Run("with volume and network", func(t *testing.T) {
		namespace := newNamespace(ctx, t, restricted)
		pods := start(ctx, t, namespace, timed(waiting("listener", host)), timed(waiting("talker", host)))
		const count = 50
		got := talk(ctx, t, pods[1], pods[0], addressOn(t, pods[0]).String(), 1,
			[]string{"--count", strconv.Itoa(count), "--cycle", "20ms", "--lead", "10ms"},
			[]string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "60s"}, nil)
		accounted(t, got, count, func() uint64 { return 0 })
		after := chartStatus(ctx, t, host)
		if left := after.Counters["sent-bridge"] - before.Counters["sent-bridge"]; left != count {
			t.Errorf("ktsnd sent %d messages to pods of its node, want %d", left, count)
		}
	})
	t.Run("and leave nothing", func(t *testing.T) {
		await(ctx, t, func(ctx context.Context) error {
			if after := chartStatus(ctx, t, host); after.Endpoints > before.Endpoints || after.Sockets > before.Sockets {
				return fmt.Errorf("ktsnd has %d endpoints and %d sockets, before it had %d and %d", after.Endpoints, after.Sockets,
					before.Endpoints, before.Sockets)
			}
			return nil
		})
	})
}
