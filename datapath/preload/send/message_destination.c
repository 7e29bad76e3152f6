/* SPDX-License-Identifier: Apache-2.0 */
#include "message_destination.h"

#include "address.h"
#include "message.h"
#include "message_control.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <string.h>

enum {
	SIN6_BYTES_RFC2133 = 24, /* without the scope */
	TXTIME_ALONE_BYTES = CMSG_SPACE(sizeof(int64_t)),
};

static void ipv4_take(struct ktsn_app_key *key, const void *address, uint16_t port_be)
{
	key->family = AF_INET;
	key->port_be = port_be;
	memcpy(key->address, address, 4);
}

static int sockaddr_ipv4_read(const struct msghdr *message, struct ktsn_app_key *key)
{
	struct sockaddr_in to;

	if (message->msg_namelen < sizeof(to))
		return -EINVAL;
	memcpy(&to, message->msg_name, sizeof(to));
	if (to.sin_family != AF_INET && to.sin_family != AF_UNSPEC)
		return -EAFNOSUPPORT;
	if (to.sin_port == 0)
		return -EINVAL;
	ipv4_take(key, &to.sin_addr, to.sin_port);
	return 1;
}

static void ipv6_take(struct ktsn_app_key *key, const struct sockaddr_in6 *to)
{
	const struct ktsn_address address = ktsn_address_of_ipv6(&to->sin6_addr);

	if (ktsn_address_is_ipv4(&address)) {
		ipv4_take(key, to->sin6_addr.s6_addr + 12, to->sin6_port);
		return;
	}
	key->family = AF_INET6;
	key->port_be = to->sin6_port;
	memcpy(key->address, &to->sin6_addr, sizeof(key->address));
	if (ktsn_address_is_link_local(&address))
		key->interface = to->sin6_scope_id;
}

static int sockaddr_ipv6_read(const struct msghdr *message, struct ktsn_app_key *key)
{
	struct sockaddr_in6 to = {.sin6_family = AF_UNSPEC};
	size_t bytes = message->msg_namelen < sizeof(to) ? message->msg_namelen : sizeof(to);

	if (bytes < sizeof(to.sin6_family))
		return -EINVAL;
	memcpy(&to, message->msg_name, bytes);
	if (to.sin6_family == AF_INET)
		return sockaddr_ipv4_read(message, key);
	/* Whatever follows the family: the message goes to the connected address. */
	if (to.sin6_family == AF_UNSPEC)
		return 0;
	if (to.sin6_family != AF_INET6 || bytes < SIN6_BYTES_RFC2133 || to.sin6_port == 0)
		return -EINVAL;
	ipv6_take(key, &to);
	return 1;
}

/* The Ethernet header of the message decides all but the interface. */
static int header_read(const struct msghdr *message, struct ktsn_app_key *key)
{
	uint8_t header[ETHERNET_HEADER_BYTES];

	if (message_payload_copy(message, header, sizeof(header)) < sizeof(header))
		return -EINVAL;
	memcpy(key->address, header, 12);
	memcpy(&key->port_be, header + 12, sizeof(key->port_be));
	return 1;
}

static int sockaddr_link_read(const struct msghdr *message, bool raw, struct ktsn_app_key *key)
{
	struct sockaddr_ll to;

	key->family = AF_PACKET;
	/* SOCK_DGRAM takes the hardware address from the socket address (eth_header). */
	if (!message->msg_name || message->msg_namelen == 0)
		return raw ? header_read(message, key) : -EINVAL;
	if (message->msg_namelen < sizeof(to))
		return -EINVAL;
	memcpy(&to, message->msg_name, sizeof(to));
	if (message->msg_namelen < to.sll_halen + offsetof(struct sockaddr_ll, sll_addr))
		return -EINVAL;
	if (to.sll_ifindex <= 0)
		return -ENXIO;
	key->interface = (uint32_t)to.sll_ifindex;
	if (raw)
		return header_read(message, key);
	key->port_be = to.sll_protocol;
	memcpy(key->address, to.sll_addr, 6);
	return 1;
}

static int address_read(const struct msghdr *message, struct socket_kind kind, struct ktsn_app_key *key)
{
	if (kind.domain == AF_PACKET)
		return sockaddr_link_read(message, kind.raw, key);
	if (!message->msg_name || message->msg_namelen == 0)
		return 0;
	return kind.domain == AF_INET ? sockaddr_ipv4_read(message, key) : sockaddr_ipv6_read(message, key);
}

static bool carries_something(const struct ktsn_app_key *key)
{
	static const uint8_t none[sizeof(key->source)];

	return key->carries || key->interface || memcmp(key->source, none, sizeof(none)) != 0;
}

int message_destination_read(const struct msghdr *message, struct socket_kind kind, int fd,
			     struct ktsn_app_key *key)
{
	int has_address, err;

	memset(key, 0, sizeof(*key));
	has_address = address_read(message, kind, key);
	/* The control messages hold the transmit time, and have room for nothing else. */
	if (has_address < 0 || (uint32_t)message->msg_controllen <= TXTIME_ALONE_BYTES)
		return has_address;
	err = message_controls_read(message, kind, fd, key);
	return err ? err : has_address || carries_something(key);
}
