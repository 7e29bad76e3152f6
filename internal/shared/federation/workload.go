// SPDX-License-Identifier: Apache-2.0

package federation

import "time"

// DeployRequest asks for objects to be on clusters.
type DeployRequest struct {
	Name      string            `json:"name" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Name of the workload: the objects of the manifest, together."`
	Namespace string            `json:"namespace,omitempty" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" default:"default" doc:"Namespace of the objects."`
	Manifest  string            `json:"manifest" doc:"Manifests of Kubernetes in YAML or JSON, as for kubectl apply."`
	Clusters  []string          `json:"clusters" minItems:"1" maxItems:"100" uniqueItems:"true" doc:"Clusters that shall have the objects, each of them all."`
	Networks  []string          `json:"networks,omitempty" maxItems:"16" uniqueItems:"true" doc:"TSNNetworks on which the pods shall be. An annotation kubernetsn.io/network of an object of the manifest or of its pods counts, too."`
	Clients   map[string]string `json:"clients,omitempty" doc:"Names of interfaces by TSNServices (SERVICE or SERVICE.NAMESPACE) to which the pods shall have links: the pods get the labels client.kubernetsn.io/SERVICE."`
	Endpoints map[string]string `json:"endpoints,omitempty" doc:"What names of interfaces begin with by TSNServices to which the pods shall be endpoints: the pods get the labels endpoint.kubernetsn.io/SERVICE."`
	DryRun    bool              `json:"dryRun,omitempty" doc:"Only check."`
}

// MoveRequest asks for a workload to be on other clusters.
type MoveRequest struct {
	To             []string `json:"to" minItems:"1" maxItems:"100" uniqueItems:"true" doc:"Clusters that shall have the workload afterwards."`
	TimeoutSeconds int32    `json:"timeoutSeconds,omitempty" minimum:"5" maximum:"86400" default:"300" doc:"For how long the workload may take to be ready there. After it the workload stays where it was."`
}

// Workload is objects that are on clusters together.
type Workload struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Clusters  []string `json:"clusters" doc:"Clusters that shall have the workload now. During a move these are the old and the new ones."`
	Objects   []Object `json:"objects"`
	Move      *Move    `json:"move,omitempty" doc:"The move under way, or the last one."`
	Deleting  bool     `json:"deleting,omitempty" doc:"The workload is being removed."`
}

// Workloads is a list of them.
type Workloads struct {
	Items []Workload `json:"items"`
}

// Object is an object of a workload.
type Object struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Name       string      `json:"name"`
	Clusters   []OnCluster `json:"clusters" doc:"What is known of the object in each cluster."`
}

// Health of an object in a cluster, as Karmada judges it.
const (
	Healthy       = "Healthy"
	Unhealthy     = "Unhealthy"
	HealthUnknown = "Unknown"
)

// OnCluster is an object in a cluster.
type OnCluster struct {
	Cluster  string `json:"cluster"`
	Applied  bool   `json:"applied" doc:"The cluster's API server has taken it."`
	Health   string `json:"health" enum:"Healthy,Unhealthy,Unknown"`
	Replicas *int32 `json:"replicas,omitempty" doc:"How many pods the cluster reports of it."`
	Ready    *int32 `json:"ready,omitempty" doc:"How many of these are ready."`
	Message  string `json:"message,omitempty" doc:"Why it was not applied."`
}

// Phases of a move.
const (
	// MovePlacing : the workload is on the old and the new clusters, and not yet ready on the new ones.
	MovePlacing = "Placing"
	// MoveNarrowing : the workload is ready on the new clusters, and is being removed from the old ones.
	MoveNarrowing = "Narrowing"
	// MoveReverting : the workload did not become ready in time, and is being removed from the new clusters.
	MoveReverting = "Reverting"
	// MoveSettling : the workload is removed from the new clusters; its remaining objects there are being deleted.
	MoveSettling = "Settling"
	// MoveDone : the workload has moved.
	MoveDone = "Done"
	// MoveFailed : the workload is on the old clusters.
	MoveFailed = "Failed"
)

// Move is a move of a workload to other clusters.
type Move struct {
	From      []string  `json:"from" doc:"Clusters that had the workload."`
	To        []string  `json:"to" doc:"Clusters that shall have it."`
	Phase     string    `json:"phase" enum:"Placing,Narrowing,Reverting,Settling,Done,Failed"`
	Message   string    `json:"message,omitempty" doc:"What is awaited, or why the move failed."`
	StartedAt time.Time `json:"startedAt"`
	Deadline  time.Time `json:"deadline" doc:"When the workload must be ready on the new clusters."`
	By        string    `json:"by,omitempty" doc:"Who asked for it."`
}

// IsFinal reports whether the move has ended.
func (m *Move) IsFinal() bool { return m.Phase == MoveDone || m.Phase == MoveFailed }
