// SPDX-License-Identifier: Apache-2.0

package federation

import "time"

// Event is what happened to an object of the hub, once or several times.
type Event struct {
	At        time.Time `json:"at" doc:"When it was seen last."`
	First     time.Time `json:"first" doc:"When it was seen first."`
	Type      string    `json:"type" doc:"Normal or Warning."`
	Namespace string    `json:"namespace,omitempty"`
	Object    string    `json:"object" doc:"KIND/NAME"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	Count     int32     `json:"count" doc:"How often it was seen: equal events are told once."`
}

// Events is a list of them, the youngest first.
type Events struct {
	Items []Event `json:"items"`
}

// Change is that an object is not as it was.
type Change struct {
	Change    string    `json:"change" enum:"Added,Modified,Deleted"`
	Kind      string    `json:"kind" enum:"Cluster,Workload,Network,Link"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Cluster   *Cluster  `json:"cluster,omitempty" doc:"The cluster, if it is one."`
	Workload  *Workload `json:"workload,omitempty" doc:"The workload, if it is one."`
	Network   *Network  `json:"network,omitempty" doc:"The network, if it is one."`
	Link      *Link     `json:"link,omitempty" doc:"The link over clusters, if it is one."`
}

// Problem is an answer that says why there is no other, by RFC 9457.
type Problem struct {
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Errors []ProblemDetail `json:"errors,omitempty"`
}

// ProblemDetail is one thing that is wrong with a request.
type ProblemDetail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty"`
}
