/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "process_owner.h"

#include <sys/socket.h>

_Atomic(struct session *) session_current;

struct session *session_existing(void)
{
	struct session *session;

	if (process_is_copy())
		return NULL;
	session = atomic_load_explicit(&session_current, memory_order_acquire);
	return session && !atomic_load_explicit(&session->refused, memory_order_relaxed) ? session : NULL;
}

/* Gives up the session after the application closed libktsn's descriptors by a system call: their numbers may
 * be other files now. */
static void descriptors_lost(struct session *session)
{
	atomic_store_explicit(&session->refused, true, memory_order_relaxed);
	atomic_store_explicit(&session->socket_fd, -1, memory_order_relaxed);
	session->doorbell_fd = session->ring_fd = -1;
}

bool session_is_lost(void)
{
	const struct session *session = session_existing();

	return session && atomic_load_explicit(&session->socket_fd, memory_order_relaxed) < 0;
}

bool session_alive(struct session *session)
{
	int fd = atomic_load_explicit(&session->socket_fd, memory_order_acquire);
	char byte;
	long peeked;

	if (fd < 0)
		return false;
	peeked = kernel_call(SYS_recvfrom, fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
	if (peeked == -EBADF || peeked == -ENOTSOCK)
		descriptors_lost(session);
	/* 0 is the end of the connection. A connection with nothing to read, or with a late reply, stands. */
	return peeked == -EAGAIN || peeked > 0;
}

void session_connection_drop(struct session *session)
{
	int fd = atomic_exchange_explicit(&session->socket_fd, -1, memory_order_acq_rel);

	if (fd >= 0)
		(void)kernel_call(SYS_close, fd);
	lock_take(&session->request_lock);
	session->unanswered.type = 0;
	lock_give(&session->request_lock);
}

void session_doorbell_ring(struct session *session)
{
	uint64_t count = 1;
	int fd = session->doorbell_fd;

	if (fd >= 0)
		(void)kernel_call(SYS_write, fd, &count, sizeof(count));
}
