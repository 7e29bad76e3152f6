// SPDX-License-Identifier: Apache-2.0

package federation

import "time"

// Service is a TSNService of the hub.
type Service struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	Endpoints  int32       `json:"endpoints" doc:"How many pods of all clusters are endpoints."`
	Clients    int32       `json:"clients" doc:"How many pods of all clusters are clients."`
	Linked     int32       `json:"linked" doc:"How many clients have links that are up."`
	Conditions []Condition `json:"conditions"`
}

// Link is a TSNLink of the hub, between clusters.
type Link struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	Service    string      `json:"service"`
	Hop        int32       `json:"hop" doc:"Its place in the chain, 0 at the client."`
	VNI        int32       `json:"vni"`
	MTU        int32       `json:"mtu,omitempty" doc:"The largest packet that it was seen to carry."`
	Encryption string      `json:"encryption,omitempty"`
	Up         bool        `json:"up"`
	Since      *time.Time  `json:"since,omitempty" doc:"When it was first up."`
	Client     LinkEnd     `json:"client"`
	Endpoint   LinkEnd     `json:"endpoint"`
	Conditions []Condition `json:"conditions"`
}

// LinkEnd is a pod at an end of a link.
type LinkEnd struct {
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
	Node      string   `json:"node"`
	Interface string   `json:"interface"`
	Addresses []string `json:"addresses"`
}

// Links is a list of links, and of the services that they belong to.
type Links struct {
	Services []Service `json:"services"`
	Items    []Link    `json:"items"`
}

// PodLink is an end of a link in a pod.
type PodLink struct {
	Service   string   `json:"service"`
	Interface string   `json:"interface,omitempty"`
	Addresses []string `json:"addresses"`
	Peer      string   `json:"peer,omitempty" doc:"The pod at the other end, as NAMESPACE/POD, with CLUSTER/ before it where that is another one. Without one the pod waits for the link."`
	Up        bool     `json:"up"`
}
