// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// conflict says what keeps a service from having new links at all.
func (r *pairing) conflict() *Finding {
	if len(r.found) > 0 && r.found[0].Reason == v1alpha1.ReasonSelectorInvalid {
		return &r.found[0]
	}
	if what, which := r.aged.conflict(r.service); what != "" {
		r.found = append(r.found, Finding{v1alpha1.ReasonOverlaps, fmt.Sprintf("%s has addresses of the same range, %s, and was there first; "+
			"make another TSNService with another range", what, which)})
		return &r.found[len(r.found)-1]
	}
	return nil
}

// Conflict names an older service or network that has addresses of a service's range, and the range.
func Conflict(service *v1alpha1.TSNService, services []v1alpha1.TSNService, networks []v1alpha1.TSNNetwork) (what, which string) {
	return newAged(services, networks).conflict(service)
}

// aged are services and networks from the oldest to the youngest, with their ranges: sorted and parsed once for all that are compared with them.
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
	own := Ranges(service)
	for i, other := range a.services {
		if keyOf(other) == keyOf(service) {
			break
		}
		if other.DeletionTimestamp != nil {
			continue
		}
		if both := tsnnetwork.Overlap(own, a.ofServices[i]); both.IsValid() {
			return "TSNService " + keyOf(other).String(), both.String()
		}
	}
	for i := range a.networks {
		if !isOlder(a.networks[i].CreationTimestamp.Time, service.CreationTimestamp.Time) {
			break
		}
		if both := tsnnetwork.Overlap(own, a.ofNetworks[i]); both.IsValid() {
			return "TSNNetwork " + a.networks[i].Name, both.String()
		}
	}
	return "", ""
}

// isOlder tells whether a network goes before a service: of those that were made in one second, networks do.
func isOlder(network, service time.Time) bool { return !network.After(service) }

// NetworkConflict names an older service that has addresses of a network's range, and the range.
func NetworkConflict(network *v1alpha1.TSNNetwork, services []v1alpha1.TSNService) (what, which string) {
	for _, service := range byAge(services) {
		if isOlder(network.CreationTimestamp.Time, service.CreationTimestamp.Time) {
			break
		}
		if both := tsnnetwork.Overlap(tsnnetwork.Ranges(network), Ranges(service)); both.IsValid() {
			return "TSNService " + keyOf(service).String(), both.String()
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
