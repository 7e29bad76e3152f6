// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/ipamclaim"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// requestClaimed makes a pod request the addresses of the IPAMClaims in the annotation of Multus (ipam-claim-reference). The operator gives claims
// their addresses: a review may be a dry run, and several operators answer reviews, so the webhook only reads them.
func (h *Handler) requestClaimed(ctx context.Context, pod *corev1.Pod, namespace string, networks []*v1alpha1.TSNNetwork) error {
	elements, err := attachmentsOf(pod, namespace)
	if err != nil {
		return refusal{err}
	}
	for position, element := range elements {
		at := slices.IndexFunc(networks, func(network *v1alpha1.TSNNetwork) bool {
			return network.Name == element.Name && element.Namespace == namespace
		})
		if at < 0 || element.IPAMClaimReference == "" {
			continue
		}
		claim, err := h.usableClaim(ctx, pod, namespace, networks[at], element.IPAMClaimReference)
		if err != nil {
			return err
		}
		claimed := ipamclaim.Addresses(claim.Status.IPs)
		for _, text := range element.IPRequest {
			if address, err := parseAddress(text); err != nil || !slices.Contains(claimed, address) {
				return refusal{fmt.Errorf("annotation %s requests %q on TSNNetwork %s, and IPAMClaim %s has %v; remove either the address or ipam-claim-reference",
					nettypes.NetworkAttachmentAnnot, tsnnetwork.Shorten(text, maxKeyBytes), element.Name, claim.Name, claim.Status.IPs)}
			}
		}
		if err := setAddresses(pod, elements, position, claim.Status.IPs); err != nil {
			return refusal{err}
		}
	}
	return nil
}

// usableClaim returns a claim whose addresses the pod can have.
func (h *Handler) usableClaim(ctx context.Context, pod *corev1.Pod, namespace string, network *v1alpha1.TSNNetwork, name string) (*ipamclaim.IPAMClaim, error) {
	refuse := func(format string, arguments ...any) (*ipamclaim.IPAMClaim, error) {
		return nil, refusal{fmt.Errorf("annotation %s refers to IPAMClaim %q on TSNNetwork %s, "+format,
			append([]any{nettypes.NetworkAttachmentAnnot, tsnnetwork.Shorten(name, maxKeyBytes), network.Name}, arguments...)...)}
	}
	static := tsnnetwork.Static(network)
	if len(static) == 0 {
		return refuse("which has no addresses for claims; add a static range (spec.ipv4.static)")
	}
	claim := &ipamclaim.IPAMClaim{}
	err := h.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, claim)
	switch {
	case ipamclaim.IsMissing(err):
		return refuse("and the cluster has no CustomResourceDefinition %s; install it", ipamclaim.Resource)
	case apierrors.IsNotFound(err):
		return refuse("which namespace %s does not have; create the claim first", namespace)
	case err != nil:
		return nil, fmt.Errorf("get IPAMClaim %s/%s: %w", namespace, name, err)
	case claim.DeletionTimestamp != nil:
		return refuse("which is being deleted; create the pod again with another claim")
	case claim.Spec.Network != network.Name:
		return refuse("which is for network %q (spec.network); create a claim for this network", tsnnetwork.Shorten(claim.Spec.Network, maxKeyBytes))
	}
	owner, err := h.otherPod(ctx, pod, namespace, func(other *corev1.Pod) bool {
		return other.Namespace == namespace && ClaimOf(other, network.Name) == name
	})
	switch {
	case err != nil:
		return nil, err
	case owner != "":
		return refuse("which pod %s holds; wait until that pod is gone, or refer to another claim", owner)
	case len(claim.Status.IPs) == 0:
		return refuse("which has no address yet (%s); create the pod again when status.ips of the claim has one", reasonOf(claim))
	case claim.Failed():
		return refuse("whose addresses no pod can have (%s)", reasonOf(claim))
	}
	for _, text := range claim.Status.IPs {
		if prefix, err := netip.ParsePrefix(text); err != nil || !tsnnetwork.Contains(static, prefix.Addr()) {
			return refuse("whose address %q is not in the static ranges, %v; create the claim again", tsnnetwork.Shorten(text, maxKeyBytes), static)
		}
	}
	return claim, nil
}

// reasonOf returns why a claim has no address.
func reasonOf(claim *ipamclaim.IPAMClaim) string {
	if condition := meta.FindStatusCondition(claim.Status.Conditions, ipamclaim.ConditionAllocated); condition != nil {
		return condition.Message
	}
	return "ktsn-operator has not seen it"
}

// checkReserved returns an error if a pod requests a static address of a claim that it does not refer to.
func (h *Handler) checkReserved(ctx context.Context, namespace string, network *v1alpha1.TSNNetwork, reference string, requested []netip.Addr) error {
	static := tsnnetwork.Static(network)
	if !slices.ContainsFunc(requested, func(address netip.Addr) bool { return tsnnetwork.Contains(static, address) }) {
		return nil
	}
	// The cache shows whether the network has claims; it may miss the address of a recent one.
	var claims ipamclaim.List
	for _, reader := range []client.Reader{h.Cached, h.Live} {
		claims = ipamclaim.List{}
		if err := reader.List(ctx, &claims); ipamclaim.IsMissing(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("list the IPAMClaims: %w", err)
		}
		if !slices.ContainsFunc(claims.Items, func(claim ipamclaim.IPAMClaim) bool { return claim.Spec.Network == network.Name }) {
			return nil
		}
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Namespace == namespace && claim.Name == reference {
			continue
		}
		for _, address := range requested {
			if claim.Has(network.Name, address) {
				return refusal{fmt.Errorf("annotation %s requests %s on TSNNetwork %s, which IPAMClaim %s/%s has; refer to that claim (ipam-claim-reference), "+
					"or request another address", nettypes.NetworkAttachmentAnnot, address, network.Name, claim.Namespace, claim.Name)}
			}
		}
	}
	return nil
}

// ClaimOf returns the IPAMClaim to which a pod refers on a network, "" for none.
func ClaimOf(pod *corev1.Pod, network string) string {
	elements, err := attachmentsOf(pod, pod.Namespace)
	if err != nil || !isOn(pod, network) {
		return ""
	}
	for _, element := range elements {
		if element.Name == network && element.Namespace == pod.Namespace && element.IPAMClaimReference != "" {
			return element.IPAMClaimReference
		}
	}
	return ""
}
