// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// ByAge sorts networks from the oldest to the youngest: who was there first keeps what two want.
func ByAge(networks []v1alpha1.TSNNetwork) []v1alpha1.TSNNetwork {
	return slices.SortedFunc(slices.Values(networks), func(a, b v1alpha1.TSNNetwork) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// Conflict names an older network with which this one cannot be, and what they both want.
func Conflict(network *v1alpha1.TSNNetwork, networks []v1alpha1.TSNNetwork) (name, why string) {
	for _, other := range ByAge(networks) {
		if other.Name == network.Name {
			return "", ""
		}
		if other.Spec.VNI == network.Spec.VNI {
			return other.Name, "the same vni"
		}
		if both := Overlap(Ranges(network), Ranges(&other)); both.IsValid() {
			return other.Name, "addresses of the same range, " + both.String()
		}
	}
	return "", ""
}

// Overlap is the first of their ranges that has addresses of one of ours; it is not valid if there is none.
func Overlap(ours, theirs []netip.Prefix) netip.Prefix {
	for _, prefix := range ours {
		for _, other := range theirs {
			if prefix.Overlaps(other) {
				return other
			}
		}
	}
	return netip.Prefix{}
}

// Ranges are those of a network's addresses.
func Ranges(network *v1alpha1.TSNNetwork) []netip.Prefix {
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
