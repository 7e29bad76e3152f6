// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// nameHashBytes is the length of the hash in a link's name.
const nameHashBytes = 5

// Name returns the name of a pod's link of a service for an interface and a hop.
func Name(service, clientUID, clientInterface string, hop int) string {
	hash := sha256.Sum256([]byte(clientUID + "\x00" + clientInterface + "\x00" + strconv.Itoa(hop)))
	return service + "-" + hex.EncodeToString(hash[:nameHashBytes])
}

// hubSuffix is the suffix of the names of a hub's links, so that a hub's link and the one within the cluster that replaces it can exist at
// the same time.
const hubSuffix = "-hub"

// linkName returns the name of a pod's link of a hop.
func (r *pairing) linkName(from *member, hop int) string {
	name := Name(r.service.Name, from.pod.UID, from.clientInterface, hop)
	if r.maker == v1alpha1.MakerFederator {
		name += hubSuffix
	}
	return name
}

func compareLinks(a, b *v1alpha1.TSNLink) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Spec.Service, b.Spec.Service), cmp.Compare(a.Spec.Hop, b.Spec.Hop),
		strings.Compare(a.Name, b.Name))
}

// newLink creates a link with VNI, addresses and interfaces.
func (r *pairing) newLink(from, to *member, hop int) (*v1alpha1.TSNLink, *Finding) {
	service := r.service
	link := &v1alpha1.TSNLink{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: r.linkName(from, hop),
			Labels: map[string]string{v1alpha1.LinkMakerLabel: r.maker},
		},
		Spec: v1alpha1.TSNLinkSpec{
			Service: service.Name, Hop: int32(hop), MTU: service.Spec.MTU, Encryption: service.Spec.Encryption,
			Client:   r.end(from, from.clientInterface),
			Endpoint: r.end(to, r.pool.endpointInterface(to.pod.UID, to.endpointPrefix)),
		},
	}
	if problem := r.allocateAddresses(link); problem != nil {
		return nil, problem
	}
	first, last := v1alpha1.FirstLinkVNI, v1alpha1.LastLinkVNI
	if given := service.Spec.VNIs; given != nil {
		first, last = given.First, given.Last
	}
	vni, free := r.pool.vni(first, last)
	if !free {
		return nil, &Finding{v1alpha1.ReasonRangeUsedUp, fmt.Sprintf("all VXLAN network identifiers from %d to %d are in use; have the hub give the cluster more (spec.vnis), "+
			"or reduce the number of links", first, last)}
	}
	link.Spec.VNI = vni
	return link, nil
}

func (r *pairing) end(m *member, name string) v1alpha1.LinkEnd {
	return v1alpha1.LinkEnd{
		Namespace: m.pod.Namespace, Pod: m.pod.Name, UID: m.pod.UID, Node: m.pod.Node,
		NodeAddress: r.in.Nodes[m.pod.Node].Address.String(), Interface: name,
	}
}

// allocateAddresses allocates the addresses of both ends; the client gets the lower one.
func (r *pairing) allocateAddresses(link *v1alpha1.TSNLink) *Finding {
	for _, linkRange := range []*v1alpha1.LinkRange{r.service.Spec.IPv4, r.service.Spec.IPv6} {
		if linkRange == nil {
			continue
		}
		text := cmp.Or(linkRange.Part, linkRange.LinkCIDR)
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return &Finding{v1alpha1.ReasonRangeUsedUp, fmt.Sprintf("range %q is invalid: %v", text, err)}
		}
		pair, free := r.pool.pair(prefix.Masked())
		if !free {
			return &Finding{v1alpha1.ReasonRangeUsedUp, fmt.Sprintf("no addresses of %s are left for another link. "+
				"Create another TSNService with a larger range", text)}
		}
		client := pair.Addr()
		link.Spec.Client.Addresses = append(link.Spec.Client.Addresses, netip.PrefixFrom(client, pair.Bits()).String())
		link.Spec.Endpoint.Addresses = append(link.Spec.Endpoint.Addresses, netip.PrefixFrom(client.Next(), pair.Bits()).String())
	}
	return nil
}

// addressesOf returns the addresses of an end of a link, without prefix lengths.
func addressesOf(end *v1alpha1.LinkEnd) []netip.Addr {
	var all []netip.Addr
	for _, prefix := range parsePrefixes(end.Addresses...) {
		all = append(all, prefix.Addr())
	}
	return all
}

func toStrings[T fmt.Stringer](objects []T) []string {
	var all []string
	for _, object := range objects {
		all = append(all, object.String())
	}
	return all
}

// hostPrefixes returns a prefix for each address of an end of a link.
func hostPrefixes(end *v1alpha1.LinkEnd) []netip.Prefix {
	var all []netip.Prefix
	for _, address := range addressesOf(end) {
		all = append(all, netip.PrefixFrom(address, address.BitLen()))
	}
	return all
}

// sortedRoutes returns the sorted distinct ranges, limited to maxRoutes.
func sortedRoutes(prefixes []netip.Prefix) []string {
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	prefixes = slices.Compact(prefixes)
	return toStrings(prefixes[:min(len(prefixes), maxRoutes)])
}
