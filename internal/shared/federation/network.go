// SPDX-License-Identifier: Apache-2.0

package federation

// Network is a TSNNetwork of the hub.
type Network struct {
	Name       string             `json:"name"`
	VNI        int32              `json:"vni"`
	IPv4       string             `json:"ipv4"`
	IPv6       string             `json:"ipv6,omitempty"`
	Clusters   []NetworkOnCluster `json:"clusters" doc:"Clusters that have a part of the network."`
	Conditions []Condition        `json:"conditions"`
}

// NetworkOnCluster is a cluster's part of a network.
type NetworkOnCluster struct {
	Cluster string `json:"cluster"`
	IPv4    string `json:"ipv4" doc:"The cluster's part of the range."`
	IPv6    string `json:"ipv6,omitempty"`
	Applied bool   `json:"applied" doc:"The cluster's API server has the network."`
	Nodes   int    `json:"nodes" doc:"How many nodes the cluster reports."`
	MTU     int32  `json:"mtu,omitempty" doc:"The most that its nodes leave for pods, where it is known."`
}

// Condition is a condition of an object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status" enum:"True,False,Unknown"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Networks is a list of networks.
type Networks struct {
	Items []Network `json:"items"`
}
