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
	return parsePrefixes(texts)
}

// parsePrefixes ignores what is no range: the API server validates them, and optional ones may be empty.
func parsePrefixes(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// Static returns the parts of a network's ranges whose addresses pods have on any node.
func Static(network *v1alpha1.TSNNetwork) []netip.Prefix {
	texts := []string{network.Spec.IPv4.Static}
	if network.Spec.IPv6 != nil {
		texts = append(texts, network.Spec.IPv6.Static)
	}
	return parsePrefixes(texts)
}

// Contains reports whether one of the ranges has the address.
func Contains(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}
