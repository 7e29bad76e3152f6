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
	// ReasonUnavailable : a requested address is not in the static ranges or is in use, or a range has no free address.
	ReasonUnavailable = "AddressUnavailable"
)
