// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Reasons of conditions that only a hub sets.
const (
	// reasonSpanInvalid : the ranges cannot be divided as spec.span requires.
	reasonSpanInvalid = "SpanInvalid"
)

// plan is the desired state of a network.
type plan struct {
	// selected are the clusters that get the network and have a subnet; shares are the subnets, also of clusters that
	// had one before.
	selected []string
	shares   map[string]share
	mtu      int32
	findings []spread.Finding
}

// newPlan divides a network among clusters. Clusters keep their subnets as long as they are members.
func newPlan(network *tsn.TSNNetwork, v *view) *plan {
	if other, why := tsnnetwork.Conflict(network, v.networks); other != "" {
		return blocked(tsn.ReasonOverlaps, "network %s is older and has %s; this one is not stretched", other, why)
	}
	ranges, err := newRanges(network)
	if err != nil {
		return blocked(reasonSpanInvalid, "%v", err)
	}
	wanted, err := selectedBy(network.Spec.Span.Clusters, v.clusters)
	if err != nil {
		return blocked(reasonSpanInvalid, "spec.span.clusters: %v", err)
	}
	p := &plan{}
	var without []string
	existing := sharesOf(v.override)
	p.shares, without = ranges.allocate(existing, spread.Oldest(v.clusters), wanted)
	if changed := p.changedShares(existing); len(changed) > 0 {
		return blocked(reasonSpanInvalid, "pods have addresses of the parts of %s, which would become others; take the change of spec.ipv4.cidr or spec.span back, or let "+
			"spec.ipv6.cidr grow by as many bits as spec.ipv4.cidr", spread.Names(changed))
	}
	p.selected = slices.DeleteFunc(wanted, func(cluster string) bool { return slices.Contains(without, cluster) })
	if len(without) > 0 {
		p.findings = append(p.findings, spread.Finding{Reason: tsn.ReasonRangeUsedUp, Text: fmt.Sprintf("no part of %s is left for %s; enlarge it", network.Spec.IPv4.CIDR,
			strings.Join(without, ", "))})
	}
	p.chooseMTU(network, v)
	return p
}

// changedShares returns the clusters whose subnet would change.
func (p *plan) changedShares(existing map[string]share) []string {
	var changed []string
	for _, cluster := range slices.Sorted(maps.Keys(p.shares)) {
		if share, has := existing[cluster]; has && share != p.shares[cluster] {
			changed = append(changed, cluster)
		}
	}
	return changed
}

func blocked(reason, format string, arguments ...any) *plan {
	return &plan{findings: []spread.Finding{{Reason: reason, Text: fmt.Sprintf(format, arguments...), Blocks: true}}}
}

// selectedBy returns the clusters that a selector chooses and that are not leaving; nil chooses all.
func selectedBy(selector *metav1.LabelSelector, clusters []v1alpha1.Cluster) ([]string, error) {
	chooses := labels.Everything()
	if selector != nil {
		var err error
		if chooses, err = metav1.LabelSelectorAsSelector(selector); err != nil {
			return nil, err
		}
	}
	var chosen []string
	for i := range clusters {
		if clusters[i].DeletionTimestamp == nil && chooses.Matches(labels.Set(clusters[i].Labels)) {
			chosen = append(chosen, clusters[i].Name)
		}
	}
	slices.Sort(chosen)
	return chosen, nil
}

// ranges are the ranges that a network divides among clusters.
type ranges struct {
	ipv4 tsnnetwork.Range
	// ipv6 is nil if the network has no IPv6.
	ipv6 *tsnnetwork.Range
}

// newRanges divides both ranges into the same number of subnets.
func newRanges(network *tsn.TSNNetwork) (*ranges, error) {
	spec, bits := network.Spec, network.Spec.Span.ClusterPrefixLength
	if bits > spec.IPv4.NodePrefixLength {
		return nil, fmt.Errorf("spec.span.clusterPrefixLength %d is longer than spec.ipv4.nodePrefixLength %d; a cluster's part has those of its nodes", bits, spec.IPv4.NodePrefixLength)
	}
	ipv4, err := tsnnetwork.NewRange(spec.IPv4.CIDR, bits)
	if err != nil || spec.IPv6 == nil {
		return &ranges{ipv4: ipv4}, err
	}
	prefix4, err := netip.ParsePrefix(spec.IPv4.CIDR)
	if err != nil {
		return nil, err
	}
	prefix6, err := netip.ParsePrefix(spec.IPv6.CIDR)
	if err != nil {
		return nil, err
	}
	bits6 := int32(prefix6.Bits()) + bits - int32(prefix4.Bits())
	if bits6 > spec.IPv6.NodePrefixLength {
		return nil, fmt.Errorf("spec.ipv6.cidr has no room for as many parts as spec.ipv4.cidr: they would be of /%d, and a node's is of /%d", bits6, spec.IPv6.NodePrefixLength)
	}
	ipv6, err := tsnnetwork.NewRange(spec.IPv6.CIDR, bits6)
	return &ranges{ipv4: ipv4, ipv6: &ipv6}, err
}

// allocate gives clusters their subnets. Existing clusters keep theirs.
func (r *ranges) allocate(existing map[string]share, exist, wanted []string) (shares map[string]share, without []string) {
	existing4, existing6 := map[string]netip.Prefix{}, map[string]netip.Prefix{}
	entitled := slices.Clone(wanted)
	for _, cluster := range exist {
		share, has := existing[cluster]
		if !has {
			continue
		}
		existing4[cluster], _ = netip.ParsePrefix(share.ipv4) // an invalid prefix equals no subnet
		existing6[cluster], _ = netip.ParsePrefix(share.ipv6)
		if !slices.Contains(entitled, cluster) {
			entitled = append(entitled, cluster)
		}
	}
	parts4, without := r.ipv4.Allocate(existing4, exist, entitled)
	parts6 := map[string]netip.Prefix{}
	if r.ipv6 != nil {
		parts6, _ = r.ipv6.Allocate(existing6, exist, entitled) // there are as many as of IPv4
	}
	shares = map[string]share{}
	for cluster, part := range parts4 {
		source := share{ipv4: part.String()}
		if part6, has := parts6[cluster]; has {
			source.ipv6 = part6.String()
		}
		shares[cluster] = source
	}
	return shares, without
}

// minMTU is the smallest MTU of a network.
const minMTU = 1280

// chooseMTU takes the smallest MTU that a cluster reports, or the declared one if that is smaller; 0 while nothing is
// known. While a cluster reports none, the MTU does not grow, because it may be limited by that cluster.
func (p *plan) chooseMTU(network *tsn.TSNNetwork, v *view) {
	p.mtu = network.Spec.MTU
	for _, cluster := range p.selected {
		reported := v.reports[cluster].Status.MTU
		switch {
		case !v.reports[cluster].HasStatus:
			reported = mtuOf(v.override)
		case reported != 0 && reported < minMTU:
			p.findings = append(p.findings, spread.Finding{Reason: spread.ReasonUntrusted, Text: fmt.Sprintf("cluster %s reports an MTU of %d, and networks have at least %d", cluster, reported, minMTU)})
			continue
		}
		if reported != 0 && (p.mtu == 0 || reported < p.mtu) {
			p.mtu = reported
		}
	}
	if network.Spec.MTU > p.mtu {
		p.findings = append(p.findings, spread.Finding{Reason: tsn.ReasonMTUTooLarge, Text: fmt.Sprintf("spec.mtu is %d, and the clusters' uplinks leave %d, which is used", network.Spec.MTU, p.mtu)})
	}
}
