// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// applicationPod returns a pod with tsnperf that idles until a test runs commands in it. Its volume is the folder in
// which the agent has published the CSI volume, as kubelet would have the runtime mount it.
func applicationPod(name, uid string) *corev1.Pod {
	directory := corev1.HostPathDirectory
	pod := &corev1.Pod{}
	pod.APIVersion, pod.Kind, pod.Name, pod.Namespace = "v1", "Pod", name, "default"
	pod.UID = types.UID(uid)
	pod.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{
			Name: "tsnperf", Image: "localhost/kubernetsn/tsnperf:dev", ImagePullPolicy: corev1.PullNever,
			Args:         []string{"listener", "--bind", "127.0.0.1:9999", "--block", "--first-timeout", "0", "--quiet"},
			Env:          []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/run/ktsn/libktsn.so"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "ktsn", MountPath: "/run/ktsn"}},
		}},
		Volumes: []corev1.Volume{{Name: "ktsn", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: volumeOf(pod), Type: &directory},
		}}},
	}
	return pod
}

// applicationPods returns a listener and a talker.
func applicationPods() []*corev1.Pod {
	return []*corev1.Pod{
		applicationPod("listener", "6c697374-656e-6572-0000-000000000001"),
		applicationPod("talker", "74616c6b-6572-0000-0000-000000000002"),
	}
}

// Kubernetes allows only privileged containers to propagate mounts to the host.
func TestAgentMountsVolumes(t *testing.T) {
	start(t, chartsAgent(t))
	for _, pod := range applicationPods() {
		publish(t, pod)
		if options := mountOptions(t, "self", volumeOf(pod)); !isProtected(options) {
			t.Errorf("the volume of pod %s is mounted with %q", pod.Name, options)
		}
	}
}

// For both pods the runtime calls tsn-cni, which the agent has installed, and mounts their volumes.
func TestTimedMessage(t *testing.T) {
	pods := applicationPods()
	start(t, pods...)
	for _, pod := range pods {
		if options := mountOptions(t, strconv.Itoa(processOf(t, pod.Name)), "/run/ktsn"); !isProtected(options) {
			t.Errorf("pod %s has its volume with %q", pod.Name, options)
		}
	}
	const count = 50
	before := statusOf(t).Counters
	sent, received := exchange(t, addressOf(t, "listener"), count)
	for _, message := range sent {
		if message.Errno != 0 {
			t.Errorf("message %d was refused with error %d", message.Sequence, message.Errno)
		}
	}
	early := 0
	for _, message := range received {
		if message.Valid && message.Arrival < message.Txtime {
			early++
		}
	}
	after := statusOf(t).Counters
	increase := func(name string) int { return int(after[name] - before[name]) } //nolint:gosec // small
	// The emulated processors stop under other load, and ktsnd drops a frame that waited for longer than --stale-after.
	failed := increase("delivery-failed")
	if len(sent) != count || increase("sent") != count || len(received) == 0 || len(received)+failed != count || early > 0 {
		t.Errorf("%d messages were sent, %d by ktsnd, %d arrived, %d of them before their times, %d failed; want %d, all in time",
			len(sent), increase("sent"), len(received), early, failed, count)
	}
}

// addressOf returns the address that tsn-cni assigned to a pod.
func addressOf(t *testing.T, pod string) string {
	t.Helper()
	text, err := output("nsenter", "--net", "--target", strconv.Itoa(processOf(t, pod)), "ip", "-json", "-4", "address", "show", "scope", "global")
	if err != nil {
		t.Fatal(err)
	}
	var links []struct {
		Addresses []struct {
			Local string `json:"local"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil || len(links) != 1 || len(links[0].Addresses) != 1 {
		t.Fatalf("%s has other interfaces than one with one address: %v: %s", pod, err, text)
	}
	return links[0].Addresses[0].Local
}

// exchange sends messages from the talker to the listener, and returns both sides' records.
func exchange(t *testing.T, to string, count int) ([]tsnperf.Sent, []tsnperf.Received) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	listener := inContainer(ctx, t, "listener", "listener", "--bind", "0.0.0.0:7788", "--run-id", "1", "--count", strconv.Itoa(count),
		"--csv", "/dev/stdout", "--quiet", "--block", "--first-timeout", "0", "--idle-timeout", "120s")
	var listenerCSV, complaints strings.Builder
	listener.Stdout, listener.Stderr = &listenerCSV, &complaints
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	waitForPort(t, "listener", 7788, &complaints)
	talkerCSV, err := inContainer(ctx, t, "talker", "talker", "--to", to+":7788", "--run-id", "1", "--count", strconv.Itoa(count),
		"--cycle", "20ms", "--lead", "10ms", "--start", "+1s", "--csv", "/dev/stdout", "--quiet").Output()
	if err != nil {
		t.Fatalf("the talker: %v: %s", err, complaint(err))
	}
	if err := listener.Wait(); err != nil {
		t.Fatalf("the listener: %v: %s", err, complaints.String())
	}
	sent, err := tsnperf.ReadTalker(strings.NewReader(string(talkerCSV)))
	if err != nil {
		t.Fatal(err)
	}
	received, err := tsnperf.ReadListener(strings.NewReader(listenerCSV.String()))
	if err != nil {
		t.Fatal(err)
	}
	return sent, received
}

func complaint(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // it is not wrapped
		return string(exit.Stderr)
	}
	return ""
}

// inContainer returns a command that runs tsnperf in a pod's container.
func inContainer(ctx context.Context, t *testing.T, pod string, arguments ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(ctx, "ctr", append([]string{"--namespace=k8s.io", "tasks", "exec", "--exec-id", arguments[0],
		containerID(t, pod), "/usr/bin/tsnperf"}, arguments...)...)
}

// waitForPort returns once a program in a pod receives on the port.
func waitForPort(t *testing.T, pod string, port int, says fmt.Stringer) {
	t.Helper()
	process := strconv.Itoa(processOf(t, pod))
	err := eventually(func() error {
		text, err := output("nsenter", "--net", "--target", process, "ss", "--no-header", "--udp", "--listening", "--numeric", "sport", "=", strconv.Itoa(port))
		if err == nil && strings.TrimSpace(text) == "" {
			err = fmt.Errorf("nobody receives on port %d in pod %s", port, pod)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%v: %s", err, says)
	}
}

// The runtime calls tsn-cni to delete what it has added, and kubelet the agent. kubelet forgets the pods before.
func TestPodsLeaveNothing(t *testing.T) {
	end(t, "listener", "talker")
	agent := strconv.Itoa(processOf(t, "agent"))
	for _, pod := range applicationPods() {
		unpublish(t, pod)
		for _, process := range []string{"self", agent} {
			if options := mountOptions(t, process, volumeOf(pod)); options != nil {
				t.Errorf("process %s still has the volume of pod %s, with %q", process, pod.Name, options)
			}
		}
		if _, err := os.Stat(volumeOf(pod)); !os.IsNotExist(err) {
			t.Errorf("the mount point of pod %s is still there: %v", pod.Name, err)
		}
	}
	for _, folder := range []string{"/run/ktsn/pods", "/run/ktsn/volumes"} {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("in %s are left %v, %v", folder, left, err)
		}
	}
	err := eventually(func() error {
		if status := statusOf(t); status.Endpoints != 0 || status.Sockets != 0 {
			return fmt.Errorf("ktsnd has %d endpoints and %d sockets", status.Endpoints, status.Sockets)
		}
		links, err := output("ip", "-brief", "link", "show")
		if err == nil && strings.Contains("\n"+links, "\ntsn") {
			err = fmt.Errorf("interfaces are left: %s", links)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
