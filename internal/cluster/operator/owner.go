// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// scheduleOwner returns the network whose schedule and classes apply, "" if none has any: a node's uplink has one set of gates. A deleted
// network keeps them until its last pod is gone.
func scheduleOwner(networks []v1alpha1.TSNNetwork) string {
	for _, network := range tsnnetwork.ByAge(networks) {
		deleted := network.DeletionTimestamp != nil
		if tsnnetwork.HasGates(&network) && (!deleted || network.Status.Schedule != nil) {
			return network.Name
		}
	}
	return ""
}
