// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// clusterRanges has the addresses of the cluster's own pods, nodes and Services, as far as its objects contain them: a network or link
// with one of them, or a route to it, would take traffic away from the primary network. It is not safe for concurrent use.
type clusterRanges struct {
	// container are the ranges that the operator's container knows.
	container []links.Reserved
	// services are the ranges of the ServiceCIDRs at the last listing.
	services []links.Reserved
	listed   time.Time
}

// nodeClaim is a range that a node reports as its own, by its addresses, its podCIDRs or its annotation.
type nodeClaim struct {
	links.Reserved
	node string
}

// reserved returns all reserved ranges, and by node a message about the first claim that a service's accepted range overrides.
// ServiceCIDRs are not watched, because Kubernetes has them only since 1.33; they are listed every few minutes.
func (c *clusterRanges) reserved(ctx context.Context, live client.Reader, nodes *nodeSet, services []v1alpha1.TSNService,
	now time.Time) (reserved []links.Reserved, refused map[string]string, err error) {
	if c.listed.IsZero() || now.Sub(c.listed) >= resyncPeriod {
		var list networkingv1.ServiceCIDRList
		err := live.List(ctx, &list)
		// Forbidden: the cluster got them by an upgrade after the chart was rendered.
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return nil, nil, fmt.Errorf("list the ServiceCIDRs: %w", err)
		}
		c.listed, c.services = now, nil
		for i := range list.Items {
			for _, text := range list.Items[i].Spec.CIDRs {
				c.services = appendReserved(c.services, text, "the cluster's Services")
			}
		}
	}
	accepted := acceptedRanges(services)
	reserved, refused = slices.Concat(c.container, c.services), map[string]string{}
	for _, claim := range claimsOf(nodes) {
		reserved = append(reserved, claim.Reserved) // also if it is refused: it counts for all other services
		if i := slices.IndexFunc(accepted, func(r links.Reserved) bool { return r.Range.Overlaps(claim.Range) }); i >= 0 && refused[claim.node] == "" {
			refused[claim.node] = fmt.Sprintf("the node has %s by its status.addresses, annotation or spec.podCIDRs, and %s had addresses of that range before: %s; the service keeps "+
				"them, and pods with its links do not reach the node there. Check what reports %s; if it is right, delete the TSNService", claim.Range, accepted[i].What,
				accepted[i].Range, claim.Range)
		}
	}
	return reserved, refused, nil
}

// claimsOf returns the ranges that nodes report as their own, sorted, so that messages do not change from plan to plan.
func claimsOf(nodes *nodeSet) []nodeClaim {
	var claims []nodeClaim
	add := func(node, text, what string) {
		for _, reserved := range appendReserved(nil, text, what) {
			reserved.OfNode = true
			claims = append(claims, nodeClaim{reserved, node})
		}
	}
	for name, node := range nodes.all {
		for _, text := range node.Spec.PodCIDRs {
			add(name, text, "pods of node "+name)
		}
		for _, address := range node.Status.Addresses { // InternalIPs only, in the cache
			add(name, address.Address, "node "+name)
		}
		if address := nodes.addresses[name]; address.IsValid() {
			add(name, address.String(), "node "+name)
		}
	}
	slices.SortFunc(claims, func(a, b nodeClaim) int { return compareReserved(a.Reserved, b.Reserved) })
	return claims
}

// acceptedRanges returns the ranges that services keep although nodes report them, sorted like those of claimsOf.
func acceptedRanges(services []v1alpha1.TSNService) []links.Reserved {
	var accepted []links.Reserved
	for i := range services {
		for _, prefix := range links.Accepted(&services[i]) {
			accepted = append(accepted, links.Reserved{Range: prefix, What: "TSNService " + services[i].Namespace + "/" + services[i].Name})
		}
	}
	slices.SortFunc(accepted, compareReserved)
	return accepted
}

func compareReserved(a, b links.Reserved) int {
	return cmp.Or(strings.Compare(a.What, b.What), a.Range.Compare(b.Range))
}

// appendReserved appends a range or an address. Invalid text is ignored.
func appendReserved(all []links.Reserved, text, what string) []links.Reserved {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return all
		}
		prefix = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen())
	}
	return append(all, links.Reserved{Range: prefix.Masked(), What: what})
}

// ownServices returns the addresses of Services that a container knows: the API server's and the cluster DNS's.
func ownServices(apiServer, resolvConf string) []links.Reserved {
	all := appendReserved(nil, apiServer, "the API server's Service")
	text, _ := os.ReadFile(resolvConf) // without it the address of the DNS is unknown
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "nameserver" {
			all = appendReserved(all, fields[1], "the cluster DNS")
		}
	}
	return all
}
