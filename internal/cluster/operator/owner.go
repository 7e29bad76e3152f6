// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// owner names the network whose schedule and classes count, "" if none has any: the gates of a node's uplink are there
// once. One that was deleted keeps them until its last pod has gone.
func owner(networks []v1alpha1.TSNNetwork) string {
	for _, network := range tsnnetwork.ByAge(networks) {
		going := network.DeletionTimestamp != nil
		if tsnnetwork.HasGates(&network) && (!going || network.Status.Schedule != nil) {
			return network.Name
		}
	}
	return ""
}
