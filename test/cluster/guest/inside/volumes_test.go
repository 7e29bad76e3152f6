// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
)

// csiKubelet is the folder of the kubelet that the agent serves. These tests play kubelet's part for volumes: a real
// kubelet mounts no CSI volumes without a control plane.
var csiKubelet = os.Getenv("KTSN_CSI_KUBELET")

// chartsAgent returns the chart's agent without an API server. Folders replace the volumes that the API server would
// provide.
func chartsAgent(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := chartsPod(t, "chart.yaml", "agent")
	container := &pod.Spec.Containers[0]
	container.Env = append(container.Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "127.0.0.1"},
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: "1"})
	container.ReadinessProbe = nil // without the networks it is not ready
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.ConfigMap != nil || volume.Projected != nil {
			volume.VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: makeFolder(t, volume.Name)}}
		}
	}
	return pod
}

// makeFolder creates a folder in place of an API server's volume, with a token that nobody checks.
func makeFolder(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("/etc/agent", name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "token"), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// volumeOf returns the path at which kubelet expects a pod's volume.
func volumeOf(pod *corev1.Pod) string {
	return filepath.Join(csiKubelet, "pods", string(pod.UID), "volumes/kubernetes.io~csi/ktsn/mount")
}

// publish has the agent publish a pod's volume, as kubelet does before it starts the pod.
func publish(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	askAgent(t, func(ctx context.Context, agent csi.NodeClient) error {
		_, err := agent.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: "csi-" + string(pod.UID), TargetPath: volumeOf(pod),
			VolumeCapability: &csi.VolumeCapability{
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			},
			VolumeContext: map[string]string{
				"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.uid": string(pod.UID),
				"csi.storage.k8s.io/pod.name": pod.Name, "csi.storage.k8s.io/pod.namespace": pod.Namespace,
				"csi.storage.k8s.io/serviceAccount.name": "default",
			},
		})
		return err
	})
}

// unpublish has the agent remove a pod's volume, as kubelet does when the pod has ended.
func unpublish(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	askAgent(t, func(ctx context.Context, agent csi.NodeClient) error {
		_, err := agent.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-" + string(pod.UID), TargetPath: volumeOf(pod)})
		return err
	})
}

// askAgent repeats a request until the agent has fulfilled it, as kubelet does.
func askAgent(t *testing.T, ask func(context.Context, csi.NodeClient) error) {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+filepath.Join(csiKubelet, "plugins/csi.kubernetsn.io/csi.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := eventually(func() error { return ask(ctx, csi.NewNodeClient(connection)) }); err != nil {
		t.Fatal(err)
	}
}

// mountOptions returns the options of the last mount at a path that a process sees, none if nothing is mounted there.
func mountOptions(t *testing.T, process, path string) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/mountinfo", process))
	if err != nil {
		t.Fatal(err)
	}
	var options []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[4] == path {
			options = strings.Split(fields[5], ",")
		}
	}
	return options
}

// isProtected reports whether a volume is mounted as required: read only, nosuid, and with programs allowed, since
// libktsn.so is mapped from there.
func isProtected(options []string) bool {
	return slices.Contains(options, "ro") && slices.Contains(options, "nosuid") && !slices.Contains(options, "noexec")
}
