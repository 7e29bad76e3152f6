// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// receiveCounts are the counts of `ktsn node receive list`.
type receiveCounts struct {
	Counts struct {
		Received   uint64 `json:"received"`
		Full       uint64 `json:"full"`
		Redirected uint64 `json:"redirected"`
	} `json:"counts"`
}

// receiveOn returns the counts of a node.
func receiveOn(ctx context.Context, t *testing.T, host string) receiveCounts {
	t.Helper()
	pod, err := chartPodOn(ctx, ktsndPods, host)
	if err != nil {
		t.Fatal(err)
	}
	text, complaint, err := run(ctx, pod, "ktsnd", "/usr/bin/ktsn", "node", "receive", "list", "-o", "json")
	var counts receiveCounts
	if err == nil {
		err = json.Unmarshal([]byte(text), &counts)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, complaint)
	}
	return counts
}

// receivedShort checks that datagrams of the other node arrive in the rings of a pod that asks for them, and directly
// at the interface of one that does not.
func receivedShort(ctx context.Context, t *testing.T, namespace string) {
	const messages = 500
	host := under.Nodes[0].Name
	asks, plain := annotated(waiting("short-ring", host), "short"), annotated(waiting("short-plain", host), "short")
	asks.Annotations[v1alpha1.ReceiveAnnotation] = v1alpha1.ReceiveRing
	pods := forNow(ctx, t, namespace, asks, plain, annotated(waiting("short-talker", under.Nodes[1].Name), "short"))
	before := receiveOn(ctx, t, host)
	for number, listener := range pods[:2] {
		got := talk(ctx, t, pods[2], listener, addressOn(t, listener).String(), 940+number, []string{"--count", "500", "--lead", "5ms"},
			[]string{"--count", "500", "--block", "--idle-timeout", "30s"}, nil)
		accounted(t, got, messages, func() uint64 { return 0 })
	}
	after := receiveOn(ctx, t, host)
	if output, err := ktsn(ctx, t, "doctor", asks.Name, "--namespace", namespace); err != nil || !strings.Contains(output, "datagrams came into them") {
		t.Errorf("of the pod with rings ktsn doctor says %v: %s", err, output)
	}
	rings, redirected := after.Counts.Received-before.Counts.Received, after.Counts.Redirected-before.Counts.Redirected
	// A socket has its ring once the listener has asked for one.
	if rings < messages*9/10 || redirected < messages*9/10 || after.Counts.Full != before.Counts.Full {
		t.Errorf("of %d messages to each pod %d came into rings, and %d past the bridge: %+v", messages, rings, redirected, after)
	}
}
