/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox_options.h"

#include "inbox_abi.h"
#include "socket_options.h"

#include <stddef.h>

struct option {
	int level, option;
	uint32_t wants;
};

static const struct option answered[] = {
	{SOL_SOCKET, ABI_SO_TIMESTAMP_OLD, INBOX_WANTS_TIMESTAMP},
	{SOL_SOCKET, ABI_SO_TIMESTAMPNS_OLD, INBOX_WANTS_TIMESTAMPNS},
	{SOL_SOCKET, ABI_SO_TIMESTAMP_NEW, INBOX_WANTS_TIMESTAMP | INBOX_WANTS_TIMESTAMP_NEW},
	{SOL_SOCKET, ABI_SO_TIMESTAMPNS_NEW, INBOX_WANTS_TIMESTAMPNS | INBOX_WANTS_TIMESTAMP_NEW},
	{SOL_SOCKET, ABI_SO_RXQ_OVFL, INBOX_WANTS_DROPS},
	{IPPROTO_IP, ABI_IP_PKTINFO, INBOX_WANTS_PKTINFO},
	{IPPROTO_IP, ABI_IP_RECVTTL, INBOX_WANTS_TTL},
	{IPPROTO_IP, ABI_IP_RECVTOS, INBOX_WANTS_TOS},
	{IPPROTO_IPV6, ABI_IPV6_RECVPKTINFO, INBOX_WANTS_PKTINFO6},
	{IPPROTO_IPV6, ABI_IPV6_RECVHOPLIMIT, INBOX_WANTS_HOPLIMIT6},
	{IPPROTO_IPV6, ABI_IPV6_RECVTCLASS, INBOX_WANTS_TCLASS6},
};

/* Not 0: the kernel serves the socket. */
static const struct option left_to_kernel[] = {
	{SOL_SOCKET, ABI_SO_TIMESTAMPING_OLD, 0},
	{SOL_SOCKET, ABI_SO_TIMESTAMPING_NEW, 0},
	{SOL_SOCKET, ABI_SO_RCVMARK, 0},
	{SOL_SOCKET, ABI_SO_RCVPRIORITY, 0},
	{SOL_SOCKET, ABI_SO_PASSSEC, 0},
	{IPPROTO_IP, ABI_IP_RECVOPTS, 0},
	{IPPROTO_IP, ABI_IP_RETOPTS, 0},
	{IPPROTO_IP, ABI_IP_PASSSEC, 0},
	{IPPROTO_IP, ABI_IP_RECVORIGDSTADDR, 0},
	{IPPROTO_IP, ABI_IP_CHECKSUM, 0},
	{IPPROTO_IP, ABI_IP_RECVFRAGSIZE, 0},
	{SOL_UDP, ABI_UDP_GRO, 0},
	{SOL_UDP, ABI_UDP_ENCAP, 0},
	{IPPROTO_IPV6, ABI_IPV6_2292PKTINFO, 0},
	{IPPROTO_IPV6, ABI_IPV6_2292HOPOPTS, 0},
	{IPPROTO_IPV6, ABI_IPV6_2292DSTOPTS, 0},
	{IPPROTO_IPV6, ABI_IPV6_2292RTHDR, 0},
	{IPPROTO_IPV6, ABI_IPV6_2292HOPLIMIT, 0},
	{IPPROTO_IPV6, ABI_IPV6_FLOWINFO, 0},
	{IPPROTO_IPV6, ABI_IPV6_RECVHOPOPTS, 0},
	{IPPROTO_IPV6, ABI_IPV6_RECVRTHDR, 0},
	{IPPROTO_IPV6, ABI_IPV6_RECVDSTOPTS, 0},
	{IPPROTO_IPV6, ABI_IPV6_RECVPATHMTU, 0},
	{IPPROTO_IPV6, ABI_IPV6_RECVORIGDSTADDR, 0},
	{IPPROTO_IPV6, ABI_IPV6_RECVFRAGSIZE, 0},
};

enum {
	ANSWERED = sizeof(answered) / sizeof(*answered),
	LEFT_TO_KERNEL = sizeof(left_to_kernel) / sizeof(*left_to_kernel),
};

static bool is_set(int fd, int family, const struct option *option)
{
	int value = 0;

	if (option->level == IPPROTO_IPV6 && family != AF_INET6)
		return false;
	return socket_option_read(fd, option->level, option->option, &value) == 0 && value != 0;
}

/* Where the next peek begins: -1 without. */
static bool peeks_at_offset(int fd)
{
	int offset = -1;

	return socket_option_read(fd, SOL_SOCKET, ABI_SO_PEEK_OFF, &offset) == 0 && offset >= 0;
}

bool inbox_options_read(int fd, int family, uint32_t *wants)
{
	*wants = 0;
	for (size_t i = 0; i < ANSWERED; i++)
		if (is_set(fd, family, &answered[i]))
			*wants |= answered[i].wants;
	for (size_t i = 0; i < LEFT_TO_KERNEL; i++)
		if (is_set(fd, family, &left_to_kernel[i]))
			return false;
	return !peeks_at_offset(fd);
}

static bool is_among(const struct option *options, size_t count, int level, int option)
{
	for (size_t i = 0; i < count; i++)
		if (options[i].level == level && options[i].option == option)
			return true;
	return false;
}

bool inbox_options_concern(int level, int option)
{
	return is_among(answered, ANSWERED, level, option) ||
	       is_among(left_to_kernel, LEFT_TO_KERNEL, level, option) ||
	       (level == SOL_SOCKET && option == ABI_SO_PEEK_OFF);
}

bool inbox_options_filter(int level, int option)
{
	return level == SOL_SOCKET &&
	       (option == ABI_SO_ATTACH_FILTER || option == ABI_SO_DETACH_FILTER ||
		option == ABI_SO_LOCK_FILTER || option == ABI_SO_ATTACH_BPF ||
		option == ABI_SO_ATTACH_REUSEPORT_CBPF || option == ABI_SO_ATTACH_REUSEPORT_EBPF);
}
