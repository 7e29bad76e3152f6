/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An IP address of either family, in one form: IPv4 as IPv4-mapped IPv6 (::ffff:a.b.c.d, RFC 4291 section
 * 2.5.5.2), which is how the kernel shows it to a dual-stack socket. Pure; any thread.
 */
#ifndef KTSN_RING_ADDRESS_H
#define KTSN_RING_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { KTSN_ADDRESS_BYTES = 16, KTSN_ADDRESS_MAPPED_BITS = 96 };

struct ktsn_address {
	uint8_t bytes[KTSN_ADDRESS_BYTES];
};

/* The first 12 bytes of an IPv4-mapped address. */
#define KTSN_ADDRESS_MAPPED_PREFIX                                                                           \
	{                                                                                                    \
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff                                                     \
	}

static inline struct ktsn_address ktsn_address_of_ipv4(uint32_t ipv4_be)
{
	struct ktsn_address address = {KTSN_ADDRESS_MAPPED_PREFIX};

	memcpy(address.bytes + 12, &ipv4_be, sizeof(ipv4_be));
	return address;
}

static inline struct ktsn_address ktsn_address_of_ipv6(const void *bytes)
{
	struct ktsn_address address;

	memcpy(address.bytes, bytes, sizeof(address.bytes));
	return address;
}

static inline bool ktsn_address_is_ipv4(const struct ktsn_address *address)
{
	static const uint8_t prefix[12] = KTSN_ADDRESS_MAPPED_PREFIX;

	return memcmp(address->bytes, prefix, sizeof(prefix)) == 0;
}

/* AF_INET or AF_INET6. */
static inline uint16_t ktsn_address_family(const struct ktsn_address *address)
{
	return ktsn_address_is_ipv4(address) ? AF_INET : AF_INET6;
}

/* The address must be an IPv4 address. */
static inline uint32_t ktsn_address_ipv4_be(const struct ktsn_address *address)
{
	uint32_t ipv4_be;

	memcpy(&ipv4_be, address->bytes + 12, sizeof(ipv4_be));
	return ipv4_be;
}

static inline bool ktsn_address_equal(const struct ktsn_address *a, const struct ktsn_address *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* Whether the address is the link-local address that is derived from a hardware address (RFC 4291 appendix
 * A), which is then stored in `mac`. */
static inline bool ktsn_address_is_of_mac(const struct ktsn_address *address, uint8_t mac[6])
{
	static const uint8_t prefix[8] = {0xfe, 0x80};
	const uint8_t *id = address->bytes + sizeof(prefix);

	if (memcmp(address->bytes, prefix, sizeof(prefix)) != 0 || id[3] != 0xff || id[4] != 0xfe)
		return false;
	memcpy(mac, id, 3);
	memcpy(mac + 3, id + 5, 3);
	mac[0] ^= 2;
	return true;
}

/* Whether the address is in the subnet. prefix_bits counts from the first of all 128 bits. */
static inline bool ktsn_address_in(const struct ktsn_address *address, const struct ktsn_address *network,
				   unsigned int prefix_bits)
{
	unsigned int bytes = prefix_bits / 8, bits = prefix_bits % 8;

	/* An IPv6 subnet contains no IPv4 address. */
	if (ktsn_address_is_ipv4(address) != ktsn_address_is_ipv4(network) ||
	    memcmp(address->bytes, network->bytes, bytes) != 0)
		return false;
	return !bits || (address->bytes[bytes] ^ network->bytes[bytes]) >> (8 - bits) == 0;
}

/* The wildcard address of either family. */
static inline bool ktsn_address_is_any(const struct ktsn_address *address)
{
	static const struct ktsn_address any;

	if (ktsn_address_is_ipv4(address))
		return ktsn_address_ipv4_be(address) == 0;
	return ktsn_address_equal(address, &any);
}

static inline bool ktsn_address_is_multicast(const struct ktsn_address *address)
{
	if (ktsn_address_is_ipv4(address))
		return (address->bytes[12] & 0xf0) == 0xe0; /* 224.0.0.0/4 */
	return address->bytes[0] == 0xff;
}

/* fe80::/10 or an IPv6 multicast group with link-local scope: valid on one interface only. */
static inline bool ktsn_address_is_link_local(const struct ktsn_address *address)
{
	if (address->bytes[0] == 0xff)
		return (address->bytes[1] & 0x0f) == 1 || (address->bytes[1] & 0x0f) == 2;
	return address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80;
}

#endif
