// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Names that Karmada's own programs use.
const (
	// ClusterNamespace is the namespace of the credentials of clusters.
	ClusterNamespace = "karmada-cluster"
	// SystemLabel marks objects that Karmada has created; SystemValue is its value.
	SystemLabel = "karmada.io/system"
	SystemValue = "true"
)

// ExecutionNamespace returns the namespace of the Works of a cluster.
func ExecutionNamespace(cluster string) string { return "karmada-es-" + cluster }

// Impersonator returns the name of the Secret with which Karmada reaches a cluster on behalf of a user.
func Impersonator(cluster string) string { return cluster + "-impersonator" }

// Leaving reports whether a cluster is being removed, or will be when its links have been removed.
func Leaving(cluster *v1alpha1.Cluster) bool {
	return cluster.DeletionTimestamp != nil || cluster.Annotations[federation.LeavingAnnotation] != ""
}
