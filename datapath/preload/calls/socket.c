/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket, setsockopt, getsockopt, bind, connect and shutdown: a socket becomes libktsn's when it asks for
 * SO_TXTIME where ktsnd is meant to be (session.h). Later changes of its addresses and options are passed to
 * ktsnd.
 */
#include "descriptors.h"
#include "epoll_members.h"
#include "error_notifier.h"
#include "export.h"
#include "flow_end.h"
#include "inbox_open.h"
#include "inbox_options.h"
#include "next.h"
#include "refresh.h"
#include "registration.h"
#include "send.h"
#include "socket_options.h"
#include "space_notifier.h"
#include "txtime.h"

#include <errno.h>
#include <string.h>

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = next_socket(domain, type, protocol);

	/* A descriptor that was closed by a system call may come back as another socket. */
	if (fd >= 0)
		descriptor_gone(fd);
	return fd;
}

/* The socket's addresses, and so its route, have changed; or an option that its frames carry. */
static void socket_changed(int fd, void (*refresh)(struct flow *flow, int fd))
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	/* A socket that was disconnected has lost the port that connect() chose. */
	if (!flow->left_to_kernel && socket_is_bound(fd))
		refresh(flow, fd);
	else
		flow_forget(flow);
	flow_put(flow);
}

static void refresh_once(struct flow *flow, int fd)
{
	(void)flow_refresh(flow, fd);
}

/* The options that ktsnd reads from a socket when it is registered. IP_TOS sets the priority as well. */
static bool is_registered_option(int level, int option)
{
	switch (level) {
	case SOL_SOCKET:
		return option == SO_PRIORITY || option == SO_BINDTODEVICE || option == SO_BINDTOIFINDEX ||
		       option == SO_BROADCAST || option == SO_NO_CHECK;
	case IPPROTO_IP:
		return option == IP_TOS || option == IP_TTL || option == IP_MULTICAST_IF ||
		       option == IP_MULTICAST_TTL || option == IP_MTU_DISCOVER;
	case SOL_UDP:
		return option == UDP_NO_CHECK6_TX;
	case IPPROTO_IPV6:
		return option == IPV6_UNICAST_HOPS || option == IPV6_TCLASS || option == IPV6_MULTICAST_IF ||
		       option == IPV6_MULTICAST_HOPS;
	default:
		return false;
	}
}

/* Recorded, because getsockopt() returns the address that was given, and not the interface. */
static void multicast_interface_note(int fd, const void *value, socklen_t bytes)
{
	struct flow *flow = flow_acquire(fd);
	struct ip_mreqn group = {.imr_ifindex = 0};

	if (!flow)
		return;
	if (bytes >= sizeof(group))
		memcpy(&group, value, sizeof(group));
	flow->multicast_interface = group.imr_ifindex > 0 ? (uint32_t)group.imr_ifindex : 0;
	flow_put(flow);
}

static void exceptions_changed(int fd, const void *value)
{
	struct flow *flow = flow_acquire(fd);
	int exceptions;

	if (!flow)
		return;
	memcpy(&exceptions, value, sizeof(exceptions));
	error_notifier_set_exceptions(flow, exceptions != 0);
	flow_put(flow);
}

static void send_buffer_changed(int fd)
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	flow_send_buffer_read(flow, fd);
	flow_put(flow);
}

/* The corked message leaves when UDP_CORK is set to 0, also once more. */
static void options_changed(int fd, int level, int option)
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	datagram_options_read(&flow->options, fd);
	if (level == SOL_UDP && option == UDP_CORK &&
	    !atomic_load_explicit(&flow->options.corked, memory_order_relaxed))
		cork_end(flow, fd);
	/* Reports may come now. */
	if (level == SOL_SOCKET && !flow->left_to_kernel)
		epoll_members_catch_up(flow, fd);
	flow_put(flow);
}

/* The program would replace the ring's own. */
static void inbox_leave_to_filter(int fd, int level, int option)
{
	struct inbox *inbox = inbox_options_filter(level, option) ? inbox_of(fd) : NULL;

	if (!inbox)
		return;
	inbox_leave(inbox, fd, KTSN_APP_RECEIVE_CLOSE_FILTER);
	inbox_put(inbox);
}

static void inbox_options_changed(int fd, int level, int option)
{
	struct inbox *inbox = inbox_options_concern(level, option) ? inbox_of(fd) : NULL;
	uint32_t wants;

	if (!inbox)
		return;
	if (!inbox_options_read(fd, inbox->family, &wants))
		inbox_leave(inbox, fd, KTSN_APP_RECEIVE_CLOSE_OPTION);
	atomic_store_explicit(&inbox->wants, wants, memory_order_relaxed);
	inbox_put(inbox);
}

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	int result;

	if (level == SOL_SOCKET && option == SO_TXTIME)
		return (int)errno_return(txtime_set(fd, value, bytes));
	inbox_leave_to_filter(fd, level, option);
	result = next_setsockopt(fd, level, option, value, bytes);
	if (result == 0)
		inbox_options_changed(fd, level, option);
	if (result == 0 && level == IPPROTO_IP && option == IP_MULTICAST_IF)
		multicast_interface_note(fd, value, bytes);
	if (result == 0 && datagram_options_concern(level, option))
		options_changed(fd, level, option);
	if (result == 0 && is_registered_option(level, option))
		socket_changed(fd, refresh_once);
	else if (result == 0 && level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_SNDBUFFORCE))
		send_buffer_changed(fd);
	else if (result == 0 && level == SOL_SOCKET && option == SO_SELECT_ERR_QUEUE && bytes >= sizeof(int))
		exceptions_changed(fd, value);
	return result;
}

EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	if (level == SOL_SOCKET && option == SO_TXTIME && txtime_get(fd, value, bytes))
		return 0;
	return next_getsockopt(fd, level, option, value, bytes);
}

EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int result = next_bind(fd, address, bytes);

	if (result == 0)
		socket_changed(fd, flow_refresh_await);
	return result;
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int result = next_connect(fd, address, bytes);

	if (result == 0)
		socket_changed(fd, flow_refresh_await);
	return result;
}

/* A send that waits for space must not wait on. */
static void shut_down(int fd)
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	/* Before the wake-up; pairs with the load in space_await(). */
	atomic_store_explicit(&flow->write_shut_down, true, memory_order_seq_cst);
	space_notify(flow);
	flow_put(flow);
}

EXPORT int shutdown(int fd, int how)
{
	int result = next_shutdown(fd, how), saved = errno;

	/* The kernel shuts an unconnected socket down as well, and returns ENOTCONN. */
	if ((result == 0 || saved == ENOTCONN) && (how == SHUT_WR || how == SHUT_RDWR))
		shut_down(fd);
	errno = saved;
	return result;
}
