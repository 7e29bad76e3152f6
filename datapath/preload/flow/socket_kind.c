/* SPDX-License-Identifier: Apache-2.0 */
#include "socket_kind.h"

#include "socket_options.h"

bool socket_kind_read(int fd, struct socket_kind *kind)
{
	int domain = 0, type = 0, protocol = 0;

	if (socket_option_read(fd, SOL_SOCKET, SO_DOMAIN, &domain) ||
	    socket_option_read(fd, SOL_SOCKET, SO_TYPE, &type) ||
	    socket_option_read(fd, SOL_SOCKET, SO_PROTOCOL, &protocol))
		return false;
	kind->domain = (uint16_t)domain;
	kind->raw = type == SOCK_RAW;
	if (domain == AF_PACKET)
		return type == SOCK_RAW || type == SOCK_DGRAM;
	return (domain == AF_INET || domain == AF_INET6) && type == SOCK_DGRAM && protocol == IPPROTO_UDP;
}

uint64_t socket_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes);
	return cookie;
}

union socket_address {
	sa_family_t family;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
	struct sockaddr_storage any;
};

bool socket_is_bound(int fd)
{
	union socket_address bound;
	socklen_t bytes = sizeof(bound);

	if (kernel_call(SYS_getsockname, fd, &bound, &bytes) < 0)
		return false;
	switch (bound.family) {
	case AF_INET:
		return bound.ipv4.sin_port != 0;
	case AF_INET6:
		return bound.ipv6.sin6_port != 0;
	default:
		return true; /* AF_PACKET has no ports */
	}
}
