/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libktsn.so: the functions it stands in front of. First stop of a packet's way.
 *
 * A socket becomes libktsn's when it asks for SO_TXTIME where ktsnd is meant to be (session.h), be it away; from then on
 * its datagrams that carry SCM_TXTIME go into the ring, and all else goes to the kernel untouched. Elsewhere, and
 * for every other socket, each function here is the next one plus two loads. No thread, no output, no
 * signal handler.
 */
#include "cork.h"
#include "descriptors.h"
#include "epoll_sets.h"
#include "flow_table.h"
#include "message.h"
#include "next.h"
#include "options.h"
#include "patience.h"
#include "registration.h"
#include "send.h"
#include "session.h"

#include <limits.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif
#ifndef SO_SELECT_ERR_QUEUE
#define SO_SELECT_ERR_QUEUE 45
#endif

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_CORK
#define UDP_CORK 1
#endif
#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif
#ifndef SO_NO_CHECK
#define SO_NO_CHECK 11
#endif

#define EXPORT __attribute__((visibility("default")))

static long errno_return(long result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

/* What the kernel would check before the privilege (net/core/sock.c); other refusals stand. */
static int txtime_read(const void *value, socklen_t bytes, struct sock_txtime *txtime, enum ktsn_clock *clock)
{
	if (bytes != sizeof(*txtime) || !value)
		return -EINVAL;
	memcpy(txtime, value, sizeof(*txtime));
	if (txtime->flags & ~(uint32_t)SOF_TXTIME_FLAGS_MASK)
		return -EINVAL;
	return flow_clock_of(txtime->clockid, clock);
}

/* Asking for the same once more changes nothing, and takes nothing from what waits. */
static bool asked_before(int fd, const struct sock_txtime *txtime)
{
	struct flow *flow = flow_acquire(fd);
	bool same;

	if (!flow)
		return false;
	same = !flow->left_to_kernel && !flow->stranger && !flow->refused &&
	       flow->txtime_clockid == txtime->clockid && flow->txtime_flags == txtime->flags;
	flow_put(flow);
	return same;
}

/* The same for all descriptors of a socket, in all processes. */
static uint64_t socket_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes);
	return cookie;
}

/* As a socket that may block waits for ktsnd: one that asks for SO_TXTIME may be passed on before it sends anything, and
 * then ktsnd should know of it. */
static int session_await(int fd, struct session **session)
{
	int64_t until_ms = patience_until_ms(fd, 0);
	int err;

	do
		err = session_get(session);
	while (err == -ETIMEDOUT && patience_wait(until_ms) == 0);
	return err;
}

static void refresh_await(struct flow *flow, int fd)
{
	int64_t until_ms = patience_until_ms(fd, 0);

	while (flow_refresh(flow, fd) == -ETIMEDOUT && patience_wait(until_ms) == 0)
		;
}

/* What becomes of a socket that asks, by what session_get() said. */
static struct flow *flow_make(const struct sock_txtime *txtime, enum ktsn_clock clock,
			      struct socket_kind kind, int session_err)
{
	struct flow *flow = flow_create();

	if (!flow)
		return NULL;
	flow->left_to_kernel = session_err == -ENOTCONN;
	flow->refused = session_err && session_err != -ENOTCONN && session_err != -ETIMEDOUT;
	flow->txtime_clockid = txtime->clockid;
	flow->txtime_flags = txtime->flags;
	flow->clock = clock;
	flow->kind = kind;
	return flow;
}

/*
 * From here on its timed messages go into the ring, or nowhere. Where ktsnd is there and has not answered, that is 0
 * all the same: the first message waits for the answer. Where it said no, its reason is the application's.
 */
static int flow_enter(struct flow *flow, int fd, int session_err)
{
	int err = flow_share(flow, fd);

	if (err)
		return err;
	/* Bound or connected before it asked for SO_TXTIME: register now, not at the first send. */
	if (!session_err && socket_is_bound(fd))
		refresh_await(flow, fd);
	epoll_sets_join(flow, fd);
	return flow->refused ? session_err : 0;
}

/*
 * The kernel is asked first; where it lacks SO_TXTIME, or wants a privilege for this clock, ktsnd makes
 * up for it. Its answer stands only where no ktsnd is meant to be. Returns what the application is told: 0 or -errno.
 */
static int txtime_set(int fd, const void *value, socklen_t bytes)
{
	int kernel_err = next_setsockopt(fd, SOL_SOCKET, SO_TXTIME, value, bytes) ? -errno : 0;
	struct session *session;
	struct sock_txtime txtime;
	enum ktsn_clock clock;
	struct socket_kind kind;
	struct flow *flow;
	int session_err, err;

	if (kernel_err && kernel_err != -EPERM && kernel_err != -ENOPROTOOPT)
		return kernel_err;
	if (txtime_read(value, bytes, &txtime, &clock) || !socket_kind_read(fd, &kind))
		return kernel_err;
	if (asked_before(fd, &txtime))
		return 0;
	descriptor_gone(fd); /* one that asks again may ask for another clock */
	session_err = session_await(fd, &session);
	flow = flow_make(&txtime, clock, kind, session_err);
	if (!flow)
		return session_err == -ENOTCONN ? kernel_err : -ENOMEM;
	flow->kernel_knows = kernel_err == 0;
	flow->cookie = socket_cookie(fd);
	options_read(&flow->options, fd);
	if (flow->left_to_kernel)
		(void)flow_share(flow, fd);
	err = flow->left_to_kernel ? kernel_err : flow_enter(flow, fd, session_err);
	flow_put(flow);
	return err;
}

struct search {
	uint64_t cookie;
	struct flow *found; /* acquired */
};

static bool find_by_cookie(int fd, struct flow *flow, void *context)
{
	struct search *search = context;

	(void)fd;
	if (search->found || flow->cookie != search->cookie)
		return flow_release(flow);
	search->found = flow;
	return false;
}

/* A copy that was made before the socket asked for SO_TXTIME by another descriptor, or that came back to its process. */
static struct flow *flow_of_copy(uint64_t cookie, int fd)
{
	struct search search = {.cookie = cookie};

	if (!cookie || !flows_any())
		return NULL;
	flow_each(find_by_cookie, &search);
	if (search.found && flow_share(search.found, fd) == 0 && !search.found->left_to_kernel)
		epoll_sets_join(search.found, fd);
	return search.found;
}

/*
 * A timed message through a descriptor of which nothing is known: the socket came from another process, by
 * exec or SCM_RIGHTS. ktsnd knows whether it asked for SO_TXTIME there. Asked once a descriptor, and where ktsnd is
 * meant to be, the message waits for the answer (send.c): the kernel may know of the transmit time, and sends at once.
 */
static struct flow *flow_of_stranger(int fd, const struct msghdr *message)
{
	struct session *session;
	struct socket_kind kind;
	int64_t txtime_ns;
	uint64_t cookie;
	struct flow *flow;

	if (!message->msg_control || message_txtime(message, &txtime_ns) != 1 || !socket_kind_read(fd, &kind))
		return NULL;
	cookie = socket_cookie(fd);
	flow = flow_of_copy(cookie, fd);
	if (flow)
		return flow;
	flow = flow_create();
	if (!flow)
		return NULL;
	flow->kind = kind;
	flow->cookie = cookie;
	options_read(&flow->options, fd);
	flow->left_to_kernel = session_get(&session) == -ENOTCONN;
	flow->stranger = !flow->left_to_kernel;
	(void)flow_share(flow, fd);
	return flow;
}

static struct flow *flow_of(int fd, const struct msghdr *message)
{
	struct flow *flow = flow_acquire(fd);

	return flow ? flow : flow_of_stranger(fd, message);
}

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = next_socket(domain, type, protocol);

	/* A descriptor that was closed behind our back comes back as another socket. */
	if (fd >= 0)
		descriptor_gone(fd);
	return fd;
}

/* After bind or connect the socket's addresses have changed, and with them where its messages go; after
 * setsockopt what their frames carry. */
static void socket_changed(int fd, void (*refresh)(struct flow *flow, int fd))
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	/* One whose connection was dissolved has lost the port that came with it. */
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

/* What ktsnd reads from the socket when it is registered. IP_TOS sets the priority as well. */
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

/* The kernel tells the address that was given, and not the interface. */
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
	waiting_exceptions_set(flow, exceptions != 0);
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

/* What was joined leaves when UDP_CORK is taken away, or set to nothing once more. */
static void options_changed(int fd, int level, int option)
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	options_read(&flow->options, fd);
	if (level == SOL_UDP && option == UDP_CORK &&
	    !atomic_load_explicit(&flow->options.corked, memory_order_relaxed))
		cork_end(flow, fd);
	flow_put(flow);
}

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	int result;

	if (level == SOL_SOCKET && option == SO_TXTIME)
		return (int)errno_return(txtime_set(fd, value, bytes));
	result = next_setsockopt(fd, level, option, value, bytes);
	if (result == 0 && level == IPPROTO_IP && option == IP_MULTICAST_IF)
		multicast_interface_note(fd, value, bytes);
	if (result == 0 && options_concern(level, option))
		options_changed(fd, level, option);
	if (result == 0 && is_registered_option(level, option))
		socket_changed(fd, refresh_once);
	else if (result == 0 && level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_SNDBUFFORCE))
		send_buffer_changed(fd);
	else if (result == 0 && level == SOL_SOCKET && option == SO_SELECT_ERR_QUEUE && bytes >= sizeof(int))
		exceptions_changed(fd, value);
	return result;
}

static void txtime_get(const struct flow *flow, void *value, socklen_t *bytes)
{
	struct sock_txtime txtime = {.clockid = flow->txtime_clockid, .flags = flow->txtime_flags};

	/* As the kernel does: cut to the room there is. */
	if (*bytes > sizeof(txtime))
		*bytes = sizeof(txtime);
	memcpy(value, &txtime, *bytes);
}

EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	struct flow *flow = NULL;
	bool ours;

	if (level == SOL_SOCKET && option == SO_TXTIME)
		flow = flow_acquire(fd);
	if (!flow)
		return next_getsockopt(fd, level, option, value, bytes);
	ours = !flow->left_to_kernel && !flow->stranger && !flow->kernel_knows && value && bytes;
	if (ours)
		txtime_get(flow, value, bytes);
	flow_put(flow);
	return ours ? 0 : next_getsockopt(fd, level, option, value, bytes);
}

EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int result = next_bind(fd, address, bytes);

	if (result == 0)
		socket_changed(fd, refresh_await);
	return result;
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	int result = next_connect(fd, address, bytes);

	if (result == 0)
		socket_changed(fd, refresh_await);
	return result;
}

/* An unconnected socket is shut down as well, and yet told ENOTCONN. Who waits for space must not wait on. */
static void shut_down(int fd)
{
	struct flow *flow = flow_acquire(fd);

	if (!flow)
		return;
	/* Before the wake-up; pairs with the look of waiting_space_await(). */
	atomic_store_explicit(&flow->write_shut_down, true, memory_order_seq_cst);
	waiting_space_wake(flow);
	flow_put(flow);
}

EXPORT int shutdown(int fd, int how)
{
	int result = next_shutdown(fd, how), saved = errno;

	if ((result == 0 || saved == ENOTCONN) && (how == SHUT_WR || how == SHUT_RDWR))
		shut_down(fd);
	errno = saved;
	return result;
}

/* The child's reports are those of its own messages: its alarm is another. */
static bool wakes_inherited_drop(int fd, struct flow *flow, void *context)
{
	(void)fd;
	(void)context;
	waiting_close(&flow->waiting);
	return flow_release(flow);
}

EXPORT pid_t fork(void)
{
	pid_t pid = next_fork();

	if (pid == 0) {
		flows_forked();
		flow_each(wakes_inherited_drop, NULL);
		session_forked();
	}
	return pid;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct flow *flow = flow_of(fd, message);
	long sent = SEND_NOT_TIMED;

	if (flow) {
		if (!flow->left_to_kernel)
			sent = send_timed(flow, fd, message, flags);
		flow_put(flow);
	}
	return sent == SEND_NOT_TIMED ? next_sendmsg(fd, message, flags) : errno_return(sent);
}

enum { MESSAGES_MAX = 1024 /* UIO_MAXIOV: what the kernel takes in one call */ };

/* One by one, as the kernel does: an error counts only if it is the first's. */
static int sendmmsg_each(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	unsigned int sent;

	if (count > MESSAGES_MAX)
		count = MESSAGES_MAX;
	for (sent = 0; sent < count; sent++) {
		ssize_t bytes = sendmsg(fd, &messages[sent].msg_hdr, flags);

		if (bytes < 0)
			break;
		messages[sent].msg_len = (unsigned int)bytes;
	}
	return sent || !count ? (int)sent : -1;
}

/* The first that is timed tells of a stranger. */
static struct flow *flow_of_any(int fd, const struct mmsghdr *messages, unsigned int count)
{
	struct flow *flow = flow_acquire(fd);

	for (unsigned int i = 0; !flow && i < count && i < MESSAGES_MAX; i++)
		flow = flow_of_stranger(fd, &messages[i].msg_hdr);
	return flow;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	struct flow *flow = flow_of_any(fd, messages, count);
	bool captured = flow && !flow->left_to_kernel;

	if (flow)
		flow_put(flow);
	return captured ? sendmmsg_each(fd, messages, count, flags)
			: next_sendmmsg(fd, messages, count, flags);
}
