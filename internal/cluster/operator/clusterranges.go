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

// clusterRanges knows the addresses of the cluster's own pods, nodes and Services, as far as its objects tell them: a link with one of them, or a route to
// it, would take traffic of the primary network away. One goroutine uses it.
type clusterRanges struct {
	// container are those that the operator's container knows.
	container []links.Reserved
	// services are those of ServiceCIDRs, as listed last.
	services []links.Reserved
	listed   time.Time
}

// nodeClaim is a range that a node reports as its own, by its addresses, its podCIDRs or its annotation.
type nodeClaim struct {
	links.Reserved
	node string
}

// reserved returns all of them, and by node a message about the first claim that does not count for a service. ServiceCIDRs are not watched, because
// Kubernetes has them since 1.33 only; they are listed every few minutes.
func (c *clusterRanges) reserved(ctx context.Context, live client.Reader, nodes *nodeSet, services []v1alpha1.TSNService,
	now time.Time) (reserved []links.Reserved, refused map[string]string, err error) {
	if c.listed.IsZero() || now.Sub(c.listed) >= repeatEvery {
		var list networkingv1.ServiceCIDRList
		err := live.List(ctx, &list)
		// Forbidden: the cluster got them by an upgrade, and the chart was rendered before.
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
		reserved = append(reserved, claim.Reserved) // also where it is refused: it counts for all other services
		if i := slices.IndexFunc(accepted, func(r links.Reserved) bool { return r.Range.Overlaps(claim.Range) }); i >= 0 && refused[claim.node] == "" {
			refused[claim.node] = fmt.Sprintf("the node has %s by its status.addresses, annotation or spec.podCIDRs, and %s had addresses of that before: %s; the service keeps "+
				"them, and pods with its links do not reach the node there. See who reports %s; if it is right, delete the TSNService", claim.Range, accepted[i].What,
				accepted[i].Range, claim.Range)
		}
	}
	return reserved, refused, nil
}

// claimsOf returns what nodes report as their own, sorted, so that messages stay the same from plan to plan.
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

// acceptedRanges returns what services keep although nodes report it, sorted as claimsOf does.
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

// appendReserved appends a range or an address. Text that is neither is left out.
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

// ownServices returns the addresses of Services that a container knows: the API server's, and the cluster DNS.
func ownServices(apiServer, resolvConf string) []links.Reserved {
	all := appendReserved(nil, apiServer, "the API server's Service")
	text, _ := os.ReadFile(resolvConf) // without it the DNS is not known
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "nameserver" {
			all = appendReserved(all, fields[1], "the cluster DNS")
		}
	}
	return all
}
