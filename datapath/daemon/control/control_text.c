/* SPDX-License-Identifier: Apache-2.0 */
#include "control_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool bits_behind(const struct subnet *subnet)
{
	for (unsigned int bit = subnet->prefix_bits; bit < 8 * KTSN_ADDRESS_BYTES; bit++)
		if (subnet->network.bytes[bit / 8] & 0x80 >> bit % 8)
			return true;
	return false;
}

static int network_parse(const char *text, struct subnet *subnet)
{
	struct in6_addr ipv6;
	struct in_addr ipv4;

	if (inet_pton(AF_INET, text, &ipv4) == 1)
		subnet->network = ktsn_address_of_ipv4(ipv4.s_addr);
	else if (inet_pton(AF_INET6, text, &ipv6) == 1)
		subnet->network = ktsn_address_of_ipv6(&ipv6);
	else
		return -EINVAL;
	/* An IPv4-mapped IPv6 subnet would be an IPv4 subnet with another prefix length. */
	return ktsn_address_is_ipv4(&subnet->network) == !strchr(text, ':') ? 0 : -EINVAL;
}

int control_subnet_parse(const char *text, struct subnet *subnet)
{
	char address[INET6_ADDRSTRLEN], digits[4];
	int bits, end = 0;

	if (sscanf(text, "%45[0-9A-Fa-f.:]/%3[0-9]%n", address, digits, &end) != 2 || text[end] ||
	    network_parse(address, subnet))
		return -EINVAL;
	bits = atoi(digits) + (ktsn_address_is_ipv4(&subnet->network) ? KTSN_ADDRESS_MAPPED_BITS : 0);
	if (bits > 8 * KTSN_ADDRESS_BYTES)
		return -EINVAL;
	subnet->prefix_bits = (uint8_t)bits;
	return bits_behind(subnet) ? -EINVAL : 0;
}

const char *control_address_text(const struct ktsn_address *address, char text[INET6_ADDRSTRLEN])
{
	bool ipv4 = ktsn_address_is_ipv4(address);

	return inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? address->bytes + 12 : address->bytes, text,
			 INET6_ADDRSTRLEN);
}

const char *control_subnet_text(const struct subnet *subnet, char text[CONTROL_SUBNET_CHARACTERS + 1])
{
	int mapped_bits = ktsn_address_is_ipv4(&subnet->network) ? KTSN_ADDRESS_MAPPED_BITS : 0;
	char address[INET6_ADDRSTRLEN];

	snprintf(text, CONTROL_SUBNET_CHARACTERS + 1, "%s/%d",
		 control_address_text(&subnet->network, address), subnet->prefix_bits - mapped_bits);
	return text;
}

const char *control_mac_text(const uint8_t mac[6], char text[CONTROL_MAC_CHARACTERS + 1])
{
	snprintf(text, CONTROL_MAC_CHARACTERS + 1, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
		 mac[3], mac[4], mac[5]);
	return text;
}
