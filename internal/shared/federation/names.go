// SPDX-License-Identifier: Apache-2.0

package federation

// Annotations and labels of a hub's objects.
const (
	// MoveAnnotation of a policy has the current move of its workload.
	MoveAnnotation = "federation.kubernetsn.io/move"
	// DeletingAnnotation of a policy is set while its workload is being removed.
	DeletingAnnotation = "federation.kubernetsn.io/deleting"
	// FingerprintAnnotation of a Cluster is the fingerprint of its CA.
	FingerprintAnnotation = "federation.kubernetsn.io/fingerprint"
	// LeavingAnnotation of a Cluster is set while it leaves, before it is deleted.
	LeavingAnnotation = "federation.kubernetsn.io/leaving"
	// RightsLabel of an object in a member cluster names the hub's rights that the object belongs to: AgentRights, or the name of an account.
	RightsLabel = "federation.kubernetsn.io/rights"
)

const (
	// AgentRights are the rights of karmada-agent.
	AgentRights = "karmada-agent"
	// ManagedBy is the label of objects that the federator creates.
	ManagedBy = "app.kubernetes.io/managed-by"
	// Manager is the value of that label.
	Manager = "ktsn-federator"
)

// MaxBody is the maximum size of a request in bytes.
const MaxBody = 1 << 20

// MaxObjects is the maximum number of objects of a workload.
const MaxObjects = 100
