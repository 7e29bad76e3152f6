// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"net/netip"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const (
	// maxBits limits the parts of a range: 128 are enough for the clusters that a service can name and the hub.
	maxBits = 7
	// hubPart is the number of the hub's own part, which has the addresses of the federator's links.
	hubPart = 0
)

// Paths of a TSNService that differ between clusters and the hub.
const (
	clustersPath = "/spec/clusters"
	ipv4PartPath = "/spec/ipv4/part"
	ipv6PartPath = "/spec/ipv6/part"
	vnisPath     = "/spec/vnis"
)

// share is the part of a cluster, or of the hub, of a service.
type share struct {
	ipv4, ipv6 string
	vnis       tsn.VNIRange
}

// allocation divides a service's ranges, all into the same number of parts.
type allocation struct {
	count int
	// ipv4 and ipv6 are nil if the service does not have that family.
	ipv4, ipv6 *tsnnetwork.Range
}

// newAllocation uses half of the bits that number a range's links for the parts, so that links and clusters have equal
// room to grow.
func newAllocation(service *tsn.TSNService) (*allocation, error) {
	bits := maxBits
	for _, linkRange := range []*tsn.LinkRange{service.Spec.IPv4, service.Spec.IPv6} {
		if linkRange == nil {
			continue
		}
		prefix, err := netip.ParsePrefix(linkRange.LinkCIDR)
		if err != nil {
			return nil, fmt.Errorf("linkCIDR %q is no range: %w", linkRange.LinkCIDR, err)
		}
		bits = min(bits, (prefix.Addr().BitLen()-prefix.Bits())/2)
	}
	d := &allocation{count: 1 << bits}
	var err error
	if d.ipv4, err = divide(service.Spec.IPv4, bits); err != nil {
		return nil, err
	}
	d.ipv6, err = divide(service.Spec.IPv6, bits)
	return d, err
}

func divide(whole *tsn.LinkRange, bits int) (*tsnnetwork.Range, error) {
	if whole == nil {
		return nil, nil
	}
	prefix, err := netip.ParsePrefix(whole.LinkCIDR)
	if err != nil {
		return nil, err
	}
	createdWhole, err := tsnnetwork.NewRange(whole.LinkCIDR, int32(prefix.Bits()+bits))
	return &createdWhole, err
}

// share returns the share with a part's number.
func (d *allocation) share(number int) share {
	source := share{vnis: vnisOf(number)}
	if d.ipv4 != nil {
		source.ipv4 = d.ipv4.Subnet(number).String()
	}
	if d.ipv6 != nil {
		source.ipv6 = d.ipv6.Subnet(number).String()
	}
	return source
}

// vnisOf returns the link numbers of a part. The hub has the last ones, because a service that a cluster created itself
// takes the first free ones.
func vnisOf(number int) tsn.VNIRange {
	const each = (tsn.LastLinkVNI - tsn.FirstLinkVNI + 1) >> maxBits
	place := int32(number) - 1
	if number == hubPart {
		place = 1<<maxBits - 1
	}
	first := tsn.FirstLinkVNI + place*each
	return tsn.VNIRange{First: first, Last: first + each - 1}
}

// numberOf returns the part with a share's link numbers, -1 if there is none.
func (d *allocation) numberOf(source share) int {
	for number := range d.count {
		if source.vnis == vnisOf(number) {
			return number
		}
	}
	return -1
}

// allocate gives clusters their parts, which they keep as long as they are members.
func (d *allocation) allocate(existing map[string]share, exist, wanted []string) (shares map[string]share, without []string) {
	const first = hubPart + 1
	numbered := map[string]int{}
	for cluster, share := range existing {
		numbered[cluster] = d.numberOf(share) - first
	}
	numbers, without := tsnnetwork.AllocateNumbers(d.count-first, numbered, exist, wanted)
	shares = map[string]share{}
	for cluster, number := range numbers {
		shares[cluster] = d.share(number + first)
	}
	return shares, without
}

// sharesOf reads the clusters' parts from an override policy.
func sharesOf(override *policyv1alpha1.OverridePolicy) map[string]share {
	shares := map[string]share{}
	for i := range override.Spec.OverrideRules {
		rule := &override.Spec.OverrideRules[i]
		var source share
		spread.Read(rule, ipv4PartPath, &source.ipv4)
		spread.Read(rule, ipv6PartPath, &source.ipv6)
		if cluster := spread.ClusterOf(rule); spread.Read(rule, vnisPath, &source.vnis) && cluster != "" {
			shares[cluster] = source
		}
	}
	return shares
}

// fields returns the fields that differ between a cluster and the hub.
func (s share) fields(service *tsn.TSNService) spread.Fields {
	var fields spread.Fields
	if len(service.Spec.Clusters) > 0 {
		fields.Remove(clustersPath)
	}
	if s.ipv4 != "" {
		fields.Set(ipv4PartPath, s.ipv4)
	}
	if s.ipv6 != "" {
		fields.Set(ipv6PartPath, s.ipv6)
	}
	fields.Set(vnisPath, s.vnis)
	return fields
}
