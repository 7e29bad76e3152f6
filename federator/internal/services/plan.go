// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// Reasons of conditions that only a hub sets.
const (
	// reasonPartsInvalid : the ranges cannot be divided, or would be divided differently than before.
	reasonPartsInvalid = "PartsInvalid"
	// reasonClusterUnknown : spec.clusters names a cluster that is not a member.
	reasonClusterUnknown = "ClusterUnknown"
)

// plan is the desired state of a service.
type plan struct {
	// selected are the clusters that get the service; shares are the parts, also of clusters that had one before.
	selected []string
	shares   map[string]share
	// hub is the part for the federator's own links.
	hub      share
	findings []spread.Finding
}

func blocked(reason, format string, arguments ...any) *plan {
	return &plan{findings: []spread.Finding{{Reason: reason, Text: fmt.Sprintf(format, arguments...), Blocks: true}}}
}

// newPlan divides a service among clusters.
func newPlan(service *tsn.TSNService, v *view) *plan {
	if what, which := links.Conflict(service, v.services, v.networks); what != "" {
		return blocked(tsn.ReasonOverlaps, "%s has addresses of the same range, %s, and takes precedence over this service; take another linkCIDR, in another TSNService", what, which)
	}
	divided, err := newAllocation(service)
	if err != nil {
		return blocked(reasonPartsInvalid, "%v", err)
	}
	wanted, unknown := selectedBy(service.Spec.Clusters, v.clusters)
	p := &plan{hub: divided.share(hubPart)}
	if len(unknown) > 0 {
		p.findings = append(p.findings, spread.Finding{Reason: reasonClusterUnknown,
			Text: "spec.clusters names what is no member: " + spread.Some(unknown) + "; correct it, or make them members"})
	}
	existing := sharesOf(v.override)
	var without []string
	p.shares, without = divided.allocate(existing, spread.Oldest(v.clusters), wanted)
	if changed := p.changedShares(existing); len(changed) > 0 {
		return blocked(reasonPartsInvalid, "links have addresses of the parts of %s, which would become others; take the change of spec.ipv4 or spec.ipv6 back, or make "+
			"another TSNService", spread.Names(changed))
	}
	p.selected = slices.DeleteFunc(wanted, func(cluster string) bool { return slices.Contains(without, cluster) })
	if len(without) > 0 {
		p.findings = append(p.findings, spread.Finding{Reason: tsn.ReasonRangeUsedUp, Text: fmt.Sprintf("%s has parts for %d clusters beside the hub's own, and none is left for %s; "+
			"make another TSNService with a larger range", rangesIn(service), divided.count-1, spread.Some(without))})
	}
	return p
}

// changedShares returns the clusters whose part would change.
func (p *plan) changedShares(existing map[string]share) []string {
	var changed []string
	for _, cluster := range slices.Sorted(maps.Keys(p.shares)) {
		share, has := existing[cluster]
		now := p.shares[cluster]
		if has && (share.ipv4 != "" && share.ipv4 != now.ipv4 || share.ipv6 != "" && share.ipv6 != now.ipv6 || share.vnis != now.vnis) {
			changed = append(changed, cluster)
		}
	}
	return changed
}

// selectedBy returns the members among the named clusters, or all members without names, and the unknown names.
func selectedBy(names []string, clusters []v1alpha1.Cluster) (selected, unknown []string) {
	for i := range clusters {
		if !hub.Leaving(&clusters[i]) && (len(names) == 0 || slices.Contains(names, clusters[i].Name)) {
			selected = append(selected, clusters[i].Name)
		}
	}
	slices.Sort(selected)
	for _, name := range names {
		if !slices.Contains(selected, name) {
			unknown = append(unknown, name)
		}
	}
	return selected, unknown
}

// rangesIn returns the ranges of a service's links for a message.
func rangesIn(service *tsn.TSNService) string {
	var texts []string
	for _, prefix := range links.Ranges(service) {
		texts = append(texts, prefix.String())
	}
	return "linkCIDR " + strings.Join(texts, " and ")
}
