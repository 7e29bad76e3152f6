// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// usage is who is on a network.
type usage struct {
	// onNode counts the pods on each node, until their objects are gone.
	onNode map[string]int32
	// waiting are pods whose node has not attached them yet.
	waiting []corev1.Pod
	// namespaces have pods on the network.
	namespaces map[string]bool
	// pods names some of them, for sentences.
	pods  []string
	total int32
}

func (u *usage) nodes() []string { return slices.Sorted(maps.Keys(u.onNode)) }

// networkStatus is written by Multus when a pod is attached.
const networkStatus = "k8s.v1.cni.cncf.io/network-status"

// namedPods is how many pods a sentence names.
const namedPods = 5

func usageOf(ctx context.Context, reader client.Reader, network string) (*usage, error) {
	var pods corev1.PodList // the cache's own, and only read
	err := reader.List(ctx, &pods, client.MatchingLabels{v1alpha1.PodLabel: v1alpha1.LabelValue}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the pods on networks: %w", err)
	}
	used := &usage{onNode: map[string]int32{}, namespaces: map[string]bool{}}
	for _, pod := range pods.Items {
		names, err := tsnnetwork.NetworksOf(pod.Annotations[v1alpha1.NetworkAnnotation])
		if err != nil || !slices.Contains(names, network) {
			continue // somebody gave it the label by hand
		}
		used.total++
		used.namespaces[pod.Namespace] = true
		used.pods = append(used.pods, pod.Namespace+"/"+pod.Name)
		if pod.Spec.NodeName == "" {
			continue
		}
		used.onNode[pod.Spec.NodeName]++
		if pod.Annotations[networkStatus] == "" && pod.DeletionTimestamp == nil {
			used.waiting = append(used.waiting, pod)
		}
	}
	slices.Sort(used.pods)
	return used, nil
}

// some names a few of many.
func some(names []string) []string {
	if len(names) <= namedPods {
		return names
	}
	return append(slices.Clone(names[:namedPods]), fmt.Sprintf("and %d more", len(names)-namedPods))
}
