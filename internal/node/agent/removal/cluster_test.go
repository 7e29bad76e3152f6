// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func readyNode(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func systemPod(name, node, component string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "system", Labels: map[string]string{"component": component}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

// newCluster is one whose kubelets bring pods to a phase as soon as they are made, and end the DaemonSet's with it.
func newCluster(phase corev1.PodPhase, objects ...runtime.Object) (c *Cluster, server *fake.Clientset, cleaned *[]string, out *bytes.Buffer) {
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ktsnd", Namespace: "system"}}
	server = fake.NewClientset(append(objects, daemons)...)
	cleaned, out = &[]string{}, &bytes.Buffer{}
	server.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		created := action.(ktesting.CreateAction).GetObject().(*corev1.Pod)
		if _, err := server.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), created.Namespace, created.Name); err == nil {
			return true, nil, apierrors.NewAlreadyExists(corev1.Resource("pods"), created.Name)
		}
		created.Status.Phase = phase
		created.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: "the last words\n"},
		}}}
		*cleaned = append(*cleaned, created.Spec.NodeName)
		return false, nil, nil
	})
	server.PrependReactor("delete", "daemonsets", func(ktesting.Action) (bool, runtime.Object, error) {
		return false, nil, server.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "system", "ktsnd-1")
	})
	return &Cluster{
		Client: server, Namespace: "system", DaemonSets: []string{"ktsnd", "ktsnd-ovs", "ktsn-agent", "ktsn-agent-ovs"}, Selector: "component=ktsnd", Driver: "csi.kubernetsn.io", Out: out,
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"component": "removal"}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"timed": "yes"},
				Tolerations:  []corev1.Toleration{{Key: "ours", Operator: corev1.TolerationOpExists}},
			},
		},
	}, server, cleaned, out
}

// noneIsLeft fails the test unless no pod is left in the project's namespace.
func checkNoPods(t *testing.T, server *fake.Clientset) {
	t.Helper()
	pods, err := server.CoreV1().Pods("system").List(context.Background(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("left are %d pods, %v", len(pods.Items), err)
	}
}

var timed = map[string]string{"timed": "yes"}

func TestRemoveCleansEligibleNodes(t *testing.T) {
	unready := readyNode("unready", timed)
	unready.Status.Conditions[0].Status = corev1.ConditionUnknown
	foreign := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	c, server, cleaned, out := newCluster(corev1.PodSucceeded,
		readyNode("plain", timed), readyNode("other", nil), unready,
		readyNode("ours", timed, corev1.Taint{Key: "ours", Effect: corev1.TaintEffectNoExecute}),
		readyNode("theirs", timed, foreign), readyNode("served", timed, foreign),
		readyNode("cordoned", timed, corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}),
		readyNode("windows", map[string]string{"timed": "yes", corev1.LabelOSStable: "windows"}),
		systemPod("ktsnd-1", "served", "ktsnd", corev1.PodRunning),
	)
	testlab.Must(t, c.Remove(t.Context()))
	if want := []string{"cordoned", "ours", "plain", "served"}; !slices.Equal(*cleaned, want) {
		t.Errorf("cleaned are %q, want %q", *cleaned, want)
	}
	if !strings.Contains(out.String(), "nodes unready; run `ktsn-agent clean-node` there") {
		t.Errorf("said %q", out)
	}
	checkNoPods(t, server)
}

func TestRemoveReplacesOldPod(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodRunning} {
		t.Run(string(phase), func(t *testing.T) {
			c, server, cleaned, _ := newCluster(corev1.PodSucceeded, readyNode("plain", timed), systemPod("ktsnd-1", "plain", "ktsnd", corev1.PodRunning),
				systemPod("ktsn-clean-plain", "plain", "removal", phase))
			testlab.Must(t, c.Remove(t.Context()))
			if !slices.Equal(*cleaned, []string{"plain"}) {
				t.Errorf("cleaned are %q", *cleaned)
			}
			checkNoPods(t, server)
		})
	}
}

func TestRemoveReportsFailureOfNode(t *testing.T) {
	c, server, _, _ := newCluster(corev1.PodFailed, readyNode("plain", timed), systemPod("ktsnd-1", "plain", "ktsnd", corev1.PodRunning))
	if err := c.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "node plain could not be cleaned: the last words") {
		t.Errorf("said %v", err)
	}
	checkNoPods(t, server)
}

func TestRemoveDeletesPodsAfterTimeout(t *testing.T) {
	c, server, cleaned, _ := newCluster(corev1.PodPending, readyNode("plain", timed), systemPod("ktsnd-1", "plain", "ktsnd", corev1.PodRunning))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := c.Remove(ctx); err == nil || !strings.Contains(err.Error(), "gave up waiting: node plain is not cleaned yet: pod ktsn-clean-plain is Pending") {
		t.Errorf("said %v", err)
	}
	if len(*cleaned) != 1 {
		t.Errorf("started %q", *cleaned)
	}
	checkNoPods(t, server)
}

func TestRemoveRetriesRequests(t *testing.T) {
	trouble := map[string]error{
		"is away":                     errors.New("dial tcp 10.96.0.1:443: connect: connection refused"),
		"has too much to do":          apierrors.NewTooManyRequests("slow down", 1),
		"does not know the right yet": apierrors.NewForbidden(corev1.Resource("any"), "", errors.New("no right")),
	}
	for _, call := range []struct{ verb, resource string }{{"list", "pods"}, {"delete", "daemonsets"}, {"list", "nodes"}, {"create", "pods"}, {"get", "pods"}} {
		for name, err := range trouble {
			if call.verb == "create" && apierrors.IsForbidden(err) {
				continue // which is an admission's refusal
			}
			t.Run(call.verb+" "+call.resource+", and it "+name, func(t *testing.T) {
				t.Parallel()
				c, server, cleaned, _ := newCluster(corev1.PodSucceeded, readyNode("plain", timed), systemPod("ktsnd-1", "plain", "ktsnd", corev1.PodRunning))
				failures := 1
				server.PrependReactor(call.verb, call.resource, func(ktesting.Action) (bool, runtime.Object, error) {
					failures--
					return failures >= 0, nil, err
				})
				testlab.Must(t, c.Remove(t.Context()))
				if failures >= 0 || !slices.Equal(*cleaned, []string{"plain"}) {
					t.Errorf("cleaned are %q, %d failures were not met", *cleaned, failures)
				}
				checkNoPods(t, server)
			})
		}
	}
}

func TestRemoveFailsIfPodIsForbidden(t *testing.T) {
	c, server, _, _ := newCluster(corev1.PodSucceeded, readyNode("plain", timed), systemPod("ktsnd-1", "plain", "ktsnd", corev1.PodRunning))
	server.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("violates PodSecurity"))
	})
	if err := c.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "start the pod that cleans node plain: ") || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("said %v", err)
	}
}
