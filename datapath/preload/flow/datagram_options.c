/* SPDX-License-Identifier: Apache-2.0 */
#include "datagram_options.h"

#include "socket_options.h"

static int number_of(int fd, int level, int option)
{
	int value = 0;

	(void)socket_option_read(fd, level, option, &value);
	return value;
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

bool datagram_options_concern(int level, int option)
{
	switch (level) {
	case SOL_SOCKET:
		return option == SO_NO_CHECK || option == SO_TIMESTAMPING_OLD ||
		       option == SO_TIMESTAMPING_NEW;
	case SOL_UDP:
		return option == UDP_CORK || option == UDP_SEGMENT || option == UDP_NO_CHECK6_TX;
	case IPPROTO_IP:
		return option == IP_OPTIONS;
	case IPPROTO_IPV6: /* several options have two numbers */
		return true;
	default:
		return false;
	}
}

/* Numbers begin at 0 whenever the socket begins to number. */
static void stamping_read(struct datagram_options *options, int fd)
{
	uint32_t now = (uint32_t)number_of(fd, SOL_SOCKET, SO_TIMESTAMPING_OLD);
	uint32_t before = atomic_exchange_explicit(&options->stamping, now, memory_order_relaxed);

	if (now & ~before & SOF_TIMESTAMPING_OPT_ID)
		atomic_store_explicit(&options->stamp_next, 0, memory_order_relaxed);
}

void datagram_options_read(struct datagram_options *options, int fd)
{
	atomic_store_explicit(&options->segment_bytes, (uint32_t)number_of(fd, SOL_UDP, UDP_SEGMENT),
			      memory_order_relaxed);
	atomic_store_explicit(&options->corked, number_of(fd, SOL_UDP, UDP_CORK) != 0, memory_order_relaxed);
	atomic_store_explicit(&options->unchecked, number_of(fd, SOL_SOCKET, SO_NO_CHECK) != 0,
			      memory_order_relaxed);
	atomic_store_explicit(&options->unchecked6, number_of(fd, SOL_UDP, UDP_NO_CHECK6_TX) != 0,
			      memory_order_relaxed);
	stamping_read(options, fd);
	atomic_store_explicit(&options->more_headers, has_more_headers(fd), memory_order_relaxed);
}
