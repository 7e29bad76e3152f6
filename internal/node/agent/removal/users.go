// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
)

// networksAnnotation is the annotation of Multus.
const networksAnnotation = "k8s.v1.cni.cncf.io/networks"

// page is the number of pods per request.
const page = 500

// Network names a NetworkAttachmentDefinition.
type Network struct{ Namespace, Name string }

// podsInUse lists the running pods with a volume of the driver or on one of the networks.
func podsInUse(ctx context.Context, client kubernetes.Interface, driver string, networks []Network) ([]string, error) {
	var names []string
	err := eachPod(ctx, client, func(pod *corev1.Pod) {
		if csi.InPod(pod, driver) || usesNetwork(pod, networks) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	})
	slices.Sort(names)
	return names, err
}

// podsByNode returns the UIDs of the running pods that can be on networks, by node.
func podsByNode(ctx context.Context, client kubernetes.Interface) (map[string][]string, error) {
	uids := map[string][]string{}
	err := eachPod(ctx, client, func(pod *corev1.Pod) {
		if !pod.Spec.HostNetwork {
			uids[pod.Spec.NodeName] = append(uids[pod.Spec.NodeName], string(pod.UID))
		}
	})
	return uids, err
}

// eachPod calls do for each pod of the cluster that has not ended.
func eachPod(ctx context.Context, client kubernetes.Interface, do func(pod *corev1.Pod)) error {
	options := metav1.ListOptions{Limit: page}
	for {
		pods, err := client.CoreV1().Pods("").List(ctx, options)
		if err != nil {
			return fmt.Errorf("list the cluster's pods: %w", err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				do(pod)
			}
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			return nil
		}
	}
}

func usesNetwork(pod *corev1.Pod, networks []Network) bool {
	return slices.ContainsFunc(selectedNetworks(pod), func(network Network) bool { return slices.Contains(networks, network) })
}

// selectedNetworks parses the annotation in both forms: a list of [NAMESPACE/]NAME[@INTERFACE], separated by commas, or
// JSON.
func selectedNetworks(pod *corev1.Pod) []Network {
	text := strings.TrimSpace(pod.Annotations[networksAnnotation])
	if text == "" {
		return nil
	}
	var all []Network
	add := func(namespace, name string) {
		if namespace == "" {
			namespace = pod.Namespace
		}
		all = append(all, Network{namespace, name})
	}
	if strings.HasPrefix(text, "[") {
		var elements []struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		}
		if json.Unmarshal([]byte(text), &elements) == nil {
			for _, element := range elements {
				add(element.Namespace, element.Name)
			}
		}
		return all
	}
	for word := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(word), "@")
		namespace, rest, ok := strings.Cut(name, "/")
		if !ok {
			namespace, rest = "", name
		}
		add(namespace, rest)
	}
	return all
}

// inUseError returns an error with the names of some pods.
func inUseError(pods []string) error {
	const most = 20
	names, rest := pods, ""
	if len(pods) > most {
		names, rest = pods[:most], fmt.Sprintf(" and %d more", len(pods)-most)
	}
	return fmt.Errorf("networks or volumes of KuberneTSN are in use by pods %s%s; delete them first, nothing was removed",
		strings.Join(names, ", "), rest)
}
