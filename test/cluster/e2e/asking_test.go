// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/asker"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

const (
	askerName = "asker"
	// A client sends requests for asksBefore before a failure, and must be answered for answered at the end.
	asksBefore, answered = 3 * time.Second, 3 * time.Second
)

// watchedService is the service whose clients send requests continuously.
const watchedService = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNService
metadata: {name: watched, namespace: %[1]s}
spec:
  ipv4: {linkCIDR: 10.202.0.0/16}
  ipv6: {linkCIDR: "fd00:202::/64"}
  prefer: SameCluster
`

// watched is a client that sends requests to its endpoint continuously, in a namespace that may mount the asker from
// its node.
type watched struct {
	namespace               string
	client, endpoint, spare *corev1.Pod
	// began is when the client was first answered, died the time of the failure.
	began, died time.Time
	restarts    int32
}

// newWatched creates a namespace with the service, and copies the asker to the nodes.
func newWatched(ctx context.Context, t *testing.T) *watched {
	t.Helper()
	clustertest.BringAsker(ctx, t, under)
	w := &watched{namespace: newNamespace(ctx, t, privileged)}
	applyText(ctx, t, fmt.Sprintf(watchedService, w.namespace))
	return w
}

// asking returns a client that sends requests, and from which timed messages can be sent.
func asking(name, host string) *corev1.Pod {
	pod := labelled(waiting(name, host), "client.kubernetsn.io/watched=cam")
	asks := *pod.Spec.Containers[0].DeepCopy()
	asks.Name, asks.Args = askerName, nil
	asks.Command = []string{asker.Program, "--name", "watched", "--port", strconv.Itoa(udpPort)}
	asks.VolumeMounts = append(asks.VolumeMounts, corev1.VolumeMount{Name: askerName, MountPath: asker.Folder, ReadOnly: true})
	pod.Spec.Containers = append(pod.Spec.Containers, asks)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: askerName, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: asker.Folder},
	}})
	return pod
}

// answering returns an endpoint, to which timed messages can be sent as well.
func answering(name, host string) *corev1.Pod {
	pod := labelled(agnhost(name, host), "endpoint.kubernetsn.io/watched=view")
	pod.Spec.Containers = append(pod.Spec.Containers, waiting(name, host).Spec.Containers...)
	return pod
}

// begins creates the pods: the client on the first node, its endpoint on the second, and a spare endpoint on spareOn
// unless it is "".
func (w *watched) begins(ctx context.Context, t *testing.T, spareOn string) {
	t.Helper()
	w.endpoint = start(ctx, t, w.namespace, answering("endpoint", under.Nodes[1].Name))[0]
	w.client = start(ctx, t, w.namespace, asking("client", under.Nodes[0].Name))[0]
	waitLink(ctx, t, w.client, w.endpoint)
	if spareOn != "" {
		w.spare = start(ctx, t, w.namespace, answering("spare", spareOn))[0]
	}
	w.isAnswered(ctx, t, w.endpoint)
	w.restarts, w.began = kube.Restarts(w.client), time.Now()
	time.Sleep(asksBefore)
}

// ends removes the pods.
func (w *watched) ends(ctx context.Context, t *testing.T) {
	t.Helper()
	pods := client.CoreV1().Pods(w.namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	await(ctx, t, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are still there", len(list.Items))
		}
		return err
	})
}

// rows returns the client's records.
func (w *watched) rows(ctx context.Context) ([]asker.Row, error) {
	return clustertest.Rows(ctx, client, w.client, askerName)
}

// isAnswered waits until one of these pods answers the client, and the client's link leads to it.
func (w *watched) isAnswered(ctx context.Context, t *testing.T, by ...*corev1.Pod) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		link, err := linkOf(ctx, w.client)
		if err != nil || link == nil {
			return fmt.Errorf("the client has no link: %w", err)
		}
		if !slices.ContainsFunc(by, func(pod *corev1.Pod) bool { return string(pod.UID) == link.Spec.Endpoint.UID }) {
			return fmt.Errorf("the link leads to %s", link.Spec.Endpoint.Pod)
		}
		rows, err := w.rows(ctx)
		if err != nil {
			return err
		}
		at, from := asker.Last(rows)
		if at.Before(w.died) || time.Since(at) > time.Second || !slices.Contains(link.Spec.Endpoint.Addresses, netip.PrefixFrom(from, 31).String()) {
			return fmt.Errorf("the last answer came %v ago, from %s, and the link leads to %v", time.Since(at), from, link.Spec.Endpoint.Addresses)
		}
		return nil
	})
}

// judged returns the failure's effect on the client and its requests.
func (w *watched) judged(ctx context.Context, t *testing.T, name string) asker.Outcome {
	t.Helper()
	time.Sleep(asker.Decided)
	rows, err := w.rows(ctx)
	if err != nil {
		t.Fatal(err)
	}
	outcome := asker.Outcome{Name: name}
	outcome.Add(asker.Judge(rows, w.began, w.died), asker.Judge(rows, w.died, time.Now().Add(-asker.Decided)))
	now, err := client.CoreV1().Pods(w.namespace).Get(ctx, w.client.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	outcome.Kept = now.UID == w.client.UID && kube.Restarts(now) == w.restarts
	link, err := linkOf(ctx, w.client)
	if err != nil || link == nil {
		t.Fatalf("the client has no link: %v", err)
	}
	outcome.To = link.Spec.Endpoint.Pod
	t.Logf("%s", &outcome)
	return outcome
}
