// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Names of Karmada's, as its own programs give them.
const (
	// ClusterNamespace is where credentials of clusters are.
	ClusterNamespace = "karmada-cluster"
	// SystemLabel is on what Karmada made, and SystemValue its value.
	SystemLabel = "karmada.io/system"
	SystemValue = "true"
)

// ExecutionNamespace is where the Works of a cluster are.
func ExecutionNamespace(cluster string) string { return "karmada-es-" + cluster }

// Impersonator names the Secret by which Karmada reaches a cluster as whoever asks for one of its objects.
func Impersonator(cluster string) string { return cluster + "-impersonator" }

// Leaving tells whether a cluster shall not be a member for long: Karmada removes it, or will when its links have ended.
func Leaving(cluster *v1alpha1.Cluster) bool {
	return cluster.DeletionTimestamp != nil || cluster.Annotations[federation.LeavingAnnotation] != ""
}
