// SPDX-License-Identifier: Apache-2.0

package clusterreader

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// NodePods selects the pods with ktsnd and its agent, OperatorPods those of the operator.
const (
	NodePods     = "app.kubernetes.io/name=kubernetsn,app.kubernetes.io/component=node"
	OperatorPods = "app.kubernetes.io/name=kubernetsn,app.kubernetes.io/component=operator"
)

// NodePod is the pod with a node's ktsnd and agent, nil if there is none.
func (c *Cluster) NodePod(ctx context.Context, node string) (*corev1.Pod, error) {
	pods, err := List[corev1.Pod](ctx, c, Pods, c.System, NodePods, "")
	if err != nil {
		return nil, fmt.Errorf("list the pods with ktsnd: %w", err)
	}
	for i := range pods {
		if pods[i].Spec.NodeName == node && pods[i].DeletionTimestamp == nil {
			return &pods[i], nil
		}
	}
	return nil, nil
}

// Ktsn runs ktsn beside a node's ktsnd and copies what it says to out.
func (c *Cluster) Ktsn(ctx context.Context, node string, out io.Writer, arguments ...string) error {
	pod, err := c.NodePod(ctx, node)
	if err != nil {
		return err
	}
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
	// Older proxies in between understand the other one only.
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
}
