// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// outside returns a pod on a network whose tsnperf container has no libktsn.so: only another container gets it.
func outside(name, host, networks string) *corev1.Pod {
	pod := annotated(waiting(name, host), networks)
	inside := *pod.Spec.Containers[0].DeepCopy()
	inside.Name, inside.Args[2] = "inside", "127.0.0.1:9998"
	pod.Spec.Containers = append(pod.Spec.Containers, inside)
	pod.Annotations[v1alpha1.ContainersAnnotation] = inside.Name
	return pod
}

// captures waits until a node reports that ktsnd sends the frames of the network's pods.
func captures(ctx context.Context, t *testing.T, name, host string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		statuses, err := onNodes(ctx, name)
		if err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(statuses[host].Conditions, v1alpha1.ConditionCaptureOperational) {
			return fmt.Errorf("of network %s %s says %+v", name, host, statuses[host].Conditions)
		}
		return nil
	})
}

// forNow starts pods that are deleted when the test ends, because their relays are processes of ktsnd.
func forNow(ctx context.Context, t *testing.T, namespace string, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	for _, pod := range pods {
		t.Cleanup(func() {
			if err := client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	return start(ctx, t, namespace, pods...)
}

// captured sends timed messages to the other node from a program without libktsn.so and without privileges: the kernel
// allows it CLOCK_MONOTONIC. None arrives early, as those that the kernel sends would, and all go through ktsnd. Then
// captured kills the relay.
func captured(ctx context.Context, t *testing.T, namespace string, listener *corev1.Pod) {
	host := under.Nodes[0].Name
	talker := forNow(ctx, t, namespace, outside("outside", host, "tsn"))[0]
	captures(ctx, t, "tsn", host)
	for round, sentence := range []string{"at first", "after its relay was killed"} {
		before := chartStatus(ctx, t, host).Counters["sent"]
		got := talk(ctx, t, talker, listener, addressOn(t, listener).String(), 920+round,
			[]string{"--count", "500", "--lead", "5ms", "--clock", "monotonic"}, []string{"--count", "500", "--block", "--idle-timeout", "30s"}, nil)
		accounted(t, got, 500, func() uint64 { return 0 })
		if sent := chartStatus(ctx, t, host).Counters["sent"] - before; sent < 500 {
			t.Errorf("%s ktsnd has sent %d messages", sentence, sent)
		}
		if round == 0 {
			killRelays(ctx, t, host)
			captures(ctx, t, "tsn", host)
		}
	}
}

// killRelays kills the relays of a node, and waits until others run. No condition shows that: a relay that was just
// killed is not reported.
func killRelays(ctx context.Context, t *testing.T, host string) {
	t.Helper()
	relays := func(ctx context.Context) ([]string, error) {
		pids, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", "pgrep -x ktsn-relay || true")
		return strings.Fields(pids), err
	}
	killed, err := relays(ctx)
	if err != nil || len(killed) == 0 {
		t.Fatalf("the relays of %s are %v, %v", host, killed, err)
	}
	killOn(ctx, t, host, "ktsn-relay")
	await(ctx, t, func(ctx context.Context) error {
		running, err := relays(ctx)
		if err != nil {
			return err
		}
		left := func(pid string) bool { return slices.Contains(killed, pid) }
		if len(running) < len(killed) || slices.ContainsFunc(running, left) {
			return fmt.Errorf("on %s the relays %v were killed, and %v run", host, killed, running)
		}
		return nil
	})
}

// capturedWholly checks that pods of a fully captured network reach each other, and that ktsnd sends their frames.
func capturedWholly(ctx context.Context, t *testing.T, namespace string) {
	pods := forNow(ctx, t, namespace, annotated(agnhost("one-whole", under.Nodes[0].Name), "whole"), annotated(agnhost("other-whole", under.Nodes[1].Name), "whole"))
	pod, other := pods[0], pods[1]
	for _, host := range under.Nodes {
		captures(ctx, t, "whole", host.Name)
	}
	before := chartStatus(ctx, t, under.Nodes[0].Name).Counters["untimed"]
	reaches(ctx, t, pod, other, addressOn(t, other).String())
	reaches(ctx, t, other, pod, addressOn(t, pod).String())
	if untimed := chartStatus(ctx, t, under.Nodes[0].Name).Counters["untimed"] - before; untimed == 0 {
		t.Error("ktsnd has sent nothing of it")
	}
}
