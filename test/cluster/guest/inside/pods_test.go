// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// chartsPod returns one container of the rendered chart as a pod named after it, which kubelet can start without a
// control plane: without everything that needs an API server.
func chartsPod(t *testing.T, rendered, container string) *corev1.Pod {
	t.Helper()
	file, err := os.Open(filepath.Join(outDir, rendered))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var set appsv1.DaemonSet
		if err := documents.Decode(&set); errors.Is(err, io.EOF) {
			t.Fatalf("%s has no DaemonSet with a container %s", rendered, container)
		} else if err != nil {
			continue // an object of another kind
		}
		if pod := only(&set, container); set.Kind == "DaemonSet" && pod != nil {
			return pod
		}
	}
}

func only(set *appsv1.DaemonSet, name string) *corev1.Pod {
	spec := set.Spec.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	container := spec.Containers[at]
	container.ImagePullPolicy = corev1.PullNever
	// Probes that take milliseconds on a node may take a minute on a busy emulated processor. They must not fail for
	// that.
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		if probe != nil {
			probe.TimeoutSeconds, probe.FailureThreshold = int32(patience.Seconds()), int32(patience.Seconds())
		}
	}
	spec.Containers = []corev1.Container{container}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(volume corev1.Volume) bool {
		return !slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == volume.Name })
	})
	// These name objects of an API server.
	spec.ServiceAccountName, spec.PriorityClassName, spec.NodeSelector, spec.Affinity = "", "", nil, nil
	pod := &corev1.Pod{Spec: spec}
	pod.APIVersion, pod.Kind, pod.Name, pod.Namespace = "v1", "Pod", name, set.Namespace
	return pod
}

// start starts pods through kubelet's manifest folder, and waits until they are ready.
func start(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(manifest(pod.Name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		err := eventually(func() error {
			existing, err := podNamed(pod.Name)
			if err != nil {
				return err
			}
			return ready(existing)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func manifest(name string) string { return filepath.Join(manifestDir, name+".json") }

// end removes pods from kubelet's manifest folder, and waits until they are gone.
func end(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(manifest(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		err := eventually(func() error {
			if _, err := podNamed(name); err == nil {
				return fmt.Errorf("pod %s is still there", name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// podNamed returns kubelet's status of a pod.
func podNamed(name string) (*corev1.Pod, error) {
	answer, err := http.Get("http://127.0.0.1:" + strconv.Itoa(readOnlyPort) + "/pods")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var pods corev1.PodList
	if err := json.NewDecoder(answer.Body).Decode(&pods); err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if pod.Name == name+"-"+hostname {
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("kubelet has no pod %s", name)
}

func ready(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	state, _ := json.Marshal(pod.Status.ContainerStatuses) // only to say more
	return fmt.Errorf("pod %s is not ready: %s: %s: %s", pod.Name, pod.Status.Phase, pod.Status.Message, state)
}

// containerID returns the ID of a pod's only container.
func containerID(t *testing.T, name string) string {
	t.Helper()
	pod, err := podNamed(name)
	if err != nil || len(pod.Status.ContainerStatuses) != 1 {
		t.Fatalf("pod %s: %v, %+v", name, err, pod)
	}
	return strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// processOf returns the PID of the first process of a pod's container.
func processOf(t *testing.T, name string) int {
	t.Helper()
	id := containerID(t, name)
	var pid int
	err := eventually(func() (err error) {
		pid, err = taskOf(id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// taskOf returns the PID of a container's first process. A slow runtime may not know it at once.
func taskOf(id string) (int, error) {
	text, err := output("ctr", "--namespace=k8s.io", "tasks", "list")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != id {
			continue
		}
		if pid, err := strconv.Atoi(fields[1]); err == nil && pid > 0 {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("the runtime has no process of container %s: %s", id, text)
}

// containerLog returns what a pod's container wrote.
func containerLog(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob("/var/log/pods/*_" + name + "-" + hostname + "_*/*/*.log")
	if err != nil || len(files) == 0 {
		t.Fatalf("no log of pod %s: %v", name, err)
	}
	var all bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
