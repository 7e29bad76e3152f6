// SPDX-License-Identifier: Apache-2.0

package pods

import (
	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// maxListed limits the addresses, networks, links and containers of a pod in a response.
const maxListed = 64

// describe returns a pod as the API shows it, from the cluster's report. Texts and lists are bounded.
func describe(pod *tsn.WorkloadPod, cluster, workload string) federation.Pod {
	currentPod := federation.Pod{
		Workload: workload, Cluster: cluster, Name: spread.Quoted(pod.Name), Node: spread.Quoted(pod.Node), Phase: spread.Quoted(pod.Phase), Ready: pod.Ready,
		Addresses: list(pod.Addresses), Networks: []federation.PodOnTSN{}, Links: []federation.PodLink{}, Containers: []federation.Container{},
	}
	for _, on := range first(pod.Networks) {
		currentPod.Networks = append(currentPod.Networks, federation.PodOnTSN{Network: spread.Quoted(on.Network), Interface: spread.Quoted(on.Interface), Addresses: list(on.Addresses)})
	}
	for _, link := range first(pod.Links) {
		currentPod.Links = append(currentPod.Links, federation.PodLink{
			Service: spread.Quoted(link.Service), Interface: spread.Quoted(link.Interface), Addresses: list(link.Addresses), Peer: spread.Quoted(link.Peer), Up: link.Up,
		})
	}
	for _, container := range first(pod.Containers) {
		currentPod.Containers = append(currentPod.Containers, federation.Container{
			Name: spread.Quoted(container.Name), Image: spread.Quoted(container.Image), State: spread.Quoted(container.State),
		})
	}
	return currentPod
}

// first returns at most maxListed elements.
func first[T any](all []T) []T { return all[:min(len(all), maxListed)] }

// list returns an empty list instead of nil, which is encoded as [].
func list(texts []string) []string {
	current := []string{}
	for _, text := range first(texts) {
		current = append(current, spread.Quoted(text))
	}
	return current
}
