// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
)

// TestLinks is one test, because the chart is installed once, and later parts use the pods of earlier ones.
func TestLinks(t *testing.T) {
	ctx := needTwoNodes(t)
	uninstall := withOperator(ctx, t)
	namespace := newNamespace(ctx, t, restricted)
	l := &linked{namespace: namespace}
	if !t.Run("a client starts when its link is up", func(t *testing.T) { l.starts(ctx, t) }) {
		return // the rest has its pods
	}
	t.Run("messages arrive by both versions of IP", func(t *testing.T) { l.carries(ctx, t) })
	t.Run("another client joins the running endpoint", func(t *testing.T) { l.joins(ctx, t) })
	t.Run("a client gets another endpoint without a restart", func(t *testing.T) { l.heals(ctx, t) })
	t.Run("a client is answered while what controls its link dies", func(t *testing.T) { goesOn(ctx, t) })
	t.Run("a pod without its label has no link", func(t *testing.T) { l.leaves(ctx, t) })
	t.Run("an endpoint behind a pod sees the client's address", func(t *testing.T) { l.chain(ctx, t) })
	t.Run("what cannot be is refused or said", func(t *testing.T) { l.refuses(ctx, t) })
	t.Run("what a service asks of encryption holds, and is said", func(t *testing.T) { l.encrypts(ctx, t) })
	t.Run("links are up soon", func(t *testing.T) { l.measures(ctx, t) })
	t.Run("nothing is left", func(t *testing.T) {
		deleteNamespace(t, namespace)
		uninstall(t)
	})
}

// linked is the state that the parts of the test share.
type linked struct {
	namespace                string
	client, endpoint, joined *corev1.Pod
}

// starts creates a client before its service, then the service, then the endpoint. The client's containers wait
// meanwhile.
func (l *linked) starts(ctx context.Context, t *testing.T) {
	l.client = labelled(waiting("client", under.Nodes[0].Name), "client.kubernetsn.io/camera=cam")
	create(ctx, t, l.namespace, l.client)
	waitEvent(ctx, t, l.namespace, "client", v1alpha1.ReasonServiceMissing, "there is no TSNService "+l.namespace+"/camera")
	applyText(ctx, t, fmt.Sprintf(theServices, l.namespace))
	waitEvent(ctx, t, l.namespace, "client", v1alpha1.ReasonNoEndpoint, "none has the label endpoint.kubernetsn.io/camera")
	pod, err := client.CoreV1().Pods(l.namespace).Get(ctx, "client", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.InitContainers[0].Name != "ktsn-wait" || len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil {
		t.Fatalf("the client runs without its link: %+v", pod.Status)
	}
	for _, mount := range pod.Spec.InitContainers[0].VolumeMounts {
		if strings.HasPrefix(mount.Name, "kube-api-access") {
			t.Error("ktsn-wait has a token")
		}
	}
	l.endpoint = start(ctx, t, l.namespace, labelled(waiting("endpoint", under.Nodes[1].Name), "endpoint.kubernetsn.io/camera=view"))[0]
	began := time.Now()
	l.client = waitReady(ctx, t, l.namespace, "client")
	t.Logf("the client was ready %v after its endpoint", time.Since(began).Round(10*time.Millisecond))
	waitLink(ctx, t, l.client, l.endpoint)
}

// carries sends timed and other messages over the link.
func (l *linked) carries(ctx context.Context, t *testing.T) {
	link := waitLink(ctx, t, l.client, l.endpoint)
	for number, is4 := range []bool{true, false} {
		to := addressOf(t, &link.Spec.Endpoint, is4)
		pings(ctx, t, l.client, "cam", to)
		pings(ctx, t, l.endpoint, link.Spec.Endpoint.Interface, addressOf(t, &link.Spec.Client, is4))
		host, bind := to.String(), "0.0.0.0:7788"
		if !is4 {
			host, bind = "["+host+"]", "[::]:7788"
		}
		got := talk(ctx, t, l.client, l.endpoint, host, 2800+number, []string{"--count", "300", "--lead", "5ms"},
			[]string{"--count", "300", "--block", "--idle-timeout", "30s", "--bind", bind}, nil)
		accounted(t, got, 300, func() uint64 { return 0 })
	}
	if sent := chartStatus(ctx, t, l.client.Spec.NodeName).Counters["sent"]; sent < 600 {
		t.Errorf("ktsnd of the client's node has sent %d messages, and 600 were to leave at their times", sent)
	}
}

func (l *linked) joins(ctx context.Context, t *testing.T) {
	before := l.restarts(ctx, t, l.endpoint)
	l.joined = start(ctx, t, l.namespace, labelled(agnhost("joined", under.Nodes[1].Name), "client.kubernetsn.io/camera=cam"))[0]
	link := waitLink(ctx, t, l.joined, l.endpoint)
	pings(ctx, t, l.joined, "cam", addressOf(t, &link.Spec.Endpoint, true))
	if after := l.restarts(ctx, t, l.endpoint); after != before {
		t.Errorf("the endpoint was restarted: %d, before %d", after, before)
	}
}

func (l *linked) restarts(ctx context.Context, t *testing.T, pod *corev1.Pod) int32 {
	t.Helper()
	now, err := client.CoreV1().Pods(l.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil || now.UID != pod.UID {
		t.Fatalf("%s is another pod: %v", pod.Name, err)
	}
	return now.Status.ContainerStatuses[0].RestartCount
}

// heals removes the endpoint under its clients. A client reaches the new one by the service's name.
func (l *linked) heals(ctx context.Context, t *testing.T) {
	other := start(ctx, t, l.namespace, labelled(agnhost("other", under.Nodes[0].Name), "endpoint.kubernetsn.io/camera=view"))[0]
	before := []int32{l.restarts(ctx, t, l.client), l.restarts(ctx, t, l.joined)}
	began := time.Now()
	if err := client.CoreV1().Pods(l.namespace).Delete(ctx, l.endpoint.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{l.client, l.joined} {
		link := waitLink(ctx, t, pod, other)
		t.Logf("%s had another endpoint after %v", pod.Name, time.Since(began).Round(10*time.Millisecond))
		pings(ctx, t, pod, "cam", addressOf(t, &link.Spec.Endpoint, true))
	}
	if after := []int32{l.restarts(ctx, t, l.client), l.restarts(ctx, t, l.joined)}; after[0] != before[0] || after[1] != before[1] {
		t.Errorf("clients were restarted: %v, before %v", after, before)
	}
	for _, name := range []string{"camera", "camera." + l.namespace + ".tsn.internal"} {
		await(ctx, t, func(ctx context.Context) error {
			given, err := dial(ctx, l.joined, "http", name, httpPort, "hostname", 1)
			if err == nil && (len(given) != 1 || given[0] != other.Name) {
				err = fmt.Errorf("%s answers by the name %s", given, name)
			}
			return err
		})
	}
	l.endpoint = other
}

// goesOn kills agents and operators while a client sends requests continuously, and then deletes its endpoint.
func goesOn(ctx context.Context, t *testing.T) {
	w := newWatched(ctx, t)
	w.begins(ctx, t, under.Nodes[0].Name)
	w.died = time.Now()
	clustertest.Kill(ctx, t, under, "ktsn-agent", "ktsn-operator")
	time.Sleep(answered)
	waitForChart(ctx, t)
	if outcome := w.judged(ctx, t, "agents and operators are killed"); outcome.Lost > 0 || !outcome.Kept {
		t.Errorf("agents and operators were killed, and %s", &outcome)
	}
	w.died = time.Now()
	if err := client.CoreV1().Pods(w.namespace).Delete(ctx, w.endpoint.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.isAnswered(ctx, t, w.spare)
	if outcome := w.judged(ctx, t, "then the endpoint is deleted"); !outcome.Kept {
		t.Errorf("the endpoint was deleted, and %s", &outcome)
	}
	w.ends(ctx, t)
}

func (l *linked) leaves(ctx context.Context, t *testing.T) {
	patch := []byte(`{"metadata":{"labels":{"client.kubernetsn.io/camera":null}}}`)
	if _, err := client.CoreV1().Pods(l.namespace).Patch(ctx, l.joined.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, func(ctx context.Context) error {
		if link, err := linkOf(ctx, l.joined); err != nil || link != nil {
			return fmt.Errorf("it still has one: %w", err)
		}
		if hasInterface(ctx, t, l.joined, "cam") {
			return errors.New("it still has the interface")
		}
		return nil
	})
	link := waitLink(ctx, t, l.client, l.endpoint)
	pings(ctx, t, l.client, "cam", addressOf(t, &link.Spec.Endpoint, true))
}

// chain expects a client to reach its endpoint through a pod in the middle, and the endpoint to see the client's
// address.
func (l *linked) chain(ctx context.Context, t *testing.T) {
	pods := start(ctx, t, l.namespace,
		labelled(agnhost("last", under.Nodes[0].Name), "endpoint.kubernetsn.io/filtered=src"),
		labelled(agnhost("between", under.Nodes[1].Name), "client.kubernetsn.io/filtered=next", "endpoint.kubernetsn.io/filtered=before"))
	last, between := pods[0], pods[1]
	first := start(ctx, t, l.namespace, labelled(agnhost("first", under.Nodes[0].Name), "client.kubernetsn.io/filtered=flt"))[0]
	hop0, hop1 := waitLink(ctx, t, first, between), waitLink(ctx, t, between, last)
	want, to := addressOf(t, &hop0.Spec.Client, true), addressOf(t, &hop1.Spec.Endpoint, true)
	reaches(ctx, t, first, last, to.String())
	if source := seenFrom(ctx, t, first, to.String()); source != want {
		t.Errorf("the endpoint sees %s, and the client is %s", source, want)
	}
	// kubelet rewrites /etc/hosts when a container starts, and the agent restores the names within a second.
	await(ctx, t, func(ctx context.Context) error {
		_, err := dial(ctx, first, "http", "filtered", httpPort, "hostname", 1)
		return err
	})
	reaches(ctx, t, first, last, "filtered")
	reaches(ctx, t, last, first, want.String())
}

func (l *linked) refuses(ctx context.Context, t *testing.T) {
	other := newNamespace(ctx, t, restricted)
	for name, test := range map[string]struct {
		namespace string
		pod       *corev1.Pod
		sentence  string
	}{
		"a namespace that may not":      {other, labelled(waiting("bad", ""), "client.kubernetsn.io/camera."+l.namespace+"=cam"), "may not be clients of TSNService " + l.namespace + "/camera"},
		"a name that is too long":       {l.namespace, labelled(waiting("bad", ""), "client.kubernetsn.io/camera=more-than-fifteen"), "has 17 characters"},
		"an interface that there is":    {l.namespace, labelled(waiting("bad", ""), "client.kubernetsn.io/camera=eth0"), "the pod already has an interface eth0"},
		"both roles without an element": {l.namespace, labelled(waiting("bad", ""), "client.kubernetsn.io/camera=a", "endpoint.kubernetsn.io/camera=b"), "has no spec.chain"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.CoreV1().Pods(test.namespace).Create(ctx, test.pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
	patch := []byte(`{"metadata":{"labels":{"client.kubernetsn.io/camera":"again"}}}`)
	_, err := client.CoreV1().Pods(l.namespace).Patch(ctx, l.joined.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "can only be removed afterwards") {
		t.Errorf("a label that was added to a running pod: %v", err)
	}
}

// measures creates clients one after the other, and measures the time from the sandbox until the link is up.
func (l *linked) measures(ctx context.Context, t *testing.T) {
	const clients = 15
	var took []time.Duration
	for i := range clients {
		name := fmt.Sprintf("measured-%d", i)
		create(ctx, t, l.namespace, labelled(waiting(name, under.Nodes[(i+1)%2].Name), "client.kubernetsn.io/camera=cam"))
		took = append(took, l.upAfterSandbox(ctx, t, name))
		if err := client.CoreV1().Pods(l.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	middle, worst := median(took), slices.Max(took)
	t.Logf("links were up %v after the sandbox of their client (median of %d), at most %v", middle.Round(time.Millisecond), clients, worst.Round(time.Millisecond))
	if limit := 5 * time.Second; middle > limit {
		t.Errorf("the median is %v, want less than %v even on a busy machine", middle, limit)
	}
}

// upAfterSandbox returns how long a pod's link takes from when its networks exist.
func (l *linked) upAfterSandbox(ctx context.Context, t *testing.T, name string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var sandbox time.Time
	for {
		pod, err := client.CoreV1().Pods(l.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if sandbox.IsZero() && pod.Annotations["k8s.v1.cni.cncf.io/network-status"] != "" {
			sandbox = time.Now()
		}
		link, err := linkOf(ctx, pod)
		if err != nil {
			t.Fatal(err)
		}
		if link != nil && link.Status.Since != nil && !sandbox.IsZero() {
			return max(0, link.Status.Since.Sub(sandbox))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// waitEvent waits until a pod has an Event.
func waitEvent(ctx context.Context, t *testing.T, namespace, pod, reason, text string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == reason && strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("%s was not told %s: %s, but %s", pod, reason, text, lastEvents(ctx, namespace, pod))
	})
}
