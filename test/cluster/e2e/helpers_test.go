// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// Ports of agnhost.
const (
	httpPort = 8080
	udpPort  = 8081
)

// Levels of the Pod Security Standards.
const (
	restricted = "restricted"
	privileged = "privileged"
)

const agnhostImage = "kubernetsn.io/agnhost:" + components.Tag

// newNamespace creates a namespace for a test, in which Pod Security enforces a level ("" for the cluster's default).
func newNamespace(ctx context.Context, t *testing.T, level string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	if level != "" {
		namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": level}
	}
	created, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteNamespace(t, created.Name) })
	return created.Name
}

// deleteNamespace deletes a namespace and waits until its pods are gone, so that they do not disturb the next test.
func deleteNamespace(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	err := client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	err = client.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
	}
	err = kube.Wait(ctx, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods of namespace %s are still there", len(pods.Items), name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func pointer[T any](value T) *T { return &value }

// agnhost returns a pod that answers on httpPort and udpPort, and sends requests to others on request. It conforms to
// the strictest level of Pod Security.
func agnhost(name, node string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: pointer(int64(0)),
			AutomountServiceAccountToken:  pointer(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   pointer(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "agnhost", Image: agnhostImage, ImagePullPolicy: corev1.PullNever,
				Args: []string{"netexec", "--http-port=" + strconv.Itoa(httpPort), "--udp-port=" + strconv.Itoa(udpPort)},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: pointer(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(httpPort)}},
					PeriodSeconds: 1,
				},
			}},
		},
	}
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return pod
}

// start creates pods and waits until they are ready.
func start(ctx context.Context, t *testing.T, namespace string, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	for _, pod := range pods {
		create(ctx, t, namespace, pod)
	}
	ready := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		ready[i] = waitReady(ctx, t, namespace, pod.Name)
	}
	return ready
}

// create creates a pod. It retries because a ready webhook is reachable only once kube-proxy knows it, which helm does
// not wait for.
func create(ctx context.Context, t *testing.T, namespace string, pod *corev1.Pod) {
	t.Helper()
	var refused error
	await(ctx, t, func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil && apierrors.IsInternalError(err) && strings.Contains(err.Error(), "connection refused") {
			return err
		}
		refused = err
		return nil
	})
	if refused != nil {
		t.Fatal(refused)
	}
}

func waitReady(ctx context.Context, t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	await(ctx, t, func(ctx context.Context) error {
		var err error
		pod, err = client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !kube.Ready(pod) {
			return fmt.Errorf("pod %s is not ready: %s: %s", name, pod.Status.Phase, lastEvents(ctx, namespace, name))
		}
		return nil
	})
	return pod
}

func lastEvents(ctx context.Context, namespace, name string) string {
	events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return err.Error()
	}
	var text []string
	for _, event := range events.Items[max(0, len(events.Items)-3):] {
		text = append(text, brief(event.Message))
	}
	return strings.Join(text, "; ")
}

// brief keeps the ends of long messages, where network plugins report the cause.
func brief(text string) string {
	const most = 300
	if len(text) <= 2*most {
		return text
	}
	return text[:most] + " ... " + text[len(text)-most:]
}

// answers is the result of agnhost's /dial.
type answers struct {
	Responses []string `json:"responses"`
	Errors    []string `json:"errors"`
}

// dial sends requests from a pod to a host. protocol is "http" or "udp".
func dial(ctx context.Context, from *corev1.Pod, protocol, host string, port int, request string, tries int) ([]string, error) {
	text, err := client.CoreV1().RESTClient().Get().Namespace(from.Namespace).Resource("pods").
		Name(from.Name+":"+strconv.Itoa(httpPort)).SubResource("proxy").Suffix("dial").
		Param("protocol", protocol).Param("host", host).Param("port", strconv.Itoa(port)).
		Param("request", request).Param("tries", strconv.Itoa(tries)).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s asks %s by %s: %w: %s", from.Name, host, protocol, err, text)
	}
	var given answers
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, fmt.Errorf("%s asks %s by %s: %w", from.Name, host, protocol, err)
	}
	if len(given.Errors) > 0 {
		return given.Responses, fmt.Errorf("%s asks %s by %s: %s", from.Name, host, protocol, given.Errors[0])
	}
	return given.Responses, nil
}

// portOf returns agnhost's port for a protocol of dial.
func portOf(protocol string) int {
	if protocol == "udp" {
		return udpPort
	}
	return httpPort
}

// reaches fails the test unless a pod reaches another at an address, by TCP and by UDP.
func reaches(ctx context.Context, t *testing.T, from, to *corev1.Pod, address string) {
	t.Helper()
	for _, protocol := range []string{"http", "udp"} {
		given, err := dial(ctx, from, protocol, address, portOf(protocol), "hostname", 1)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(given) != 1 || given[0] != to.Name {
			t.Errorf("%s asked %s by %s for its name: got %q, want %q", from.Name, address, protocol, given, to.Name)
		}
	}
}

// seenFrom returns the source address of a pod's TCP connections as the other pod sees it.
func seenFrom(ctx context.Context, t *testing.T, from *corev1.Pod, address string) netip.Addr {
	t.Helper()
	given, err := dial(ctx, from, "http", address, httpPort, "clientip", 1)
	if err != nil || len(given) != 1 {
		t.Fatalf("got %q, %v", given, err)
	}
	source, err := netip.ParseAddrPort(given[0])
	if err != nil {
		t.Fatal(err)
	}
	return source.Addr().Unmap()
}

// run runs a command in a container of a pod and returns its output.
func run(ctx context.Context, pod *corev1.Pod, container string, command ...string) (stdout, stderr string, err error) {
	var out, errors bytes.Buffer
	in := kube.Container{Namespace: pod.Namespace, Pod: pod.Name, Name: container}
	err = kube.Exec(ctx, config, client, in, &out, &errors, command...)
	return out.String(), errors.String(), err
}

// logs returns the log of a pod's container.
func logs(ctx context.Context, pod *corev1.Pod, container string) (string, error) {
	text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
	return string(text), err
}

var createOptions = metav1.CreateOptions{}

// hasEvent waits until there is an Event about a pod with that reason.
func hasEvent(ctx context.Context, t *testing.T, namespace, name, reason string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=" + reason})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("no Event %s; there are %s", reason, lastEvents(ctx, namespace, name))
		}
		if err == nil {
			t.Log(events.Items[0].Message)
		}
		return err
	})
}

// patiently repeats a try that shows nothing because the machine was too slow, each time with twice as much time. The
// last attempt must show it.
func patiently(t *testing.T, try func(attempt, times int) (why string)) {
	t.Helper()
	const attempts = 3
	for attempt := range attempts {
		why := try(attempt, 1<<attempt)
		if why == "" {
			return
		}
		if attempt == attempts-1 {
			t.Errorf("this shows nothing: %s", why)
			return
		}
		t.Logf("attempt %d shows nothing: %s", attempt+1, why)
	}
}

func waitForNodes(ctx context.Context, t *testing.T) {
	t.Helper()
	await(ctx, t, kube.NodesReady(client, len(under.Nodes)))
}
