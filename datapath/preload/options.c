/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "kernel.h"

#include <netinet/in.h>
#include <sys/socket.h>

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef SO_NO_CHECK
#define SO_NO_CHECK 11
#endif

/* <linux/udp.h> */
enum { CORK = 1, NO_CHECK6_TX = 101, SEGMENT = 103 };

static int number_of(int fd, int level, int option)
{
	int value = 0;
	socklen_t bytes = sizeof(value);

	return kernel_call(SYS_getsockopt, fd, level, option, &value, &bytes) == 0 ? value : 0;
}

static bool is_there(int fd, int level, int option)
{
	uint8_t value[256];
	socklen_t bytes = sizeof(value);

	return kernel_call(SYS_getsockopt, fd, level, option, value, &bytes) == 0 && bytes > 0;
}

static bool has_more_headers(int fd)
{
	return is_there(fd, IPPROTO_IP, IP_OPTIONS) || is_there(fd, IPPROTO_IPV6, IPV6_HOPOPTS) ||
	       is_there(fd, IPPROTO_IPV6, IPV6_RTHDRDSTOPTS) || is_there(fd, IPPROTO_IPV6, IPV6_RTHDR) ||
	       is_there(fd, IPPROTO_IPV6, IPV6_DSTOPTS);
}

bool options_concern(int level, int option)
{
	switch (level) {
	case SOL_SOCKET:
		return option == SO_NO_CHECK;
	case SOL_UDP:
		return option == CORK || option == SEGMENT || option == NO_CHECK6_TX;
	case IPPROTO_IP:
		return option == IP_OPTIONS;
	case IPPROTO_IPV6: /* among them those that have another number too */
		return true;
	default:
		return false;
	}
}

void options_read(struct datagram_options *options, int fd)
{
	atomic_store_explicit(&options->segment_bytes, (uint32_t)number_of(fd, SOL_UDP, SEGMENT),
			      memory_order_relaxed);
	atomic_store_explicit(&options->corked, number_of(fd, SOL_UDP, CORK) != 0, memory_order_relaxed);
	atomic_store_explicit(&options->unchecked, number_of(fd, SOL_SOCKET, SO_NO_CHECK) != 0,
			      memory_order_relaxed);
	atomic_store_explicit(&options->unchecked6, number_of(fd, SOL_UDP, NO_CHECK6_TX) != 0,
			      memory_order_relaxed);
	atomic_store_explicit(&options->more_headers, has_more_headers(fd), memory_order_relaxed);
}
