// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	// primaryInterface is the interface of the pod's default network.
	primaryInterface = "eth0"
	// podPrefix and podDigits form the names of all others.
	podPrefix = "pod"
	podDigits = 11
)

// podInterface returns the interface of a network in the pod: the name in KubeVirt's status, or the name that KubeVirt
// derives from the network's.
func (vmi *instance) podInterface(network string) string {
	for _, iface := range vmi.Status.Interfaces {
		if iface.Name == network && iface.PodInterfaceName != "" {
			return iface.PodInterfaceName
		}
	}
	for _, specNetwork := range vmi.Spec.Networks {
		if specNetwork.Name == network && (specNetwork.Multus == nil || specNetwork.Multus.Default) {
			return primaryInterface
		}
	}
	sum := sha256.Sum256([]byte(network))
	return podPrefix + hex.EncodeToString(sum[:])[:podDigits]
}
