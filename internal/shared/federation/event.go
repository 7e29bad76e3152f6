// SPDX-License-Identifier: Apache-2.0

package federation

import "time"

// Event is an event of an object of the hub.
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

// Events is a list of events, the newest first.
type Events struct {
	Items []Event `json:"items"`
}

// Change is a change of an object.
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

// Problem is an error response (RFC 9457).
type Problem struct {
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Errors []ProblemDetail `json:"errors,omitempty"`
}

// ProblemDetail is a single error of a request.
type ProblemDetail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty"`
}
