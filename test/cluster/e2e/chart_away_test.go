// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// While its node's ktsnd is replaced, a real pod sees no socket, but still the library.
func TestProgramStartsWithoutKtsnd(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	listener := deploy(ctx, t, namespace, onChart(waiting("listener", under.Nodes[1].Name)))
	talker := deploy(ctx, t, namespace, timed(waiting("talker", under.Nodes[0].Name)))
	host := under.Nodes[0].Name
	patiently(t, func(attempt, _ int) string {
		waitForChart(ctx, t)
		if !endKtsnd(ctx, t, host, talker) {
			return "the next ktsnd was there before anybody saw that the last one had gone"
		}
		began := time.Now()
		const count = 2000
		got := talk(ctx, t, talker, listener, addressOn(t, listener).String(), 200+attempt,
			[]string{"--count", strconv.Itoa(count), "--cycle", "2ms", "--lead", "5ms"},
			[]string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "10s"}, nil)
		uncertain := chartStatus(ctx, t, host).Counters["uncertain"]
		states, err := chartStates(ctx)
		if err != nil {
			t.Fatal(err)
		}
		refused := withoutRefused(&got)
		t.Logf("%d messages were refused while no ktsnd was there", refused)
		accounted(t, got, count-refused, func() uint64 { return uncertain })
		// Start times are in whole seconds.
		if started := states[host].started; started.Before(began.Truncate(time.Second)) {
			return fmt.Sprintf("the next ktsnd was there at %v, and the program began at %v", started, began)
		}
		return ""
	})
}

// endKtsnd deletes the pod of ktsnd on a node and waits until ktsnd has removed the talker's socket. It returns false
// if the next ktsnd was quicker.
func endKtsnd(ctx context.Context, t *testing.T, host string, talker *corev1.Pod) (away bool) {
	t.Helper()
	pod, err := chartPodOn(ctx, ktsndPods, host)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Pods(chartSystem).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	folder := "/run/ktsn/pods/" + string(talker.UID)
	await(ctx, t, func(ctx context.Context) error {
		output, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", "test ! -e "+folder+"/app.sock && test -e "+folder+"/libktsn.so")
		if err == nil {
			away = true
			return nil
		}
		if next, errNext := chartPodOn(ctx, ktsndPods, host); errNext == nil && next.UID != pod.UID {
			return nil
		}
		return fmt.Errorf("ktsnd has not ended: %w, %s", err, output)
	})
	return away
}

// withoutRefused removes the messages that the application knows were not sent, and returns their number.
func withoutRefused(got *exchange) int {
	kept := got.sent[:0]
	for _, message := range got.sent {
		if syscall.Errno(message.Errno) != syscall.ENETDOWN {
			kept = append(kept, message)
		}
	}
	refused := len(got.sent) - len(kept)
	got.sent = kept
	return refused
}
