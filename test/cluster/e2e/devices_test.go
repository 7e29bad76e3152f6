// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// TestAgentRepairsDevices changes devices of a node's network as NetworkManager, scripts and people do, and expects that messages
// arrive again within 30 s.
func TestAgentRepairsDevices(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	host := under.Nodes[1].Name
	listener := deploy(ctx, t, namespace, onChart(waiting("listener", host)))
	talker := deploy(ctx, t, namespace, timed(waiting("talker", under.Nodes[0].Name)))
	id := 300
	for name, change := range map[string]string{
		"bridge down":     "ip link set tsnbr42 down",
		"bridge deleted":  "ip link del tsnbr42",
		"tunnel deleted":  "ip link del tsnvx42",
		"tunnel released": "ip link set tsnvx42 nomaster",
		"port released":   "for port in $(ls /sys/class/net/tsnbr42/brif | grep -v tsnvx); do ip link set $port nomaster; done",
	} {
		t.Run(name, func(t *testing.T) {
			onNode(ctx, t, host, "sh", "-c", change)
			began := time.Now()
			for {
				id++
				got, err := talkOnce(ctx, talker, listener, addressOn(t, listener).String(), id, []string{"--count", "20"},
					[]string{"--count", "20", "--block", "--first-timeout", "2s", "--idle-timeout", "1s"}, nil)
				if err == nil && len(got.received) == 20 {
					t.Logf("messages arrive again after %v at most", time.Since(began).Round(time.Millisecond))
					return
				}
				if time.Since(began) > 30*time.Second {
					t.Fatalf("%d of 20 messages arrive after %v, %v", len(got.received), time.Since(began), err)
				}
			}
		})
	}
	hasEvent(ctx, t, "default", host, v1alpha1.ReasonTSNNodeRepaired)
}
