// SPDX-License-Identifier: Apache-2.0

package clusterreader

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// Label selectors of the chart's pods.
const (
	ofChart      = "app.kubernetes.io/name=kubernetsn,app.kubernetes.io/component="
	KtsndPods    = ofChart + "ktsnd"
	AgentPods    = ofChart + "agent"
	OperatorPods = ofChart + "operator"
)

// PodsOn are the pods on a node that a selector of the above selects, without those that are being ended; the oldest first. In an
// upgrade two ktsnd are on a node.
func (c *Cluster) PodsOn(ctx context.Context, node, selector string) ([]corev1.Pod, error) {
	pods, err := List[corev1.Pod](ctx, c, Pods, c.System, selector, "spec.nodeName="+node)
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", c.System, err)
	}
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName != node || pod.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, nil
}

// askable returns the pod in which ktsn is run: a ready one, or a running one. Each reaches the serving ktsnd.
func askable(pods []corev1.Pod) *corev1.Pod {
	for _, good := range []func(*corev1.Pod) bool{podstatus.Ready, running} {
		for i := range pods {
			if good(&pods[i]) {
				return &pods[i]
			}
		}
	}
	return nil
}

func running(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return status.State.Running != nil })
}

// Ktsn runs ktsn next to a node's ktsnd and copies its output to out.
func (c *Cluster) Ktsn(ctx context.Context, node string, out io.Writer, arguments ...string) error {
	pods, err := c.PodsOn(ctx, node, KtsndPods)
	if err != nil {
		return err
	}
	pod := askable(pods)
	if pod == nil {
		return fmt.Errorf("no ktsnd runs on node %s; `ktsn doctor --node %s` says why", node, node)
	}
	var complaint bytes.Buffer
	err = c.execute(ctx, pod, "ktsnd", append([]string{"/usr/bin/ktsn"}, arguments...), out, &complaint)
	if err != nil {
		return fmt.Errorf("ask ktsnd on node %s, in pod %s/%s: %w %s", node, pod.Namespace, pod.Name, err,
			strings.TrimPrefix(strings.TrimSpace(complaint.String()), "ktsn: "))
	}
	return nil
}

// Run runs a command in a container of any pod and copies its output to out. The error contains its standard error. It is limited to 15 s
// and 1 MiB.
func (c *Cluster) Run(ctx context.Context, pod *corev1.Pod, container string, out io.Writer, command ...string) error {
	complaint, err := ofTenants.hold(ctx, out, func(ctx context.Context, stdout, stderr io.Writer) error {
		return c.execute(ctx, pod, container, command, stdout, stderr)
	})
	if err != nil {
		return fmt.Errorf("run %s in container %s of pod %s/%s: %w %s", command[0], container, pod.Namespace, pod.Name, err, strings.TrimSpace(complaint))
	}
	return nil
}

// execute runs a command in a container, as `kubectl exec` does.
func (c *Cluster) execute(ctx context.Context, pod *corev1.Pod, container string, command []string, stdout, stderr io.Writer) error {
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Version: "v1"}, "/api"
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	path := base.JoinPath("api/v1/namespaces", pod.Namespace, "pods", pod.Name, "exec")
	path.RawQuery = url.Values{"container": {container}, "command": command, "stdout": {"true"}, "stderr": {"true"}}.Encode()
	websocket, err := remotecommand.NewWebSocketExecutor(config, "GET", path.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", path)
	if err != nil {
		return err
	}
	// Some proxies support SPDY only.
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
}
