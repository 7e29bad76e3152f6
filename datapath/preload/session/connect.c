/* SPDX-License-Identifier: Apache-2.0 */
#include "connect.h"

#include "clock.h"
#include "handshake.h"
#include "internal_fds.h"
#include "memory.h"
#include "process_owner.h"

/*
 * Sessions are never freed: a thread may still use one while another connects again. A process gets a new one
 * after fork, and when a restarted ktsnd refuses its ring, so that few are needed.
 */
enum { SESSIONS_MAX = 64 };

static struct session sessions[SESSIONS_MAX];
static uint32_t session_count;
static struct lock connect_lock;
/* The connection on which HELLO was sent and not answered yet; -1: none. Changed under connect_lock. */
static _Atomic int greeted_fd = -1;
static int64_t greeted_until_ms;
/* This process or a parent has seen ktsnd's socket or a pod's folder. */
static bool in_pod;
/* Count of session_unanswered_count() before there was a ring. */
static _Atomic uint64_t unanswered_before;

static void fds_close(struct session *session)
{
	int fd = atomic_exchange_explicit(&session->socket_fd, -1, memory_order_acq_rel);

	if (fd >= 0)
		(void)kernel_call(SYS_close, fd);
	(void)kernel_call(SYS_close, session->doorbell_fd);
	(void)kernel_call(SYS_close, session->ring_fd);
}

/* Drops what a child has inherited: copies of descriptors, and the mapping of the parent's ring. */
static void inherited_drop(void)
{
	struct session *session = atomic_load_explicit(&session_current, memory_order_relaxed);
	int greeted = atomic_exchange_explicit(&greeted_fd, -1, memory_order_relaxed);

	if (greeted >= 0)
		(void)kernel_call(SYS_close, greeted);
	if (!session)
		return;
	fds_close(session);
	memory_unmap(session->ring.header, session->ring_bytes);
	atomic_store_explicit(&session_current, NULL, memory_order_relaxed);
}

void session_forked(void)
{
	lock_reset(&connect_lock);
	atomic_store_explicit(&unanswered_before, 0, memory_order_relaxed);
	inherited_drop();
	if (process_is_copy())
		(void)process_owner_set();
}

/* Sends HELLO, unless only the reply is missing. */
static int hello_ensure(void)
{
	int fd = atomic_load_explicit(&greeted_fd, memory_order_relaxed), err;

	if (fd >= 0)
		return 0;
	err = handshake_begin(&fd);
	if (err)
		return err;
	greeted_until_ms = monotonic_ms() + KTSN_APP_TIMEOUT_MS;
	atomic_store_explicit(&greeted_fd, fd, memory_order_relaxed);
	return 0;
}

static int hello_reply_take(struct session *fresh)
{
	int fd = atomic_load_explicit(&greeted_fd, memory_order_relaxed);
	int err = handshake_end(fresh, fd, greeted_until_ms);

	if (err != -ETIMEDOUT)
		atomic_store_explicit(&greeted_fd, -1, memory_order_relaxed);
	return err;
}

/* Maps errors of a connection that ended before the reply: ktsnd ended, or the pod has too many connections.
 */
static int connect_error(int err)
{
	return err == -ECONNRESET || err == -EPIPE || err == -EBADF || err == -ENOTSOCK ? -ETIMEDOUT : err;
}

static int connect_new(struct session **session)
{
	struct session *fresh = &sessions[session_count];
	int err;

	if (session_count == SESSIONS_MAX)
		return -EMFILE;
	err = process_owner_set();
	if (!err)
		err = hello_ensure();
	if (err == -ENOTCONN)
		return in_pod ? -ETIMEDOUT : err;
	in_pod = true;
	if (!err)
		err = hello_reply_take(fresh);
	if (err)
		return connect_error(err);
	atomic_fetch_add_explicit(&fresh->ring.header->unanswered,
				  atomic_exchange_explicit(&unanswered_before, 0, memory_order_relaxed),
				  memory_order_relaxed);
	fresh->number = ++session_count;
	atomic_store_explicit(&session_current, fresh, memory_order_release);
	*session = fresh;
	return 0;
}

int session_connect(struct session **session)
{
	int err = 0;

	if (process_is_copy())
		lock_reset(&connect_lock);
	lock_take(&connect_lock);
	if (process_is_copy())
		inherited_drop();
	*session = session_existing();
	if (!*session)
		err = connect_new(session);
	lock_give(&connect_lock);
	return err;
}

void session_unanswered_count(void)
{
	struct session *session = session_existing();

	atomic_fetch_add_explicit(session ? &session->ring.header->unanswered : &unanswered_before, 1,
				  memory_order_relaxed);
}

int session_next_internal_fd(int fd)
{
	struct session *session = session_existing();
	int internal[5], next = -1;

	internal[0] = session ? atomic_load_explicit(&session->socket_fd, memory_order_relaxed) : -1;
	internal[1] = session ? session->doorbell_fd : -1;
	internal[2] = session ? session->ring_fd : -1;
	internal[3] = internal_fd_next(fd);
	internal[4] = process_is_copy() ? -1 : atomic_load_explicit(&greeted_fd, memory_order_relaxed);
	for (int i = 0; i < 5; i++)
		if (internal[i] >= fd && (next < 0 || internal[i] < next))
			next = internal[i];
	return next;
}

bool session_fd_is_internal(int fd)
{
	struct session *session;

	if (fd < 0)
		return false;
	if (internal_fd_is(fd))
		return true;
	if (fd == atomic_load_explicit(&greeted_fd, memory_order_relaxed) && !process_is_copy())
		return true;
	session = session_existing();
	return session && (fd == atomic_load_explicit(&session->socket_fd, memory_order_relaxed) ||
			   fd == session->doorbell_fd || fd == session->ring_fd);
}
