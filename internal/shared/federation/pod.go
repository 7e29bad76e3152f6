// SPDX-License-Identifier: Apache-2.0

package federation

// Pod is a pod of a workload.
type Pod struct {
	Workload   string      `json:"workload" doc:"NAMESPACE/NAME of the workload."`
	Cluster    string      `json:"cluster"`
	Name       string      `json:"name"`
	Node       string      `json:"node,omitempty"`
	Phase      string      `json:"phase"`
	Ready      bool        `json:"ready"`
	Addresses  []string    `json:"addresses" doc:"Of the pod's primary network."`
	Networks   []PodOnTSN  `json:"networks" doc:"TSNNetworks that the pod is on."`
	Links      []PodLink   `json:"links" doc:"Links that the pod has or waits for, as its cluster says."`
	Containers []Container `json:"containers"`
}

// PodOnTSN is a pod on a network.
type PodOnTSN struct {
	Network   string   `json:"network"`
	Interface string   `json:"interface,omitempty"`
	Addresses []string `json:"addresses"`
}

// Container is a container of a pod.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	State string `json:"state" enum:"Running,Waiting,Terminated,Unknown"`
}

// Unseen is a cluster whose pods the hub cannot list.
type Unseen struct {
	Workload string `json:"workload"`
	Cluster  string `json:"cluster"`
	Replicas *int32 `json:"replicas,omitempty" doc:"How many pods the cluster reports."`
	Ready    *int32 `json:"ready,omitempty"`
	Reason   string `json:"reason"`
}

// Pods are the pods of workloads.
type Pods struct {
	Items  []Pod    `json:"items"`
	Unseen []Unseen `json:"unseen" doc:"Clusters that have a workload, whose pods the hub cannot ask for."`
}
