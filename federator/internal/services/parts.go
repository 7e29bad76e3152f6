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
	// mostBits bounds into how many parts ranges are divided: 128 are enough for the clusters that a service can name, and for the hub.
	mostBits = 7
	// hubPart is the number of the hub's own part, of which links have addresses that the federator makes.
	hubPart = 0
)

// Paths in a TSNService that clusters have otherwise than the hub.
const (
	clustersPath = "/spec/clusters"
	ipv4PartPath = "/spec/ipv4/part"
	ipv6PartPath = "/spec/ipv6/part"
	vnisPath     = "/spec/vnis"
)

// share is what a cluster, or the hub, has of a service.
type share struct {
	ipv4, ipv6 string
	vnis       tsn.VNIRange
}

// allocation is how a service's ranges are divided: all into as many parts.
type allocation struct {
	count int
	// ipv4 and ipv6 are nil without.
	ipv4, ipv6 *tsnnetwork.Whole
}

// newAllocation has as many parts as half of the bits by which a range's links are numbered can tell apart, so that links and clusters
// have as much room to grow.
func newAllocation(service *tsn.TSNService) (*allocation, error) {
	bits := mostBits
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

func divide(whole *tsn.LinkRange, bits int) (*tsnnetwork.Whole, error) {
	if whole == nil {
		return nil, nil
	}
	prefix, err := netip.ParsePrefix(whole.LinkCIDR)
	if err != nil {
		return nil, err
	}
	createdWhole, err := tsnnetwork.NewWhole(whole.LinkCIDR, int32(prefix.Bits()+bits))
	return &createdWhole, err
}

// share is that of a part.
func (d *allocation) share(number int) share {
	source := share{vnis: vnisOf(number)}
	if d.ipv4 != nil {
		source.ipv4 = d.ipv4.Part(number).String()
	}
	if d.ipv6 != nil {
		source.ipv6 = d.ipv6.Part(number).String()
	}
	return source
}

// vnisOf are the numbers of links of a part. The hub has the last ones: a service that a cluster made itself takes the first ones that are free.
func vnisOf(number int) tsn.VNIRange {
	const each = (tsn.LastLinkVNI - tsn.FirstLinkVNI + 1) >> mostBits
	place := int32(number) - 1
	if number == hubPart {
		place = 1<<mostBits - 1
	}
	first := tsn.FirstLinkVNI + place*each
	return tsn.VNIRange{First: first, Last: first + each - 1}
}

// numberOf is the part whose numbers of links a share has, -1 if it is none.
func (d *allocation) numberOf(source share) int {
	for number := range d.count {
		if source.vnis == vnisOf(number) {
			return number
		}
	}
	return -1
}

// allocate gives clusters their parts, which they keep as long as they are members.
func (d *allocation) allocate(have map[string]share, exist, wanted []string) (shares map[string]share, without []string) {
	const first = hubPart + 1
	numbered := map[string]int{}
	for cluster, share := range have {
		numbered[cluster] = d.numberOf(share) - first
	}
	numbers, without := tsnnetwork.AllocateNumbers(d.count-first, numbered, exist, wanted)
	shares = map[string]share{}
	for cluster, number := range numbers {
		shares[cluster] = d.share(number + first)
	}
	return shares, without
}

// sharesOf reads back what clusters have of a service.
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

// fields are what a cluster has otherwise than the hub.
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
