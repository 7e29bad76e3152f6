// SPDX-License-Identifier: Apache-2.0

package federation

// Names that the federator puts on objects of the hub.
const (
	// MoveAnnotation of a policy has the move of its workload.
	MoveAnnotation = "federation.kubernetsn.io/move"
	// DeletingAnnotation of a policy is set while its workload is being removed.
	DeletingAnnotation = "federation.kubernetsn.io/deleting"
	// FingerprintAnnotation of a Cluster is the fingerprint of its CA.
	FingerprintAnnotation = "federation.kubernetsn.io/fingerprint"
	// LeavingAnnotation of a Cluster is set while it leaves, before it is deleted.
	LeavingAnnotation = "federation.kubernetsn.io/leaving"
	// RightsLabel of an object in a member has the name of the hub's rights that it belongs to: AgentRights, or the name of an account.
	RightsLabel = "federation.kubernetsn.io/rights"
	// AgentRights are the rights of karmada-agent.
	AgentRights = "karmada-agent"
	// ManagedBy is the label of objects that the federator creates, and Manager its value.
	ManagedBy = "app.kubernetes.io/managed-by"
	Manager   = "ktsn-federator"
)

// MaxBody is the maximum size of a request in bytes.
const MaxBody = 1 << 20

// MaxObjects is the maximum number of objects of a workload.
const MaxObjects = 100
