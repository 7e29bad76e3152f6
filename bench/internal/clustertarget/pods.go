// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

const (
	program     = "/usr/bin/tsnperf"
	container   = "tsnperf"
	libraryPath = "/run/ktsn/libktsn.so"
	csiDriver   = "csi.kubernetsn.io"
	// tsnInterface is the interface of path tsn's network in pods.
	tsnInterface = "tsn0"
	// Multus' annotations: requested and attached networks.
	networksWanted = "k8s.v1.cni.cncf.io/networks"
	networksGiven  = podstatus.MultusAnnotation
	// startTimeout limits the start of the pods, including a slow registry.
	startTimeout = 3 * time.Minute
	// ktsndTimeout limits the wait for ktsnd after the pods are ready: it has started before them.
	ktsndTimeout = time.Minute
	// deadline ends pods of a killed bench: no bench takes so long.
	deadline = 12 * time.Hour
)

// The pods by name.
const (
	talkerTSN      = "talker-tsn"
	talkerPod      = "talker"
	talkerSpin     = "talker-spin"
	talkerHost     = "talker-host"
	talkerHostSpin = "talker-host-spin"
	listenerPod    = "listener"
	listenerHost   = "listener-host"
)

// ends returns the pods between which a path's messages travel.
type ends struct{ talker, listener string }

func endsOf(path string) ends {
	switch path {
	case results.PathTSN:
		return ends{talkerTSN, listenerPod}
	case results.PathHost:
		return ends{talkerHost, listenerHost}
	case results.PathHostSpin:
		return ends{talkerHostSpin, listenerHost}
	case results.PathPrimarySpin:
		return ends{talkerSpin, listenerPod}
	}
	return ends{talkerPod, listenerPod}
}

// onHost reports whether a path uses the nodes' own network.
func onHost(path string) bool { return results.Route(path) == results.PathHost }

// needPrivilege reports whether Pod Security has to allow the pods of some paths more than others.
func needPrivilege(paths map[string]bool) bool {
	for path := range paths {
		if onHost(path) || results.Spins(path) {
			return true
		}
	}
	return false
}

// podsFor returns the pods of some paths, without spinning talkers. The plain talker is always included: companions
// send from it.
func (c *connection) podsFor(on nodes, image string, paths map[string]bool) []*corev1.Pod {
	listener := plainPod(listenerPod, on.listeners, image)
	all := []*corev1.Pod{plainPod(talkerPod, on.talkers, image), listener}
	if paths[results.PathTSN] {
		talker := plainPod(talkerTSN, on.talkers, image)
		if !c.annotated {
			withLibrary(talker)
		}
		c.onNetwork(talker)
		c.onNetwork(listener)
		all = append(all, talker)
	}
	if paths[results.PathHost] || paths[results.PathHostSpin] {
		for name, node := range map[string]*corev1.Node{talkerHost: on.talkers, listenerHost: on.listeners} {
			pod := plainPod(name, node, image)
			pod.Spec.HostNetwork = true
			all = append(all, pod)
		}
	}
	return all
}

func pointer[T any](value T) *T { return &value }

// plainPod waits for programs to be started in it. It conforms to the strictest level of Pod Security.
func plainPod(name string, node *corev1.Node, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managedBy: manager}},
		Spec: corev1.PodSpec{
			NodeSelector:          map[string]string{corev1.LabelHostname: node.Labels[corev1.LabelHostname]},
			RestartPolicy:         corev1.RestartPolicyNever,
			ActiveDeadlineSeconds: pointer(int64(deadline.Seconds())),
			// Without a grace period the pods' objects would be gone before their state on the nodes.
			TerminationGracePeriodSeconds: pointer(int64(1)),
			AutomountServiceAccountToken:  pointer(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   pointer(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: container, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{program, "listener", "--bind", "127.0.0.1:0", "--block", "--first-timeout", "0", "--quiet"},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: pointer(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// withLibrary adds to a pod what a user writes by hand: the volume with libktsn, and the variable that preloads it.
func withLibrary(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "ktsn", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: csiDriver}}}}
	only := &pod.Spec.Containers[0]
	only.Env = []corev1.EnvVar{{Name: "LD_PRELOAD", Value: libraryPath}}
	only.VolumeMounts = []corev1.VolumeMount{{Name: "ktsn", MountPath: "/run/ktsn"}}
}

// onNetwork attaches the pod to the network of path tsn. For a TSNNetwork the webhook adds the rest, including libktsn,
// and its only network is on interface tsn0.
func (c *connection) onNetwork(pod *corev1.Pod) {
	if c.annotated {
		pod.Annotations = map[string]string{v1alpha1.NetworkAnnotation: c.networkName()}
		return
	}
	pod.Annotations = map[string]string{networksWanted: c.Network + "@" + tsnInterface}
}

// startPods returns the pods when all are ready.
func (c *connection) startPods(ctx context.Context, wanted []*corev1.Pod) (map[string]*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, pod := range wanted {
		if err := c.create(ctx, pod); err != nil {
			return nil, err
		}
	}
	started := map[string]*corev1.Pod{}
	for _, pod := range wanted {
		ready, err := c.awaitPod(ctx, pod.Name)
		if err != nil {
			return nil, err
		}
		started[pod.Name] = ready
	}
	return started, nil
}

// create creates a pod. The default account of a new namespace is created a moment after the namespace.
func (c *connection) create(ctx context.Context, pod *corev1.Pod) error {
	for attempt := 0; ; attempt++ {
		err := c.core.Post().Namespace(c.Namespace).Resource("pods").Body(pod).Do(ctx).Error()
		if err == nil || attempt == 40 || !missesAccount(err) {
			return c.explain("make pod "+pod.Name, err)
		}
		if err := retry.Pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

func (c *connection) awaitPod(ctx context.Context, name string) (*corev1.Pod, error) {
	for {
		pod := &corev1.Pod{}
		err := c.core.Get().Namespace(c.Namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, c.explain("wait for pod "+name, err)
		case err == nil && ready(pod):
			return pod, nil
		case err == nil && pod.Status.Phase == corev1.PodFailed:
			return nil, fmt.Errorf("pod %s ended: %s %s", name, pod.Status.Reason, whyNot(pod))
		case err == nil && hopeless(pod):
			return nil, fmt.Errorf("pod %s on node %s cannot start: %s; load the image onto the nodes, or name another with --image",
				name, pod.Spec.NodeName, whyNot(pod))
		}
		if err := retry.Pause(ctx, pollEvery); errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("pod %s is not ready after %v: %s", name, startTimeout, c.lastEvent(name))
		} else if err != nil {
			return nil, err
		}
	}
}

// lastEvent returns the cluster's last event about a pod.
func (c *connection) lastEvent(pod string) string {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	events := &corev1.EventList{}
	err := c.core.Get().Namespace(c.Namespace).Resource("events").VersionedParams(&metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + pod}, parameters).Do(ctx).Into(events)
	if err != nil || len(events.Items) == 0 {
		return "the cluster says nothing about it"
	}
	return events.Items[len(events.Items)-1].Message
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// hopeless reports whether a pod's image cannot be pulled.
func hopeless(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			switch waiting.Reason {
			case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerError", "CreateContainerConfigError":
				return true
			}
		}
	}
	return false
}

func whyNot(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			return waiting.Reason + ": " + waiting.Message
		}
		if ended := status.State.Terminated; ended != nil {
			return fmt.Sprintf("%s, exit status %d %s", ended.Reason, ended.ExitCode, ended.Message)
		}
	}
	return pod.Status.Message
}

// addressOf returns a pod's address on a path.
func addressOf(pod *corev1.Pod, path string) (netip.Addr, error) {
	if path != results.PathTSN {
		return netip.ParseAddr(pod.Status.PodIP)
	}
	var given []struct {
		Interface string       `json:"interface"`
		IPs       []netip.Addr `json:"ips"`
	}
	if text := pod.Annotations[networksGiven]; text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return netip.Addr{}, fmt.Errorf("read which networks pod %s is on: %w", pod.Name, err)
		}
	}
	for _, network := range given {
		for _, address := range network.IPs {
			if network.Interface == tsnInterface && address.Is4() {
				return address, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("pod %s has no address on network interface %s; look whether Multus runs in the cluster", pod.Name,
		tsnInterface)
}
