// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// ByAge sorts networks from the oldest to the youngest: the older one wins a conflict.
func ByAge(networks []v1alpha1.TSNNetwork) []v1alpha1.TSNNetwork {
	return slices.SortedFunc(slices.Values(networks), func(a, b v1alpha1.TSNNetwork) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// Conflict returns an older network that conflicts with this one, and why; "" for none.
func Conflict(network *v1alpha1.TSNNetwork, networks []v1alpha1.TSNNetwork) (name, why string) {
	for _, other := range ByAge(networks) {
		if other.Name == network.Name {
			return "", ""
		}
		if other.Spec.VNI == network.Spec.VNI {
			return other.Name, "the same vni"
		}
		if overlap := Overlap(Ranges(network), Ranges(&other)); overlap.IsValid() {
			return other.Name, "addresses of the same range, " + overlap.String()
		}
	}
	return "", ""
}

// Overlap returns the first of others that overlaps one of ranges; it is invalid if there is none.
func Overlap(ranges, others []netip.Prefix) netip.Prefix {
	for _, prefix := range ranges {
		for _, other := range others {
			if prefix.Overlaps(other) {
				return other
			}
		}
	}
	return netip.Prefix{}
}

// Ranges returns the address ranges of a network.
func Ranges(network *v1alpha1.TSNNetwork) []netip.Prefix {
	texts := []string{network.Spec.IPv4.CIDR}
	if network.Spec.IPv6 != nil {
		texts = append(texts, network.Spec.IPv6.CIDR)
	}
	var all []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil { // the API server validates it
			all = append(all, prefix)
		}
	}
	return all
}
