/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "handshake.h"
#include "own_fds.h"
#include "patience.h"
#include "restore.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

/*
 * Sessions are never freed: a thread may still hold one while another connects anew. A process gets a
 * new one after fork, and when a restarted ktsnd does not want its ring back; so a handful is plenty.
 */
enum {
	SESSIONS_MAX = 64,
	/* Without a sign of life for so long, the kernel is asked. */
	SIGN_NS = 10 * 1000 * 1000,
};

static struct session sessions[SESSIONS_MAX];
static _Atomic(struct session *) current;
static uint32_t session_count;
static struct lock connect_lock;
static _Atomic int owner_pid;
/* Greeted, and not answered yet; -1: nobody is. Changed under connect_lock. */
static _Atomic int greeted_fd = -1;
static int64_t greeted_until_ms;
/* This is a process on the network: there was ktsnd's socket once, or its place in a pod, for it or one from which it comes. */
static bool meant;
/* Counted before there was a ring to count in. */
static _Atomic uint64_t unanswered_before;

/*
 * A page that the kernel clears in a child after fork (MADV_WIPEONFORK, Linux 4.14): its first word is 1
 * in the process that made the session and 0 in its children. For children that were not made by the
 * fork() that libktsn stands in front of.
 */
static _Atomic(_Atomic uint32_t *) owner_mark;

static bool inherited(void)
{
	_Atomic uint32_t *mark = atomic_load_explicit(&owner_mark, memory_order_acquire);

	return mark && atomic_load_explicit(mark, memory_order_relaxed) == 0;
}

/* Marked before it is published: until then every thread must take this process for the owner. */
static int owner_mark_create(void)
{
	_Atomic uint32_t *mark;
	long address = kernel_call(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0L);

	if (address < 0 && address > -4096)
		return (int)address;
	(void)kernel_call(SYS_madvise, address, 4096, MADV_WIPEONFORK);
	mark = (_Atomic uint32_t *)address;
	atomic_store_explicit(mark, 1, memory_order_relaxed);
	atomic_store_explicit(&owner_mark, mark, memory_order_release);
	return 0;
}

static int owner_mark_set(void)
{
	_Atomic uint32_t *mark = atomic_load_explicit(&owner_mark, memory_order_acquire);

	atomic_store_explicit(&owner_pid, (int)kernel_call(SYS_getpid), memory_order_relaxed);
	if (!mark)
		return owner_mark_create();
	atomic_store_explicit(mark, 1, memory_order_relaxed);
	return 0;
}

bool session_process_is_ours(void)
{
	int pid = atomic_load_explicit(&owner_pid, memory_order_relaxed);

	return pid == 0 || inherited() || pid == (int)kernel_call(SYS_getpid);
}

/* The descriptors are copies, the mapping is the parent's ring: neither is ours to use. */
static void inherited_drop(void)
{
	struct session *session = atomic_load_explicit(&current, memory_order_relaxed);
	int greeted = atomic_exchange_explicit(&greeted_fd, -1, memory_order_relaxed);

	if (greeted >= 0)
		(void)kernel_call(SYS_close, greeted);
	if (!session)
		return;
	session_close(session);
	(void)kernel_call(SYS_munmap, session->ring.header, session->ring_bytes);
	atomic_store_explicit(&current, NULL, memory_order_relaxed);
}

void session_forked(void)
{
	lock_reset(&connect_lock);
	atomic_store_explicit(&unanswered_before, 0, memory_order_relaxed);
	inherited_drop();
	if (inherited())
		(void)owner_mark_set();
}

/* Says HELLO, unless that is done and only the answer is missing. */
static int greet(void)
{
	int fd = atomic_load_explicit(&greeted_fd, memory_order_relaxed), err;

	if (fd >= 0)
		return 0;
	err = handshake_begin(&fd);
	if (err)
		return err;
	greeted_until_ms = handshake_now_ms() + KTSN_APP_TIMEOUT_MS;
	atomic_store_explicit(&greeted_fd, fd, memory_order_relaxed);
	return 0;
}

static int answer_take(struct session *fresh)
{
	int fd = atomic_load_explicit(&greeted_fd, memory_order_relaxed);
	int err = handshake_end(fresh, fd, greeted_until_ms);

	if (err != -ETIMEDOUT)
		atomic_store_explicit(&greeted_fd, -1, memory_order_relaxed);
	return err;
}

/* A connection that broke before it was answered: ktsnd ended, or the pod has as many as it may have. */
static int without_answer(int err)
{
	return err == -ECONNRESET || err == -EPIPE || err == -EBADF || err == -ENOTSOCK ? -ETIMEDOUT : err;
}

static int connect_new(struct session **session)
{
	struct session *fresh = &sessions[session_count];
	int err;

	if (session_count == SESSIONS_MAX)
		return -EMFILE;
	err = owner_mark_set();
	if (!err)
		err = greet();
	if (err == -ENOTCONN)
		return meant ? -ETIMEDOUT : err;
	meant = true;
	if (!err)
		err = answer_take(fresh);
	if (err)
		return without_answer(err);
	atomic_fetch_add_explicit(&fresh->ring.header->unanswered,
				  atomic_exchange_explicit(&unanswered_before, 0, memory_order_relaxed),
				  memory_order_relaxed);
	fresh->number = ++session_count;
	atomic_store_explicit(&current, fresh, memory_order_release);
	*session = fresh;
	return 0;
}

struct session *session_existing(void)
{
	struct session *session;

	if (inherited())
		return NULL;
	session = atomic_load_explicit(&current, memory_order_acquire);
	return session && !atomic_load_explicit(&session->refused, memory_order_relaxed) ? session : NULL;
}

/* Somebody closed our descriptors with a system call of his own: the numbers may be anyone's by now. */
static void descriptors_lost(struct session *session)
{
	atomic_store_explicit(&session->refused, true, memory_order_relaxed);
	atomic_store_explicit(&session->socket_fd, -1, memory_order_relaxed);
	session->doorbell_fd = session->ring_fd = -1;
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
	/* 0 is the end of the connection. Nothing to read is life, and so is a reply that came too late. */
	return peeked == -EAGAIN || peeked > 0;
}

static int session_new(struct session **session)
{
	int err = 0;

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

static int session_find(struct session **session)
{
	*session = session_existing();
	if (*session && (session_alive(*session) || (session_existing() && restore(*session) == 0)))
		return 0;
	/* One that does not want the ring has no other use for it, and gives a new one. */
	return *session && session_existing() ? -ETIMEDOUT : session_new(session);
}

int session_get(struct session **session)
{
	int err = session_find(session);

	if (err == -ETIMEDOUT)
		patience_note_silence();
	else if (err && err != -ENOTCONN)
		patience_note_answer();
	return err;
}

/* The number that ktsnd gave too late would be taken for good. Whether it hears of it is known with the next reply. */
static void flow_unwanted(struct session *session, int fd, const struct ktsn_app_reply *reply)
{
	const struct ktsn_app_request request = {
		.magic = KTSN_APP_MAGIC,
		.version = KTSN_APP_VERSION,
		.type = KTSN_APP_FLOW_CLOSE,
		.flow = reply->flow,
		.destination = KTSN_APP_NONE,
		.number = ++session->requests,
	};

	(void)handshake_send(fd, &request, -1);
}

/* A reply with another number answers a request that timed out before. */
static int reply_await(struct session *session, int fd, uint16_t number, int64_t until_ms,
		       struct ktsn_app_reply *reply)
{
	struct unanswered *unanswered = &session->unanswered;
	int err;

	for (;;) {
		err = handshake_receive(fd, reply, NULL, until_ms);
		if (!err && unanswered->type && reply->number == unanswered->number) {
			if (unanswered->opens && reply->status == 0)
				flow_unwanted(session, fd, reply);
			unanswered->type = 0;
		}
		if (err || reply->number == number)
			return err;
	}
}

/* What ends a flow is said in any case: nobody says it again. */
static int earlier_await(struct session *session, int fd, const struct ktsn_app_request *request)
{
	const struct unanswered *unanswered = &session->unanswered;
	struct ktsn_app_reply reply;

	if (!unanswered->type || request->type == KTSN_APP_FLOW_CLOSE)
		return 0;
	return reply_await(session, fd, unanswered->number, unanswered->until_ms, &reply);
}

static bool opens_flow(const struct ktsn_app_request *request)
{
	return (request->type == KTSN_APP_FLOW_OPEN || request->type == KTSN_APP_FLOW_ADOPT) &&
	       request->flow == KTSN_APP_NONE;
}

static int request_exchange(struct session *session, int fd, const struct ktsn_app_request *request,
			    int fd_to_pass, struct ktsn_app_reply *reply)
{
	int64_t until_ms = handshake_now_ms() + KTSN_APP_TIMEOUT_MS;
	int err = earlier_await(session, fd, request);
	struct ktsn_app_request numbered = *request;

	if (err)
		return err;
	numbered.number = ++session->requests;
	err = handshake_send(fd, &numbered, fd_to_pass);
	if (err)
		return err;
	err = reply_await(session, fd, numbered.number, until_ms, reply);
	if (err == -ETIMEDOUT && request->type != KTSN_APP_FLOW_CLOSE)
		session->unanswered = (struct unanswered){
			.type = request->type,
			.number = numbered.number,
			.opens = opens_flow(request),
			.until_ms = until_ms,
		};
	return err;
}

int session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
		    struct ktsn_app_reply *reply)
{
	int fd, err;

	lock_take(&session->request_lock);
	fd = atomic_load_explicit(&session->socket_fd, memory_order_acquire);
	err = fd < 0 ? -ETIMEDOUT : request_exchange(session, fd, request, fd_to_pass, reply);
	lock_give(&session->request_lock);
	if (err)
		patience_note_silence();
	else
		patience_note_answer();
	return err ? -ETIMEDOUT : 0;
}

void session_unanswered_count(void)
{
	struct session *session = session_existing();

	atomic_fetch_add_explicit(session ? &session->ring.header->unanswered : &unanswered_before, 1,
				  memory_order_relaxed);
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
	uint64_t one = 1;
	int fd = session->doorbell_fd;

	if (fd >= 0)
		(void)kernel_call(SYS_write, fd, &one, sizeof(one));
}

static int64_t coarse_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A ktsnd that lives moves the threshold of the doorbell, once a cycle of a periodic flow. Without that, the
 * kernel is asked now and then. */
static bool sign_of_life(struct session *session, enum ktsn_clock clock)
{
	int64_t threshold_ns =
		atomic_load_explicit(&session->ring.header->doorbell_before_ns[clock], memory_order_relaxed);
	int64_t now_ns = coarse_ns();

	if (threshold_ns == atomic_load_explicit(&session->doorbell_seen_ns[clock], memory_order_relaxed))
		return now_ns - atomic_load_explicit(&session->sign_ns, memory_order_relaxed) < SIGN_NS;
	atomic_store_explicit(&session->doorbell_seen_ns[clock], threshold_ns, memory_order_relaxed);
	atomic_store_explicit(&session->sign_ns, now_ns, memory_order_relaxed);
	return true;
}

void session_check(struct session *session, enum ktsn_clock clock, bool thoroughly)
{
	if (!thoroughly && sign_of_life(session, clock))
		return;
	if (session_alive(session))
		atomic_store_explicit(&session->sign_ns, coarse_ns(), memory_order_relaxed);
	else
		(void)restore(session);
}

int session_next_own_fd(int fd)
{
	struct session *session = session_existing();
	int own[5], next = -1;

	own[0] = session ? atomic_load_explicit(&session->socket_fd, memory_order_relaxed) : -1;
	own[1] = session ? session->doorbell_fd : -1;
	own[2] = session ? session->ring_fd : -1;
	own[3] = own_fd_next(fd);
	own[4] = inherited() ? -1 : atomic_load_explicit(&greeted_fd, memory_order_relaxed);
	for (int i = 0; i < 5; i++)
		if (own[i] >= fd && (next < 0 || own[i] < next))
			next = own[i];
	return next;
}

bool session_owns_fd(int fd)
{
	struct session *session;

	if (fd < 0)
		return false;
	if (own_fd_is(fd))
		return true;
	if (fd == atomic_load_explicit(&greeted_fd, memory_order_relaxed) && !inherited())
		return true;
	session = session_existing();
	return session && (fd == atomic_load_explicit(&session->socket_fd, memory_order_relaxed) ||
			   fd == session->doorbell_fd || fd == session->ring_fd);
}

void session_close(struct session *session)
{
	int fd = atomic_exchange_explicit(&session->socket_fd, -1, memory_order_acq_rel);

	if (fd >= 0)
		(void)kernel_call(SYS_close, fd);
	(void)kernel_call(SYS_close, session->doorbell_fd);
	(void)kernel_call(SYS_close, session->ring_fd);
}
