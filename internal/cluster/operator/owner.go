// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// byAge sorts networks from the oldest to the youngest: who was there first keeps what two want.
func byAge(networks []v1alpha1.TSNNetwork) []v1alpha1.TSNNetwork {
	return slices.SortedFunc(slices.Values(networks), func(a, b v1alpha1.TSNNetwork) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// owner names the network whose schedule and classes count, "" if none has any: the gates of a node's uplink are there
// once. One that was deleted keeps them until its last pod has gone.
func owner(networks []v1alpha1.TSNNetwork) string {
	for _, network := range byAge(networks) {
		going := network.DeletionTimestamp != nil
		if tsnnetwork.HasGates(&network) && (!going || network.Status.Schedule != nil) {
			return network.Name
		}
	}
	return ""
}

// conflict names an older network with which this one cannot be, and what they both want.
func conflict(network *v1alpha1.TSNNetwork, networks []v1alpha1.TSNNetwork) (name, why string) {
	for _, other := range byAge(networks) {
		if other.Name == network.Name {
			return "", ""
		}
		if other.Spec.VNI == network.Spec.VNI {
			return other.Name, "the same vni"
		}
		for _, ours := range ranges(network) {
			for _, theirs := range ranges(&other) {
				if ours.Overlaps(theirs) {
					return other.Name, "addresses of the same range, " + theirs.String()
				}
			}
		}
	}
	return "", ""
}

func ranges(network *v1alpha1.TSNNetwork) []netip.Prefix {
	texts := []string{network.Spec.IPv4.CIDR}
	if network.Spec.IPv6 != nil {
		texts = append(texts, network.Spec.IPv6.CIDR)
	}
	var all []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil { // the API server took it for one
			all = append(all, prefix)
		}
	}
	return all
}
