/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "handshake.h"
#include "lock.h"

#include <sys/mman.h>

/*
 * Sessions are never freed: a thread may still hold one while another connects anew (after fork there is
 * no telling). A process gets a new one per fork generation, so a handful is plenty.
 */
enum { SESSIONS_MAX = 64 };

static struct session sessions[SESSIONS_MAX];
static _Atomic(struct session *) current;
static uint32_t session_count;
static struct lock connect_lock;
static struct lock request_lock;

/*
 * A page that the kernel clears in a child after fork (MADV_WIPEONFORK, Linux 4.14): its first word is 1
 * in the process that made the session and 0 in its children.
 */
static _Atomic uint32_t *owner_mark;

static bool inherited(void)
{
	return owner_mark && atomic_load_explicit(owner_mark, memory_order_relaxed) == 0;
}

static int owner_mark_set(void)
{
	long address;

	if (!owner_mark) {
		address = kernel_call(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
		if (address < 0 && address > -4096)
			return (int)address;
		(void)kernel_call(SYS_madvise, address, 4096, MADV_WIPEONFORK);
		owner_mark = (_Atomic uint32_t *)address;
	}
	atomic_store_explicit(owner_mark, 1, memory_order_relaxed);
	return 0;
}

/* In a child: the parent's session stays the parent's. Its descriptors are copies, to be closed here. */
static void inherited_drop(void)
{
	struct session *session = atomic_load_explicit(&current, memory_order_relaxed);

	lock_reset(&request_lock);
	if (!session)
		return;
	(void)kernel_call(SYS_close, session->socket_fd);
	(void)kernel_call(SYS_close, session->doorbell_fd);
	(void)kernel_call(SYS_munmap, session->ring.header, session->ring.header->total_bytes);
	atomic_store_explicit(&current, NULL, memory_order_relaxed);
}

static int connect_new(struct session **session)
{
	struct session *fresh = &sessions[session_count];
	int err;

	if (session_count == SESSIONS_MAX)
		return -EMFILE;
	err = owner_mark_set();
	if (!err)
		err = handshake(fresh);
	if (err)
		return err;
	fresh->number = ++session_count;
	atomic_store_explicit(&current, fresh, memory_order_release);
	*session = fresh;
	return 0;
}

struct session *session_existing(void)
{
	if (inherited())
		return NULL;
	return atomic_load_explicit(&current, memory_order_acquire);
}

int session_get(struct session **session)
{
	int err = 0;

	*session = session_existing();
	if (*session)
		return 0;
	if (inherited())
		lock_reset(&connect_lock);
	lock_take(&connect_lock);
	if (inherited())
		inherited_drop();
	*session = session_existing();
	if (!*session)
		err = connect_new(session);
	lock_give(&connect_lock);
	return err;
}

int session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
		    struct ktsn_app_reply *reply)
{
	int err;

	lock_take(&request_lock);
	err = handshake_exchange(session->socket_fd, request, fd_to_pass, reply, NULL);
	lock_give(&request_lock);
	/* ktsnd is gone or silent: to the application, its network is down. */
	return err ? -ENETDOWN : 0;
}

void session_doorbell_ring(struct session *session)
{
	uint64_t one = 1;

	(void)kernel_call(SYS_write, session->doorbell_fd, &one, sizeof(one));
}

bool session_owns_fd(int fd)
{
	struct session *session = session_existing();

	return session && (fd == session->socket_fd || fd == session->doorbell_fd);
}
