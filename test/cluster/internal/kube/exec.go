// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// Container identifies a container of a pod.
type Container struct{ Namespace, Pod, Name string }

// Exec runs a command in a container of a pod.
func Exec(ctx context.Context, config *rest.Config, client kubernetes.Interface, in Container, stdout, stderr io.Writer, command ...string) error {
	request := client.CoreV1().RESTClient().Post().Namespace(in.Namespace).Resource("pods").Name(in.Pod).
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: in.Name, Command: command, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
}
