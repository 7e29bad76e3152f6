// SPDX-License-Identifier: Apache-2.0

//go:build healing

package federation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/asker"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

const (
	// A client sends requests for asksBefore before a failure, and must be answered for answered at the end.
	asksBefore, answered = 5 * time.Second, 3 * time.Second
)

// mayMount lets pods of a namespace mount folders of their nodes, in all members.
func mayMount(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	const label = "pod-security.kubernetes.io/enforce"
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"privileged"}}}`, label)
	if _, err := hub.client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		await(ctx, t, func(ctx context.Context) error {
			current, err := member.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			if err == nil && current.Labels[label] != "privileged" {
				err = fmt.Errorf("%s: the labels of %s are %v", member.Name, namespace, current.Labels)
			}
			return err
		})
	}
}

// waitingContainer is the container that sends and receives timed messages.
const waitingContainer = `
    - {name: tsnperf, image: "localhost/kubernetsn/tsnperf:dev", imagePullPolicy: Never,
       args: [listener, --bind, "127.0.0.1:0", --block, --first-timeout, "0", --quiet]}
`

// askingPod returns a client of a service that sends requests by both versions of IP.
func askingPod(namespace, name, service string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: %[1]s, name: %[3]s, labels: {client.kubernetsn.io/%[4]s: cam}}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  volumes: [{name: asker, hostPath: {path: %[2]s}}]
  containers:
    - {name: asker, image: "localhost/kubernetsn/tsnperf:dev", imagePullPolicy: Never, command: [%[2]s/asker, --name, %[4]s],
       volumeMounts: [{name: asker, mountPath: %[2]s, readOnly: true}]}
    - {name: asker6, image: "localhost/kubernetsn/tsnperf:dev", imagePullPolicy: Never, command: [%[2]s/asker, --name, %[4]s, "-6"],
       volumeMounts: [{name: asker, mountPath: %[2]s, readOnly: true}]}
%[5]s`, namespace, asker.Folder, name, service, waitingContainer)
}

// answeringPod returns an endpoint with labels.
func answeringPod(namespace, name, labels string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: %[1]s, name: %[2]s, labels: {%[3]s}}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
    - name: agnhost
      image: "kubernetsn.io/agnhost:%[4]s"
      imagePullPolicy: Never
      args: [netexec, --http-port=8080, --udp-port=8081]
      readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
%[5]s`, namespace, name, labels, components.Tag, waitingContainer)
}

// watched is a client in east that sends requests to its endpoint in west continuously.
type watched struct {
	namespace   string
	east, west  *place
	client      *corev1.Pod
	began, died time.Time
	restarts    int32
	// lost6 is how many IPv6 requests were lost since the failure.
	lost6 int
}

// pod waits until a pod is ready.
func (p *place) pod(ctx context.Context, t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	await(ctx, t, func(ctx context.Context) (err error) {
		pod, err = p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if kube.Ready(pod) {
			return nil
		}
		return fmt.Errorf("pod %s is %s", name, pod.Status.Phase)
	})
	return pod
}

// begins creates the pods, and with spare another endpoint in the client's cluster, which the client does not use at
// first.
func (w *watched) begins(ctx context.Context, t *testing.T, spare bool) {
	t.Helper()
	w.west.apply(ctx, t, answeringPod(w.namespace, "endpoint", "endpoint.kubernetsn.io/watched: view"))
	w.west.pod(ctx, t, w.namespace, "endpoint")
	w.east.apply(ctx, t, askingPod(w.namespace, "client", "watched"))
	w.client = w.east.pod(ctx, t, w.namespace, "client")
	w.isAnswered(ctx, t, w.west)
	if spare {
		w.east.apply(ctx, t, answeringPod(w.namespace, "spare", "endpoint.kubernetsn.io/watched: view"))
		w.east.pod(ctx, t, w.namespace, "spare")
	}
	w.restarts, w.began = kube.Restarts(w.client), time.Now()
	time.Sleep(asksBefore) // in which the hub hears of the spare one
}

// timedOver sends timed messages over the client's link for a time, from now on.
func (w *watched) timedOver(ctx context.Context, t *testing.T, lasts time.Duration) (wait func() *asker.Timed) {
	t.Helper()
	const cycle, port = 10 * time.Millisecond, "7788"
	var link v1alpha1.TSNLink
	await(ctx, t, w.east.linkedTo(w.namespace, "watched", w.west, &link))
	var to netip.Addr
	for _, text := range link.Spec.Endpoint.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() {
			to = prefix.Addr()
		}
	}
	count := fmt.Sprint(int(lasts / cycle))
	listening := kube.Begin(ctx, w.west.config, w.west.client, kube.Container{Namespace: w.namespace, Pod: "endpoint", Name: "tsnperf"}, "/usr/bin/tsnperf", "listener",
		"--bind", "0.0.0.0:"+port, "--count", count, "--block", "--first-timeout", "30s", "--idle-timeout", "20s", "--csv", "/dev/stdout", "--ready-fd", "2", "--quiet")
	if err := listening.HasBegun(); err != nil {
		t.Fatal(err)
	}
	talking := kube.Begin(ctx, w.east.config, w.east.client, kube.Container{Namespace: w.namespace, Pod: w.client.Name, Name: "tsnperf"}, "/usr/bin/tsnperf", "talker",
		"--to", to.String()+":"+port, "--count", count, "--cycle", cycle.String(), "--lead", "5ms", "--start", "+1s", "--csv", "/dev/stdout", "--quiet")
	return func() *asker.Timed {
		sent, errSent := talking.Said()
		received, errReceived := listening.Said()
		timed, err := asker.ReadTimed(sent, received)
		if err := errors.Join(errSent, errReceived, err); err != nil {
			t.Errorf("timed messages: %v", err)
		}
		return timed
	}
}

// ends removes the pods.
func (w *watched) ends(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, member := range []*place{w.east, w.west} {
		pods := member.client.CoreV1().Pods(w.namespace)
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	for _, at := range []*place{hub, w.east, w.west} {
		await(ctx, t, at.linkless(w.namespace))
	}
}

// rows returns the records of one of the client's askers.
func (w *watched) rows(ctx context.Context, container string) ([]asker.Row, error) {
	return clustertest.Rows(ctx, w.east.client, w.client, container)
}

// isAnswered waits until the client is answered by both versions of IP over its present link, which leads to that
// cluster.
func (w *watched) isAnswered(ctx context.Context, t *testing.T, by *place) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		var link v1alpha1.TSNLink
		if err := w.east.linkedTo(w.namespace, "watched", by, &link)(ctx); err != nil {
			return err
		}
		for _, container := range []string{"asker", "asker6"} {
			rows, err := w.rows(ctx, container)
			if err != nil {
				return err
			}
			at, from := asker.Last(rows)
			if at.Before(w.died) || time.Since(at) > time.Second || !slices.ContainsFunc(link.Spec.Endpoint.Addresses, func(text string) bool {
				prefix, err := netip.ParsePrefix(text)
				return err == nil && prefix.Addr() == from
			}) {
				return fmt.Errorf("the last answer to %s came %v ago, from %s, and the link leads to %v", container, time.Since(at), from, link.Spec.Endpoint.Addresses)
			}
		}
		return nil
	})
}

// judged returns the failure's effect on the client and its requests.
func (w *watched) judged(ctx context.Context, t *testing.T, name string, to *place) asker.Outcome {
	t.Helper()
	time.Sleep(answered + asker.Decided)
	until := time.Now().Add(-asker.Decided)
	rows, err := w.rows(ctx, "asker")
	if err != nil {
		t.Fatal(err)
	}
	outcome := asker.Outcome{Name: name, To: to.as}
	outcome.Add(asker.Judge(rows, w.began, w.died), asker.Judge(rows, w.died, until))
	rows, err = w.rows(ctx, "asker6")
	if err != nil {
		t.Fatal(err)
	}
	found6 := asker.Judge(rows, w.died, until)
	w.lost6 = found6.Lost
	now := w.east.pod(ctx, t, w.namespace, w.client.Name)
	outcome.Kept = now.UID == w.client.UID && kube.Restarts(now) == w.restarts
	if !outcome.Kept {
		t.Error("the client was replaced or started again")
	}
	t.Logf("%s; by IPv6 %.2f s, %d of %d lost", &outcome, found6.Gap.Seconds(), found6.Lost, found6.Sent)
	return outcome
}
