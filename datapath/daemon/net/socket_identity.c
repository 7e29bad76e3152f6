/* SPDX-License-Identifier: Apache-2.0 */
#include "socket_identity.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef SO_NO_CHECK
#define SO_NO_CHECK 11
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

/* <linux/udp.h> */
enum { NO_CHECK6_TX = 101 };

union socket_address {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
	struct sockaddr_ll link;
};

static int option_read(int fd, int level, int option, int *value)
{
	socklen_t bytes = sizeof(*value);

	*value = 0;
	return getsockopt(fd, level, option, value, &bytes) ? -errno : 0;
}

/* Reads an option that fits a byte of a header. */
static int byte_read(int fd, int level, int option, uint8_t *byte)
{
	int value;
	int err = option_read(fd, level, option, &value);

	*byte = (uint8_t)value;
	return err;
}

static int flag_read(int fd, int level, int option, bool *flag)
{
	int value;
	int err = option_read(fd, level, option, &value);

	*flag = value != 0;
	return err;
}

/* Reads whether datagrams that fit leave without the bit "don't fragment" (the kernel's ip_dont_fragment()).
 */
static int fragmentable_read(int fd, bool *fragmentable)
{
	int discover;
	int err = option_read(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover);

	*fragmentable =
		discover != IP_PMTUDISC_WANT && discover != IP_PMTUDISC_DO && discover != IP_PMTUDISC_PROBE;
	return err;
}

static int kind_read(int fd, struct socket_attributes *attributes)
{
	int domain, type, protocol;
	int err = option_read(fd, SOL_SOCKET, SO_DOMAIN, &domain);

	if (!err)
		err = option_read(fd, SOL_SOCKET, SO_TYPE, &type);
	if (!err)
		err = option_read(fd, SOL_SOCKET, SO_PROTOCOL, &protocol);
	if (err)
		return err;
	attributes->family = (uint16_t)domain;
	attributes->raw = type == SOCK_RAW;
	if (domain == AF_PACKET)
		return type == SOCK_RAW || type == SOCK_DGRAM ? 0 : -EOPNOTSUPP;
	return (domain == AF_INET || domain == AF_INET6) && type == SOCK_DGRAM && protocol == IPPROTO_UDP
		       ? 0
		       : -EOPNOTSUPP;
}

static struct socket_end socket_end_of(const union socket_address *address)
{
	struct socket_end end = {.port_be = 0};

	if (address->any.sa_family == AF_INET) {
		end.address = ktsn_address_of_ipv4(address->ipv4.sin_addr.s_addr);
		end.port_be = address->ipv4.sin_port;
	} else if (address->any.sa_family == AF_INET6) {
		end.address = ktsn_address_of_ipv6(&address->ipv6.sin6_addr);
		end.port_be = address->ipv6.sin6_port;
		end.interface = address->ipv6.sin6_scope_id;
	}
	return end;
}

static int ends_read(int fd, struct socket_attributes *attributes)
{
	union socket_address address = {.any.sa_family = AF_UNSPEC};
	socklen_t bytes = sizeof(address);

	if (getsockname(fd, &address.any, &bytes))
		return -errno;
	if (address.any.sa_family == AF_PACKET) {
		attributes->interface = (uint32_t)address.link.sll_ifindex;
		attributes->protocol_be = address.link.sll_protocol;
		return 0;
	}
	attributes->local = socket_end_of(&address);
	if (attributes->local.port_be == 0)
		return -EINVAL;
	address.any.sa_family = AF_UNSPEC;
	bytes = sizeof(address);
	if (getpeername(fd, &address.any, &bytes) && errno != ENOTCONN)
		return -errno;
	attributes->remote = socket_end_of(&address);
	return 0;
}

/* An IPv6 socket has these options too, for datagrams to IPv4. */
static int ipv4_options_read(int fd, struct socket_attributes *attributes)
{
	struct in_addr source = {.s_addr = 0};
	socklen_t bytes = sizeof(source);
	int err = byte_read(fd, IPPROTO_IP, IP_TTL, &attributes->ttl);

	if (!err)
		err = byte_read(fd, IPPROTO_IP, IP_TOS, &attributes->tos);
	if (!err)
		err = byte_read(fd, IPPROTO_IP, IP_MULTICAST_TTL, &attributes->multicast_ttl);
	if (!err && getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &source, &bytes))
		err = -errno;
	attributes->multicast_source = ktsn_address_of_ipv4(source.s_addr);
	if (!err)
		err = flag_read(fd, SOL_SOCKET, SO_NO_CHECK, &attributes->unchecked);
	return err ? err : fragmentable_read(fd, &attributes->fragmentable);
}

static int ipv6_options_read(int fd, struct socket_attributes *attributes)
{
	int interface = 0;
	int err = byte_read(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &attributes->hops);

	if (!err)
		err = byte_read(fd, IPPROTO_IPV6, IPV6_TCLASS, &attributes->tclass);
	if (!err)
		err = byte_read(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &attributes->multicast_hops);
	if (!err)
		err = option_read(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface);
	if (!err)
		err = flag_read(fd, IPPROTO_IPV6, IPV6_V6ONLY, &attributes->v6only);
	if (!err)
		err = flag_read(fd, SOL_UDP, NO_CHECK6_TX, &attributes->unchecked6);
	attributes->multicast_interface = (uint32_t)interface;
	return err;
}

static int ip_options_read(int fd, struct socket_attributes *attributes)
{
	int interface = 0;
	int err = ipv4_options_read(fd, attributes);

	if (!err && attributes->family == AF_INET6)
		err = ipv6_options_read(fd, attributes);
	if (!err)
		err = flag_read(fd, SOL_SOCKET, SO_BROADCAST, &attributes->broadcast);
	if (!err)
		err = option_read(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface);
	attributes->interface = (uint32_t)interface;
	return err;
}

int socket_netns_cookie(int fd, uint64_t *cookie)
{
	socklen_t bytes = sizeof(*cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &bytes) ? -errno : 0;
}

int socket_cookies_read(int fd, struct socket_identity *identity)
{
	socklen_t bytes = sizeof(identity->cookie);
	int err = socket_netns_cookie(fd, &identity->netns_cookie);

	if (!err && getsockopt(fd, SOL_SOCKET, SO_COOKIE, &identity->cookie, &bytes))
		err = -errno;
	return err;
}

int socket_identity_read(int fd, struct socket_identity *identity)
{
	struct socket_attributes *attributes = &identity->attributes;
	int priority = 0, err;

	*identity = (struct socket_identity){.cookie = 0};
	err = kind_read(fd, attributes);
	if (!err)
		err = socket_cookies_read(fd, identity);
	if (!err)
		err = ends_read(fd, attributes);
	if (!err && attributes->family != AF_PACKET)
		err = ip_options_read(fd, attributes);
	if (!err)
		err = option_read(fd, SOL_SOCKET, SO_PRIORITY, &priority);
	attributes->priority = (uint8_t)((uint32_t)priority % SOCKET_PRIORITIES);
	return err;
}
