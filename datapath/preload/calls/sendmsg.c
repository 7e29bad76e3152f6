/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sendmsg and sendmmsg: first stop of a timed datagram. It goes into the ring (send/send.h), and every other
 * to the kernel untouched.
 */
#include "epoll_members.h"
#include "export.h"
#include "flow_end.h"
#include "inbox_open.h"
#include "kernel.h"
#include "liveness.h"
#include "message.h"
#include "next.h"
#include "send.h"

#include <errno.h>
#include <string.h>

struct search {
	uint64_t cookie;
	struct flow *flow; /* acquired */
};

static bool find_by_cookie(int fd, struct flow *flow, void *context)
{
	struct search *search = context;

	(void)fd;
	if (search->flow || flow->cookie != search->cookie)
		return flow_release(flow);
	search->flow = flow;
	return false;
}

/* Enters the flow of another descriptor of the socket for `fd`, which was copied before SO_TXTIME, or came
 * back to this process. */
static struct flow *flow_share_copy(uint64_t cookie, int fd)
{
	struct search search = {.cookie = cookie};

	if (!cookie || !flows_any())
		return NULL;
	flow_each(find_by_cookie, &search);
	if (search.flow && flow_share(search.flow, fd) == 0 && !search.flow->left_to_kernel)
		epoll_members_catch_up(search.flow, fd);
	return search.flow;
}

/*
 * Creates a flow for a descriptor through which a timed message is sent for the first time: the socket came
 * from another process, by exec or SCM_RIGHTS. ktsnd knows whether that one set SO_TXTIME, and is asked once
 * per descriptor (route.h). In a pod with ktsnd the message waits for the reply, because the kernel would
 * send it at once. NULL for messages without a time.
 */
static struct flow *flow_create_inherited(int fd, const struct msghdr *message)
{
	struct session *session;
	struct socket_kind kind;
	int64_t txtime_ns;
	uint64_t cookie;
	struct flow *flow;

	if (!message->msg_control || message_txtime(message, &txtime_ns) != 1 || !socket_kind_read(fd, &kind))
		return NULL;
	cookie = socket_cookie(fd);
	flow = flow_share_copy(cookie, fd);
	if (flow)
		return flow;
	flow = flow_create();
	if (!flow)
		return NULL;
	flow->kind = kind;
	flow->cookie = cookie;
	datagram_options_read(&flow->options, fd);
	flow->left_to_kernel = session_get(&session) == -ENOTCONN;
	flow->adoption_pending = !flow->left_to_kernel;
	if (flow_share(flow, fd) != -EEXIST)
		return flow;
	/* Another thread sends its first message at the same time. */
	flow_put(flow);
	return flow_acquire(fd);
}

/* Handles descriptors that a control message passes. Its length may exceed the rest of the buffer. */
static void descriptors_shared(const struct cmsghdr *cmsg, size_t room_bytes)
{
	size_t bytes = cmsg->cmsg_len < room_bytes ? cmsg->cmsg_len : room_bytes;

	for (size_t at = CMSG_LEN(0); at + sizeof(int) <= bytes; at += sizeof(int)) {
		int fd;

		memcpy(&fd, (const char *)cmsg + at, sizeof(fd));
		inbox_fd_shared(fd);
	}
}

/* Sockets that are passed to other processes may read only the kernel's queue, which matters in a process
 * with receive rings. */
static void passed_note(const struct msghdr *message)
{
	struct msghdr control = {.msg_control = message->msg_control,
				 .msg_controllen = (uint32_t)message->msg_controllen};

	if (!message->msg_control || !inboxes_wanted())
		return;
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&control); cmsg; cmsg = CMSG_NXTHDR(&control, cmsg)) {
		size_t before = (size_t)((char *)cmsg - (char *)control.msg_control);

		if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
			descriptors_shared(cmsg, control.msg_controllen - before);
	}
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct flow *flow = flow_acquire(fd);
	long sent = SEND_NOT_TIMED;

	passed_note(message);
	if (!flow)
		flow = flow_create_inherited(fd, message);
	if (flow) {
		if (!flow->left_to_kernel)
			sent = send_timed(flow, fd, message, flags);
		flow_put(flow);
	}
	return sent == SEND_NOT_TIMED ? next_sendmsg(fd, message, flags) : errno_return(sent);
}

enum { MESSAGES_MAX = 1024 /* UIO_MAXIOV: the most that the kernel takes in one call */ };

/* Messages are sent one by one, as the kernel does: only an error of the first one is returned. */
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

/* Without a flow, the first timed message decides. */
static struct flow *flow_of_any(int fd, const struct mmsghdr *messages, unsigned int count)
{
	struct flow *flow = flow_acquire(fd);

	for (unsigned int i = 0; !flow && i < count && i < MESSAGES_MAX; i++)
		flow = flow_create_inherited(fd, &messages[i].msg_hdr);
	return flow;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	struct flow *flow = flow_of_any(fd, messages, count);
	bool captured = flow && !flow->left_to_kernel;

	for (unsigned int i = 0; i < count && i < MESSAGES_MAX; i++)
		passed_note(&messages[i].msg_hdr);
	if (flow)
		flow_put(flow);
	return captured ? sendmmsg_each(fd, messages, count, flags)
			: next_sendmmsg(fd, messages, count, flags);
}
