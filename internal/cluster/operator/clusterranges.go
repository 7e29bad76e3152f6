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

// reserved returns all of them. ServiceCIDRs are not watched, because Kubernetes has them since 1.33 only; they are listed every few minutes.
func (c *clusterRanges) reserved(ctx context.Context, live client.Reader, nodes *nodeSet, now time.Time) ([]links.Reserved, error) {
	if c.listed.IsZero() || now.Sub(c.listed) >= repeatEvery {
		var all networkingv1.ServiceCIDRList
		err := live.List(ctx, &all)
		// Forbidden: the cluster got them by an upgrade, and the chart was rendered before.
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("list the ServiceCIDRs: %w", err)
		}
		c.listed, c.services = now, nil
		for i := range all.Items {
			for _, text := range all.Items[i].Spec.CIDRs {
				c.services = appendReserved(c.services, text, "the cluster's Services")
			}
		}
	}
	all := slices.Concat(c.own, c.services)
	for name, node := range nodes.all {
		for _, text := range node.Spec.PodCIDRs {
			all = appendReserved(all, text, "pods of node "+name)
		}
		for _, address := range node.Status.Addresses { // InternalIPs only, in the cache
			all = appendReserved(all, address.Address, "node "+name)
		}
		if address := nodes.addresses[name]; address.IsValid() {
			all = appendReserved(all, address.String(), "node "+name)
		}
	}
	// In an order of their own, so that one service gets one message.
	slices.SortFunc(all, func(a, b links.Reserved) int {
		return strings.Compare(a.What+a.Range.String(), b.What+b.Range.String())
	})
	return all, nil
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
