// SPDX-License-Identifier: Apache-2.0

package federation

// Names that the federator puts on objects of the hub.
const (
	// MoveAnnotation of a policy has the move of its workload.
	MoveAnnotation = "federation.kubernetsn.io/move"
	// DeletingAnnotation of a policy says that its workload is being removed.
	DeletingAnnotation = "federation.kubernetsn.io/deleting"
	// FingerprintAnnotation of a Cluster is that of its authority.
	FingerprintAnnotation = "federation.kubernetsn.io/fingerprint"
	// LeavingAnnotation of a Cluster says that it shall leave, before it is deleted.
	LeavingAnnotation = "federation.kubernetsn.io/leaving"
	// RightsLabel of an object in a member says that it is of the rights of a hub there, by their name: AgentRights, or that of an account.
	RightsLabel = "federation.kubernetsn.io/rights"
	// AgentRights are those of karmada-agent.
	AgentRights = "karmada-agent"
	// ManagedBy is the label of what the federator makes, and Manager its value.
	ManagedBy = "app.kubernetes.io/managed-by"
	Manager   = "ktsn-federator"
)

// MaxBody is how many bytes a request may have.
const MaxBody = 1 << 20

// MaxObjects is how many objects a workload may have.
const MaxObjects = 100
