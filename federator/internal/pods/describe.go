// SPDX-License-Identifier: Apache-2.0

package pods

import (
	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// describe is a pod as it is told.
func describe(pod *tsn.WorkloadPod, cluster, workload string) federation.Pod {
	told := federation.Pod{
		Workload: workload, Cluster: cluster, Name: pod.Name, Node: pod.Node, Phase: pod.Phase, Ready: pod.Ready,
		Addresses: list(pod.Addresses), Networks: []federation.PodOnTSN{}, Links: []federation.PodLink{}, Containers: []federation.Container{},
	}
	for _, on := range pod.Networks {
		told.Networks = append(told.Networks, federation.PodOnTSN{Network: on.Network, Interface: on.Interface, Addresses: list(on.Addresses)})
	}
	for _, link := range pod.Links {
		told.Links = append(told.Links, federation.PodLink{
			Service: link.Service, Interface: link.Interface, Addresses: list(link.Addresses), Peer: link.Peer, Up: link.Up,
		})
	}
	for _, container := range pod.Containers {
		told.Containers = append(told.Containers, federation.Container{Name: container.Name, Image: container.Image, State: container.State})
	}
	return told
}

// list is one that is told as [] without members.
func list(texts []string) []string { return append([]string{}, texts...) }
