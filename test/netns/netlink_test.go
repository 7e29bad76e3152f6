// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// ktsnd asks the kernel about a pod's network namespace, through sockets that are in it. A program of the pod that has
// CAP_NET_ADMIN there can send to them: what comes from it counts for nothing, and nobody waits for it.
func TestForgedNetlinkDelaysNobody(t *testing.T) {
	content(t)
	const (
		length = 3 * time.Second
		// Either it hung or it did not.
		hung = time.Second
	)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	endpoint := control.Endpoint{Identity: hostileIdentity, Interface: topology.PodInterface, Netns: enemy.pod.Path(), VNI: topology.VNI}
	running := enemy.start(t, "netlink", length)
	var longest time.Duration
	for end := time.Now().Add(length - 500*time.Millisecond); time.Now().Before(end); {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		// Each looks for the interface and its addresses.
		if err := client.EndpointDel(ctx, hostileIdentity, topology.PodInterface); err != nil {
			t.Fatal(err)
		}
		if err := client.EndpointAdd(ctx, endpoint); err != nil {
			t.Fatal(err)
		}
		cancel()
		longest = max(longest, time.Since(began))
	}
	if longest > hung {
		t.Errorf("a request about the pod's network took %v", longest)
	}
	lab.goodTraffic(t, 100, func() {})
	endpoints, err := client.Endpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(endpoints, func(e control.AttachedEndpoint) bool { return e.Identity == hostileIdentity }) {
		t.Errorf("the pod's endpoint is gone: %+v", endpoints)
	}
	// A socket takes from anybody between the two calls by which it is opened.
	if results := running.achieved(t); results["sockets"] == 0 || results["told"] == 0 || results["taken"] > results["tried"]/10 {
		t.Errorf("the hostile pod: %v; want sockets found, groups told, and next to nothing taken from it", results)
	}
	stubborn := enemy.start(t, "netlink", patience)
	time.Sleep(200 * time.Millisecond)
	if err := daemon.Stop(patience); err != nil {
		t.Errorf("ktsnd does not end beside it: %v", err)
	}
	kill(t, stubborn.Process)
}
