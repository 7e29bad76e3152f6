// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// conflict says what keeps a service from having new links at all, and finds out which of its range and routes are accepted.
func (r *pairing) conflict() *Finding {
	if len(r.found) > 0 && r.found[0].Reason == v1alpha1.ReasonSelectorInvalid {
		r.accepted = r.service.Status.Accepted
		return &r.found[0]
	}
	blocked := ""
	if what, which := r.aged.conflict(r.service); what != "" {
		blocked = fmt.Sprintf("%s has addresses of the same range, %s, and goes before this service", what, which)
		// A network that comes and goes gives no node the range.
		r.accepted = slices.DeleteFunc(texts(Ranges(r.service)), func(text string) bool { return !slices.Contains(r.service.Status.Accepted, text) })
	} else if taken := r.in.reserved(r.service, Ranges(r.service)...); taken != nil {
		blocked = fmt.Sprintf("%s has addresses of the same range, %s", taken.What, taken.Range)
	} else {
		r.accepted = texts(Ranges(r.service))
	}
	for _, route := range r.service.Spec.Routes {
		to, err := netip.ParsePrefix(route.To)
		if err != nil {
			continue
		}
		if taken := r.in.reserved(r.service, to); taken != nil {
			r.found = append(r.found, Finding{v1alpha1.ReasonOverlaps, fmt.Sprintf("route %s is set in no pod: %s has addresses of it, %s; "+
				"take it out of spec.routes", to, taken.What, taken.Range)})
		} else {
			r.accepted = append(r.accepted, route.To)
		}
	}
	if blocked == "" {
		return nil
	}
	r.found = slices.Insert(r.found, 0, Finding{v1alpha1.ReasonOverlaps, blocked + "; make another TSNService with another range"})
	return &r.found[0]
}

// Reserved is a range of the cluster's own, which neither links nor their routes may have, and what has its addresses.
type Reserved struct {
	Range netip.Prefix
	What  string
	// OfNode is set where a node reports the range, so that it does not count for the service for which its addresses are accepted.
	OfNode bool
}

// reserved returns the first of the cluster's own ranges with an address of these, which a service asks for, nil if there is none.
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

// Accepted returns the ranges in status.accepted of a service. The status goes with the object, so a service that takes the place of another one of its
// name has none, whatever links of that one are left.
func Accepted(service *v1alpha1.TSNService) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range service.Status.Accepted {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// contains tells whether all addresses of a prefix are in one of the ranges.
func contains(ranges []netip.Prefix, prefix netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(within netip.Prefix) bool {
		return prefix.Bits() >= within.Bits() && within.Contains(prefix.Addr())
	})
}

// taken returns which address of an end no link of a service may have, because the cluster itself has it, or a network.
func (in *Input) taken(service *v1alpha1.TSNService, end *v1alpha1.LinkEnd) error {
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

// Conflict names a network, or an older service, that has addresses of a service's range, and the range. An administrator makes networks, so that a
// service, which a tenant can make, takes no range away from them.
func Conflict(service *v1alpha1.TSNService, services []v1alpha1.TSNService, networks []v1alpha1.TSNNetwork) (what, which string) {
	return newAged(services, networks).conflict(service)
}

// aged are services from the oldest to the youngest, and networks, with their ranges: sorted and parsed once for all that are compared with them.
type aged struct {
	services []*v1alpha1.TSNService
	networks []v1alpha1.TSNNetwork
	// ofServices and ofNetworks are their ranges.
	ofServices, ofNetworks [][]netip.Prefix
}

func newAged(services []v1alpha1.TSNService, networks []v1alpha1.TSNNetwork) *aged {
	a := &aged{services: byAge(services), networks: tsnnetwork.ByAge(networks)}
	for _, service := range a.services {
		a.ofServices = append(a.ofServices, Ranges(service))
	}
	for i := range a.networks {
		a.ofNetworks = append(a.ofNetworks, tsnnetwork.Ranges(&a.networks[i]))
	}
	return a
}

func (a *aged) conflict(service *v1alpha1.TSNService) (what, which string) {
	prefixes := Ranges(service)
	for i, other := range a.services {
		if keyOf(other) == keyOf(service) {
			break
		}
		if other.DeletionTimestamp != nil {
			continue
		}
		if both := tsnnetwork.Overlap(prefixes, a.ofServices[i]); both.IsValid() {
			return "TSNService " + keyOf(other).String(), both.String()
		}
	}
	for i := range a.networks {
		if both := tsnnetwork.Overlap(prefixes, a.ofNetworks[i]); both.IsValid() {
			return "TSNNetwork " + a.networks[i].Name, both.String()
		}
	}
	return "", ""
}

// Ranges are those of a service's links.
func Ranges(service *v1alpha1.TSNService) []netip.Prefix {
	var all []netip.Prefix
	for _, given := range []*v1alpha1.LinkRange{service.Spec.IPv4, service.Spec.IPv6} {
		if given == nil {
			continue
		}
		if prefix, err := netip.ParsePrefix(given.LinkCIDR); err == nil { // the API server took it for one
			all = append(all, prefix)
		}
	}
	return all
}
