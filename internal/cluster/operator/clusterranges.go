// SPDX-License-Identifier: Apache-2.0

package operator

import (
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
	// own are those that the operator's container knows.
	own []links.Reserved
	// services are those of ServiceCIDRs, as listed last.
	services []links.Reserved
	listed   time.Time
}

// nodeClaim is what a node says is its own, by the addresses that it reports or its podCIDRs.
type nodeClaim struct {
	links.Reserved
	node string
}

// reserved returns all of them, and what is refused of what nodes say, by node. ServiceCIDRs are not watched, because Kubernetes has them since 1.33 only;
// they are listed every few minutes.
func (c *clusterRanges) reserved(ctx context.Context, live client.Reader, nodes *nodeSet, services []v1alpha1.TSNService, all []v1alpha1.TSNLink,
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
	taken := acceptedRanges(services, all)
	reserved, refused = slices.Concat(c.own, c.services), map[string]string{}
	for _, one := range claimsOf(nodes) {
		other := slices.IndexFunc(taken, func(of links.Reserved) bool { return of.Range.Overlaps(one.Range) })
		switch {
		case other < 0:
			reserved = append(reserved, one.Reserved)
		case refused[one.node] == "":
			refused[one.node] = fmt.Sprintf("the node has %s by its status.addresses, annotation or spec.podCIDRs, and %s had addresses of that before: %s; the service keeps "+
				"them, and pods with its links do not reach the node there. See who reports %s; if it is right, delete the TSNService", one.Range, taken[other].What,
				taken[other].Range, one.Range)
		}
	}
	return reserved, refused, nil
}

// claimsOf returns what nodes say is their own, in an order of its own, so that one service gets one message.
func claimsOf(nodes *nodeSet) []nodeClaim {
	var all []nodeClaim
	add := func(node, text, what string) {
		for _, made := range appendReserved(nil, text, what) {
			all = append(all, nodeClaim{made, node})
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
	slices.SortFunc(all, func(a, b nodeClaim) int { return strings.Compare(a.What+a.Range.String(), b.What+b.Range.String()) })
	return all
}

// acceptedRanges returns ranges and routes of services that the operator has accepted before, so that no node takes them away by what it says of itself:
// those of a service that did not report Overlaps for its present spec, or has links, and routes that links have.
func acceptedRanges(services []v1alpha1.TSNService, all []v1alpha1.TSNLink) []links.Reserved {
	routes := map[links.Key]map[string]bool{} // of services with links
	for i := range all {
		link := &all[i]
		if !link.Admitted() {
			continue
		}
		key := links.Key{Namespace: link.Namespace, Name: link.Spec.Service}
		if routes[key] == nil {
			routes[key] = map[string]bool{}
		}
		for _, to := range slices.Concat(link.Spec.Client.Routes, link.Spec.Endpoint.Routes) {
			routes[key][to] = true
		}
	}
	var accepted []links.Reserved
	for i := range services {
		service := &services[i]
		key := links.Key{Namespace: service.Namespace, Name: service.Name}
		ready := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.ConditionReady)
		asked := ready != nil && ready.Reason != v1alpha1.ReasonOverlaps && ready.Reason != v1alpha1.ReasonSelectorInvalid
		if asked || routes[key] != nil {
			for _, to := range links.Ranges(service) {
				accepted = append(accepted, links.Reserved{Range: to, What: "TSNService " + key.String()})
			}
		}
		for _, route := range service.Spec.Routes {
			if asked && ready.ObservedGeneration == service.Generation || routes[key][route.To] {
				accepted = appendReserved(accepted, route.To, "a route of TSNService "+key.String())
			}
		}
	}
	return accepted
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
