/* SPDX-License-Identifier: Apache-2.0 */
#include "admission.h"

#include "address.h"
#include "frame_sources.h"
#include "loop_objects.h"

#include <string.h>

uint8_t admission_priority(const struct loop_destination *destination, uint16_t ethertype_be,
			   uint8_t priority, const uint8_t *payload, size_t bytes)
{
	enum { PCP_SHIFT = 5 }; /* IEEE Std 802.1Q-2022 clause 9.6 */

	if (!destination->admission.pcp_is_priority || !ktsn_frame_is_tagged(ethertype_be) || !bytes)
		return priority;
	return payload[0] >> PCP_SHIFT;
}

static bool mac_allowed(const struct loop_sources *allowed, const uint8_t mac[KTSN_ETHER_ADDR_BYTES])
{
	for (uint32_t i = 0; i < allowed->mac_count; i++)
		if (memcmp(allowed->macs[i], mac, KTSN_ETHER_ADDR_BYTES) == 0)
			return true;
	return false;
}

static bool link_local_allowed(const struct loop_sources *allowed, const struct ktsn_address *address)
{
	uint8_t mac[KTSN_ETHER_ADDR_BYTES];

	return ktsn_address_is_of_mac(address, mac) && mac_allowed(allowed, mac);
}

/* Nobody has the unspecified address: it says that the sender has none yet. */
static bool address_allowed(const struct loop_sources *allowed, const struct ktsn_address *address)
{
	if (ktsn_address_is_any(address) || link_local_allowed(allowed, address))
		return true;
	for (uint32_t i = 0; i < allowed->subnet_count; i++)
		if (ktsn_address_in(address, &allowed->subnets[i].network, allowed->subnets[i].prefix_bits))
			return true;
	return false;
}

static bool source_allowed(const struct loop_sources *allowed, const struct ktsn_frame_source *source)
{
	struct ktsn_address address = ktsn_address_of_ipv6(source->bytes);
	uint32_t ipv4_be;

	if (source->kind != KTSN_SOURCE_MAC && allowed->any_address)
		return true;
	switch (source->kind) {
	case KTSN_SOURCE_MAC:
		return mac_allowed(allowed, source->bytes);
	case KTSN_SOURCE_IPV6:
		/* In a frame of IPv6 that is no IPv4 address. */
		return !ktsn_address_is_ipv4(&address) && address_allowed(allowed, &address);
	case KTSN_SOURCE_IPV4:
		break;
	}
	memcpy(&ipv4_be, source->bytes, sizeof(ipv4_be));
	address = ktsn_address_of_ipv4(ipv4_be);
	return address_allowed(allowed, &address);
}

static bool sources_allowed(const struct loop_sources *allowed, uint16_t ethertype_be, const uint8_t *payload,
			    size_t bytes)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	int count = ktsn_frame_sources(ethertype_be, payload, bytes, sources);

	for (int i = 0; i < count; i++)
		if (!source_allowed(allowed, &sources[i]))
			return false;
	/* Of whom nobody can tell is from anybody. */
	return count >= 0 || allowed->any_address;
}

bool admission_allows(const struct loop_destination *destination, uint16_t ethertype_be, uint8_t priority,
		      const uint8_t *payload, size_t bytes)
{
	const struct loop_admission *admission = &destination->admission;

	/* Of other flows the kernel has said what their sockets may have. */
	if (destination->flow->frames && priority > admission->priority_max)
		return false;
	return !admission->sources || sources_allowed(admission->sources, ethertype_be, payload, bytes);
}
