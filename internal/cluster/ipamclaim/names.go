// SPDX-License-Identifier: Apache-2.0

package ipamclaim

// Types of conditions of an IPAMClaim.
const (
	// ConditionAllocated : whether the claim has addresses.
	ConditionAllocated = "IPsAllocated"
)

// Reasons of IPsAllocated.
const (
	// ReasonAllocated : status.ips has the addresses.
	ReasonAllocated = "SuccessfulAllocation"
	// ReasonNoStaticRange : the network has no static range.
	ReasonNoStaticRange = "NoStaticRange"
	// ReasonNamespace : spec.namespaceSelector of the network does not select the namespace of the claim.
	ReasonNamespace = "NamespaceNotSelected"
	// ReasonUnavailable : an address of the claim is not in the static ranges, a requested one is in use or the second one of its family, or a range
	// has no free address.
	ReasonUnavailable = "AddressUnavailable"
	// ReasonInUse : an older claim has one of the addresses in status.ips.
	ReasonInUse = "AddressInUse"
)
