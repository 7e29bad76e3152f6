// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// conflict returns why a service gets no new links, nil if it does, and sets its accepted ranges and routes.
func (r *pairing) conflict() *Finding {
	if len(r.findings) > 0 && r.findings[0].Reason == v1alpha1.ReasonSelectorInvalid {
		r.accepted = r.service.Status.Accepted
		return &r.findings[0]
	}
	blocked := ""
	if what, which := r.ranges.conflict(r.service); what != "" {
		blocked = fmt.Sprintf("%s has addresses of the same range, %s, and takes precedence over this service", what, which)
		// A temporary network must not release the accepted ranges to nodes.
		r.accepted = slices.DeleteFunc(toStrings(Ranges(r.service)), func(text string) bool { return !slices.Contains(r.service.Status.Accepted, text) })
	} else if taken := r.in.reserved(r.service, Ranges(r.service)...); taken != nil {
		blocked = fmt.Sprintf("%s has addresses of the same range, %s", taken.What, taken.Range)
	} else {
		r.accepted = toStrings(Ranges(r.service))
	}
	for _, route := range r.service.Spec.Routes {
		to, err := netip.ParsePrefix(route.To)
		if err != nil {
			continue
		}
		if taken := r.in.reserved(r.service, to); taken != nil {
			r.findings = append(r.findings, Finding{v1alpha1.ReasonOverlaps, fmt.Sprintf("route %s is not set in pods: %s has addresses of it, %s; "+
				"remove it from spec.routes", to, taken.What, taken.Range)})
		} else {
			r.accepted = append(r.accepted, route.To)
		}
	}
	if blocked == "" {
		return nil
	}
	r.findings = slices.Insert(r.findings, 0, Finding{v1alpha1.ReasonOverlaps, blocked + "; create another TSNService with another range"})
	return &r.findings[0]
}

// Reserved is one of the cluster's own ranges, which neither links nor their routes may use. The field What describes its owner.
type Reserved struct {
	Range netip.Prefix
	What  string
	// OfNode is set if a node reports the range; it is ignored for a service for which the addresses are already accepted.
	OfNode bool
}

// reserved returns the first of the cluster's own ranges that overlaps the ranges of a service, nil for none.
func (in *Input) reserved(service *v1alpha1.TSNService, ranges ...netip.Prefix) *Reserved {
	for i := range in.Reserved {
		reserved := &in.Reserved[i]
		for _, prefix := range ranges {
			if reserved.Range.Overlaps(prefix) && (!reserved.OfNode || !contains(Accepted(service), prefix)) {
				return reserved
			}
		}
	}
	return nil
}

// Accepted returns the ranges in status.accepted of a service. A recreated service of the same name has none, whatever links are left.
func Accepted(service *v1alpha1.TSNService) []netip.Prefix {
	return parsePrefixes(service.Status.Accepted...)
}

// parsePrefixes parses ranges; it skips invalid ones, which the API server rejects.
func parsePrefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// contains reports whether all addresses of a prefix are in one of the ranges.
func contains(ranges []netip.Prefix, prefix netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(within netip.Prefix) bool {
		return prefix.Bits() >= within.Bits() && within.Contains(prefix.Addr())
	})
}

// checkTaken returns an error if the cluster or a network has an address of an end.
func (in *Input) checkTaken(service *v1alpha1.TSNService, end *v1alpha1.LinkEnd) error {
	for _, address := range addressesOf(end) {
		ranges := []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}
		if taken := in.reserved(service, ranges...); taken != nil {
			return fmt.Errorf("%s has address %s, of %s", taken.What, address, taken.Range)
		}
		for i := range in.Networks {
			if tsnnetwork.Overlap(ranges, tsnnetwork.Ranges(&in.Networks[i])).IsValid() {
				return fmt.Errorf("TSNNetwork %s has address %s", in.Networks[i].Name, address)
			}
		}
	}
	return nil
}

// Conflict returns a network or an older service that overlaps the ranges of a service, and the overlap. Networks always win, because
// administrators create them, and services can be created by tenants.
func Conflict(service *v1alpha1.TSNService, services []v1alpha1.TSNService, networks []v1alpha1.TSNNetwork) (what, which string) {
	return newRangeIndex(services, networks).conflict(service)
}

// rangeIndex has the parsed ranges of services and networks, both sorted by age.
type rangeIndex struct {
	services []*v1alpha1.TSNService
	networks []v1alpha1.TSNNetwork
	// serviceRanges and networkRanges are their ranges.
	serviceRanges, networkRanges [][]netip.Prefix
}

func newRangeIndex(services []v1alpha1.TSNService, networks []v1alpha1.TSNNetwork) *rangeIndex {
	a := &rangeIndex{services: byAge(services), networks: tsnnetwork.ByAge(networks)}
	for _, service := range a.services {
		a.serviceRanges = append(a.serviceRanges, Ranges(service))
	}
	for i := range a.networks {
		a.networkRanges = append(a.networkRanges, tsnnetwork.Ranges(&a.networks[i]))
	}
	return a
}

func (a *rangeIndex) conflict(service *v1alpha1.TSNService) (what, which string) {
	prefixes := Ranges(service)
	for i, other := range a.services {
		if keyOf(other) == keyOf(service) {
			break
		}
		if other.DeletionTimestamp != nil {
			continue
		}
		if overlap := tsnnetwork.Overlap(prefixes, a.serviceRanges[i]); overlap.IsValid() {
			return "TSNService " + keyOf(other).String(), overlap.String()
		}
	}
	for i := range a.networks {
		if overlap := tsnnetwork.Overlap(prefixes, a.networkRanges[i]); overlap.IsValid() {
			return "TSNNetwork " + a.networks[i].Name, overlap.String()
		}
	}
	return "", ""
}

// Ranges returns the ranges of a service's links.
func Ranges(service *v1alpha1.TSNService) []netip.Prefix {
	return parsePrefixes(rangeOf(service.Spec.IPv4).LinkCIDR, rangeOf(service.Spec.IPv6).LinkCIDR)
}

// rangeOf returns an optional range, or an empty one.
func rangeOf(optional *v1alpha1.LinkRange) v1alpha1.LinkRange {
	return ptr.Deref(optional, v1alpha1.LinkRange{})
}
