// SPDX-License-Identifier: Apache-2.0

package pods

import (
	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// listedAtMost is how many addresses, networks, links and containers of a pod are told.
const listedAtMost = 64

// describe is a pod as it is told: by what its cluster says, of which texts and lists are bounded.
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

// first are as many as are told.
func first[T any](all []T) []T { return all[:min(len(all), listedAtMost)] }

// list is one that is told as [] without members.
func list(texts []string) []string {
	current := []string{}
	for _, text := range first(texts) {
		current = append(current, spread.Quoted(text))
	}
	return current
}
