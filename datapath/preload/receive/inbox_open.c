/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox_open.h"

#include "clock.h"
#include "epoll_record.h"
#include "handshake.h"
#include "inbox_members.h"
#include "inbox_options.h"
#include "internal_fds.h"
#include "liveness.h"
#include "memory.h"
#include "request.h"
#include "socket_kind.h"
#include "socket_options.h"

#include <fcntl.h>

enum {
	RING_FD = 0,
	CONTROL_FD = 1,
	/* Interval of requests to a ktsnd that did not answer. */
	AGAIN_MS = 100,
};

/* CLOCK_MONOTONIC: no requests until then, because ktsnd did not answer. */
static _Atomic int64_t asked_again_ms;

static size_t page_bytes(void)
{
	long bytes = sysconf(_SC_PAGESIZE);

	return bytes > 0 ? (size_t)bytes : 4096;
}

static int map(int fd, size_t bytes, int protection, size_t offset, void **memory)
{
	long address = kernel_call(SYS_mmap, NULL, bytes, protection, MAP_SHARED, fd, (long)offset);
	int err = mmap_error(address);

	*memory = err ? NULL : (void *)address;
	return err;
}

/* Maps the ring buffer in the layout of the kernel (kernel/bpf/ringbuf.c). The memory is unmapped with the
 * inbox. */
static int rings_map(struct inbox *inbox, int control_fd, uint64_t ring_bytes)
{
	const size_t page = page_bytes();
	struct ktsn_receive_control *control;
	int err;

	if (ring_bytes > UINT32_MAX)
		return -EPROTO;
	inbox->reader.bytes = ring_bytes;
	inbox->producer_bytes = page + 2 * (size_t)ring_bytes;
	err = map(inbox->ring_fd, page, PROT_READ | PROT_WRITE, 0, &inbox->consumer_page);
	if (!err)
		err = map(inbox->ring_fd, inbox->producer_bytes, PROT_READ, page, &inbox->producer_pages);
	if (!err)
		err = map(control_fd, page, PROT_READ | PROT_WRITE, 0, &inbox->control_page);
	if (err)
		return err;
	control = inbox->control_page;
	inbox->sleeping = (_Atomic uint32_t *)&control->sleeping;
	inbox->readers = (_Atomic uint32_t *)&control->readers;
	inbox->dropped = (const _Atomic uint64_t *)&control->dropped;
	inbox->kernel = (const _Atomic uint64_t *)&control->kernel;
	inbox->ended = (const _Atomic uint32_t *)&control->ended;
	return ktsn_receive_reader_init(&inbox->reader, inbox->consumer_page, inbox->producer_pages,
					(const uint8_t *)inbox->producer_pages + page, ring_bytes);
}

static void fd_close(int fd)
{
	if (fd >= 0)
		(void)kernel_call(SYS_close, fd);
}

/* Fills the inbox from ktsnd's reply. 0 or -errno. */
static int ring_take(struct inbox *inbox, const struct ktsn_app_reply *reply, const int fds[KTSN_CLIENT_FDS])
{
	int err = reply->status;

	if (!err && (fds[RING_FD] < 0 || fds[CONTROL_FD] < 0))
		err = -EPROTO;
	if (!err) {
		inbox->ring_fd = internal_fd_keep(fds[RING_FD]);
		err = rings_map(inbox, fds[CONTROL_FD], reply->ring_bytes);
	} else {
		fd_close(fds[RING_FD]);
	}
	fd_close(fds[CONTROL_FD]);
	return err;
}

static int ring_ask(struct inbox *inbox, int fd)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_RECEIVE_OPEN);
	struct session *session;
	struct ktsn_app_reply reply;
	int fds[KTSN_CLIENT_FDS];
	int err = session_get(&session);

	if (!err)
		err = session_request_fds(session, &request, fd, &reply, fds);
	if (!err) {
		inbox->session = session->number;
		inbox->connection = session->connections;
	}
	return err ? err : ring_take(inbox, &reply, fds);
}

static void nonblocking_read(struct inbox *inbox, int fd)
{
	long status = kernel_call(SYS_fcntl, fd, F_GETFL);

	atomic_store_explicit(&inbox->nonblocking, status >= 0 && status & O_NONBLOCK, memory_order_relaxed);
}

/* Notifies ktsnd that a socket has no ring any more, or never gets one. */
static void close_notify(struct session *session, int fd, enum ktsn_app_receive_close why)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_RECEIVE_CLOSE);
	struct ktsn_app_reply reply;

	request.flags = (uint8_t)why;
	if (session)
		(void)session_request(session, &request, fd, &reply);
}

void inbox_leave(struct inbox *inbox, int fd, enum ktsn_app_receive_close why)
{
	inbox_stop(inbox);
	if (!atomic_exchange_explicit(&inbox->leaving, true, memory_order_relaxed))
		close_notify(session_existing(), fd, why);
}

/* Returns it acquired and entered, or NULL with *err: 0 when another thread has entered one meanwhile. */
static struct inbox *inbox_open(int fd, int family, uint64_t cookie, uint32_t wants, int *err)
{
	struct inbox *inbox = inbox_create();

	*err = -ENOMEM;
	if (!inbox)
		return NULL;
	inbox->family = family;
	inbox->cookie = cookie;
	atomic_store_explicit(&inbox->wants, wants, memory_order_relaxed);
	*err = ring_ask(inbox, fd);
	if (!*err) {
		nonblocking_read(inbox, fd);
		/* Earlier datagrams are in the kernel's queue and not counted. */
		atomic_store_explicit(&inbox->kernel_seen,
				      atomic_load_explicit(inbox->kernel, memory_order_relaxed) - 1,
				      memory_order_relaxed);
		if (inbox_enter(inbox, fd)) {
			inbox_start(inbox);
			/* Another thread may have made an io_uring meanwhile: it sets the mark, then searches
			 * the table. */
			if (epoll_unseen_ordered())
				inbox_leave(inbox, fd, KTSN_APP_RECEIVE_CLOSE_IO_URING);
			return inbox;
		}
	}
	inbox_put(inbox);
	return NULL;
}

/* Returns whether the answer may change later. */
static bool is_premature(int err)
{
	return request_premature(err) || err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

/* The pod's status shows why a UDP socket has no ring. */
static void refuse_and_notify(int fd, enum ktsn_app_receive_close why)
{
	struct session *session;

	inbox_refuse(fd);
	if (session_get(&session) == 0)
		close_notify(session, fd, why);
}

static struct inbox *inbox_look(int fd)
{
	struct socket_kind kind;
	struct inbox *inbox;
	uint32_t wants;
	uint64_t cookie;
	bool looked;
	int err;

	/* First, so that a ktsnd that is away costs no system calls. */
	if (monotonic_ms() < atomic_load_explicit(&asked_again_ms, memory_order_relaxed))
		return NULL;
	if (!socket_kind_read(fd, &kind) || kind.domain == AF_PACKET) {
		inbox_refuse(fd);
		return NULL;
	}
	/* A set that waits for the socket would not be woken by a ring. */
	if (epoll_unseen()) {
		refuse_and_notify(fd, KTSN_APP_RECEIVE_CLOSE_IO_URING);
		return NULL;
	}
	if (!inbox_options_read(fd, kind.domain, &wants)) {
		refuse_and_notify(fd, KTSN_APP_RECEIVE_CLOSE_OPTION);
		return NULL;
	}
	if (!socket_is_bound(fd))
		return NULL;
	cookie = socket_cookie(fd);
	inbox = inbox_find(cookie);
	if (inbox) {
		(void)inbox_enter(inbox, fd);
		return inbox;
	}
	inbox = inbox_open(fd, kind.domain, cookie, wants, &err);
	if (inbox)
		inbox_members_catch_up(inbox, fd);
	else if (is_premature(err))
		atomic_store_explicit(&asked_again_ms, monotonic_ms() + AGAIN_MS, memory_order_relaxed);
	else if (err)
		inbox_refuse(fd);
	else
		inbox = inbox_acquire(fd, &looked);
	return inbox;
}

/* Returns whether the ring gets no more datagrams, and all were read. */
static bool is_over(const struct inbox *inbox)
{
	return (atomic_load_explicit(&inbox->leaving, memory_order_relaxed) || inbox_ended(inbox)) &&
	       !inbox_has(inbox);
}

struct inbox *inbox_of(int fd)
{
	struct inbox *inbox;
	bool looked;

	if (!inboxes_wanted())
		return NULL;
	inbox = inbox_acquire(fd, &looked);
	if (inbox && is_over(inbox)) {
		looked = atomic_load_explicit(&inbox->leaving, memory_order_relaxed);
		inbox_stop(inbox);
		inbox_expel(inbox, looked);
		inbox_put(inbox);
		inbox = NULL;
	}
	return inbox || looked ? inbox : inbox_look(fd);
}

void inboxes_leave(enum ktsn_app_receive_close why)
{
	if (!inboxes_wanted())
		return;
	for (int fd = 0; fd < INBOX_DESCRIPTORS; fd++) {
		bool looked;
		struct inbox *inbox = inbox_acquire(fd, &looked);

		if (!inbox)
			continue;
		inbox_leave(inbox, fd, why);
		inbox_put(inbox);
	}
}

/* Handles the last descriptor of the socket, which is about to be closed. */
static void inbox_end(struct inbox *inbox)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_RECEIVE_CLOSE);
	struct session *session = session_existing();
	struct ktsn_app_reply reply;

	inbox_stop(inbox);
	if (!session || atomic_exchange_explicit(&inbox->leaving, true, memory_order_relaxed))
		return;
	ktsn_app_cookie_put(&request, inbox->cookie);
	(void)session_request(session, &request, -1, &reply);
}

void inbox_fd_shared(int fd)
{
	struct socket_kind kind;
	struct inbox *inbox;
	bool looked;

	if (!socket_kind_read(fd, &kind) || kind.domain == AF_PACKET)
		return;
	inbox = inbox_acquire(fd, &looked);
	if (inbox) {
		inbox_leave(inbox, fd, KTSN_APP_RECEIVE_CLOSE_SHARED);
		inbox_put(inbox);
		return;
	}
	refuse_and_notify(fd, KTSN_APP_RECEIVE_CLOSE_SHARED);
}

void inbox_renew(struct inbox *inbox)
{
	int64_t now_ms = monotonic_ms();
	struct session *session;

	if (now_ms - atomic_load_explicit(&inbox->renewed_ms, memory_order_relaxed) < AGAIN_MS ||
	    inbox_has(inbox))
		return;
	atomic_store_explicit(&inbox->renewed_ms, now_ms, memory_order_relaxed);
	if (session_get(&session) != 0 ||
	    (session->number == inbox->session && session->connections == inbox->connection))
		return;
	/* The new ktsnd may refuse, or not answer: nothing may come into a ring that nobody reads.
	 * Datagrams in the ring are read first, and then the next call gets here. */
	inbox_stop(inbox);
	if (!inbox_has(inbox))
		inbox_expel(inbox, false);
}

void inbox_fd_gone(int fd)
{
	const struct session *session = session_existing();
	struct inbox *inbox;
	bool last = false;

	if (!inboxes_wanted())
		return;
	inbox = inbox_remove(fd, &last);
	if (!inbox)
		return;
	inbox_members_fd_gone(inbox, fd);
	/* Only the process that requested it, not its child. */
	if (last && session && session->number == inbox->session)
		inbox_end(inbox);
	inbox_put(inbox);
}

void inbox_fd_lost(struct inbox *inbox, int fd)
{
	struct inbox *removed;
	bool last = false;

	if (inbox_at(fd) != inbox)
		return;
	removed = inbox_remove(fd, &last);
	if (!removed)
		return;
	inbox_members_fd_gone(removed, fd);
	if (last)
		inbox_stop(removed);
	inbox_put(removed);
}

void inbox_fd_copied(int from, int to)
{
	struct inbox *inbox;
	bool looked;

	if (!inboxes_wanted())
		return;
	inbox = inbox_acquire(from, &looked);
	if (!inbox)
		return;
	(void)inbox_enter(inbox, to);
	inbox_put(inbox);
}
