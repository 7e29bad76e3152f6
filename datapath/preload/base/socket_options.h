/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket options of the kernel that not every C library declares. <linux/udp.h> and <linux/in6.h> conflict
 * with <netinet/in.h>. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_SOCKET_OPTIONS_H
#define KTSN_PRELOAD_SOCKET_OPTIONS_H

#include "kernel.h"

#include <netinet/in.h>
#include <sys/socket.h>

#ifndef SO_NO_CHECK
#define SO_NO_CHECK 11
#endif
#ifndef SO_SELECT_ERR_QUEUE
#define SO_SELECT_ERR_QUEUE 45
#endif
#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif
#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif
#ifndef SCM_TXTIME
#define SCM_TXTIME SO_TXTIME
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef SOL_IPV6
#define SOL_IPV6 41
#endif
#ifndef SOL_PACKET
#define SOL_PACKET 263
#endif

#ifndef UDP_CORK
#define UDP_CORK 1
#endif
#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

/* socket_option_read reads an option that is an int. 0; -errno with *value unchanged. */
static inline int socket_option_read(int fd, int level, int option, int *value)
{
	socklen_t bytes = sizeof(*value);

	return (int)kernel_call(SYS_getsockopt, fd, level, option, value, &bytes);
}

#endif
