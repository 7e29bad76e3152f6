/* SPDX-License-Identifier: Apache-2.0 */
#include "relay.h"

#include "clock.h"
#include "requests.h"
#include "send.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	/* Frames that are read before the doorbell is rung. */
	BATCH = 32,
	/* How often waiting frames are tried again, because nothing notifies of replies to them. */
	RETRY_MS = 10,
	/* More frames than the tap's queue holds. */
	SOURCE_QUEUED_MAX = 1024,
};

#define HEARTBEAT_INTERVAL_NS INT64_C(20000000)
/* ktsnd's loop runs at least every 20 ms. */
#define ALIVE_NS INT64_C(40000000)

/* The source of an event; sessions have the numbers of their kinds. */
enum event_source {
	EVENT_TIMED = RELAY_TIMED,
	EVENT_UNTIMED = RELAY_UNTIMED,
	EVENT_SOURCE,
	EVENT_BACK,
	EVENT_SPACE,
	EVENT_SIGNAL,
	EVENTS
};

static int event_add(struct relay *relay, int fd, uint32_t events, enum event_source source)
{
	struct epoll_event event = {.events = events, .data.u32 = source};

	return epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void reading_set(struct relay *relay, bool reading)
{
	struct epoll_event event = {.events = reading ? EPOLLIN : 0, .data.u32 = EVENT_SOURCE};

	if (reading != relay->reading)
		(void)epoll_ctl(relay->epoll_fd, EPOLL_CTL_MOD, relay->source->fd, &event);
	relay->reading = reading;
}

static sigset_t ending_signals(void)
{
	sigset_t ending;

	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	return ending;
}

int relay_signals_block(void)
{
	const sigset_t ending = ending_signals();

	return sigprocmask(SIG_BLOCK, &ending, NULL) ? -errno : 0;
}

static int signal_fd_create(int *fd)
{
	const sigset_t ending = ending_signals();
	int err = relay_signals_block();

	if (err)
		return err;
	*fd = signalfd(-1, &ending, SFD_NONBLOCK | SFD_CLOEXEC);
	return *fd < 0 ? -errno : 0;
}

int relay_init(struct relay *relay)
{
	int err = signal_fd_create(&relay->signal_fd);

	for (int kind = 0; kind < RELAY_KINDS && !err; kind++)
		err = session_init(&relay->sessions[kind], &relay->setup, kind);
	if (err)
		return err;
	relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (relay->epoll_fd < 0)
		return -errno;
	relay->reading = true;
	relay->stale_left = SOURCE_QUEUED_MAX;
	err = event_add(relay, relay->source->fd, EPOLLIN, EVENT_SOURCE);
	if (!err && relay->source->back_fd >= 0)
		err = event_add(relay, relay->source->back_fd, EPOLLIN, EVENT_BACK);
	if (!err)
		err = event_add(relay, relay->signal_fd, EPOLLIN, EVENT_SIGNAL);
	/* Edge-triggered: it is writable most of the time. */
	if (!err)
		err = event_add(relay, relay->sessions[RELAY_TIMED].space_fd, EPOLLOUT | EPOLLET,
				EVENT_SPACE);
	return err;
}

/* ---- frames ---- */

static void backlog_changed(struct relay *relay)
{
	atomic_store_explicit(&relay->counters->backlog, relay->backlog.count, memory_order_relaxed);
	reading_set(relay, relay->all || relay->backlog.count == 0);
}

/* Sends, or drops, a frame. Returns false if it has to wait. */
static bool timed_send(struct relay *relay, const struct captured_frame *frame, int64_t now_ns)
{
	struct session *session = &relay->sessions[RELAY_TIMED];
	enum relay_drop reason;
	enum send_outcome outcome = frame_send(session, frame, now_ns, &reason);

	if (outcome == SEND_RING_FULL && space_request(session))
		outcome = frame_send(session, frame, now_ns, &reason);
	if (outcome == SEND_REFUSED)
		relay_drop(relay->counters, reason);
	return outcome == SEND_DONE || outcome == SEND_REFUSED;
}

static void backlog_send(struct relay *relay, int64_t now_ns)
{
	const struct captured_frame *frame = backlog_first(&relay->backlog);

	if (!frame)
		return;
	for (; frame && timed_send(relay, frame, now_ns); frame = backlog_first(&relay->backlog))
		backlog_pop(&relay->backlog);
	backlog_changed(relay);
}

/* Frames keep their order. */
static void timed_take(struct relay *relay, const struct captured_frame *frame, int64_t now_ns)
{
	if (relay->backlog.count == 0 && timed_send(relay, frame, now_ns))
		return;
	if (!backlog_push(&relay->backlog, frame))
		relay_drop(relay->counters, RELAY_DROP_BACKLOG_FULL);
	backlog_changed(relay);
}

/* Keeps the gates that ktsnd reports. They are valid until it reports others, also for the next relay. */
static void gated_note(struct relay *relay)
{
	const struct ktsn_ring_header *header = relay->sessions[RELAY_UNTIMED].ring.header;

	/* Pairs with the store in ring_tell() of ktsnd. 0: ktsnd has not written this ring yet. */
	if (header && atomic_load_explicit(&header->alive_ns, memory_order_acquire))
		atomic_store_explicit(&relay->counters->gated,
				      atomic_load_explicit(&header->gated, memory_order_relaxed),
				      memory_order_relaxed);
}

/* Returns whether the schedule closes the gate of the frame's priority at times, or that of a lower one: a
 * virtual machine sets the priority itself, and only ktsnd knows the highest one that it may use. */
static bool is_gated(const struct relay *relay, const struct captured_frame *frame)
{
	return atomic_load_explicit(&relay->counters->gated, memory_order_relaxed) &
	       ((UINT64_C(2) << frame->priority) - 1);
}

static bool bypassed(struct relay *relay, const struct captured_frame *frame)
{
	if (!bypass_send(&relay->bypass, frame))
		return false;
	relay_count(&relay->counters->bypassed, 1);
	return true;
}

/* Sends, bypasses or drops a frame. Returns false if it has to wait for a reply. */
static bool untimed_send(struct relay *relay, const struct captured_frame *frame, int64_t now_ns)
{
	struct session *session = &relay->sessions[RELAY_UNTIMED];
	enum relay_drop reason;
	enum send_outcome outcome = frame_send(session, frame, now_ns, &reason);

	if (outcome == SEND_NO_DAEMON && request_is_pending(session, now_ns))
		return false;
	if (outcome == SEND_NO_DAEMON && !is_gated(relay, frame) && bypassed(relay, frame))
		return true;
	if (outcome == SEND_RING_FULL)
		reason = RELAY_DROP_NO_ROOM;
	if (outcome == SEND_NO_DAEMON)
		reason = RELAY_DROP_NO_DAEMON;
	if (outcome != SEND_DONE)
		relay_drop(relay->counters, reason);
	return true;
}

static void held_send(struct relay *relay, int64_t now_ns)
{
	const struct captured_frame *frame = backlog_first(&relay->held);

	for (; frame && untimed_send(relay, frame, now_ns); frame = backlog_first(&relay->held))
		backlog_pop(&relay->held);
}

/* Frames keep their order. */
static void untimed_take(struct relay *relay, const struct captured_frame *frame, int64_t now_ns)
{
	if (!relay->all)
		relay_drop(relay->counters, RELAY_DROP_UNEXPECTED);
	else if (relay->stale_left)
		relay_drop(relay->counters, RELAY_DROP_STALE);
	else if (bypass_is_for(&relay->bypass, frame, now_ns) && bypassed(relay, frame))
		return;
	else if ((relay->held.count || !untimed_send(relay, frame, now_ns)) &&
		 !backlog_push(&relay->held, frame))
		relay_drop(relay->counters, RELAY_DROP_NO_DAEMON);
}

static void doorbells_ring(struct relay *relay)
{
	for (int kind = 0; kind < RELAY_KINDS; kind++)
		session_doorbell_ring(&relay->sessions[kind]);
}

/* No frame is stale any more when the queue was empty once, or as many frames were read as it holds. */
static void stale_note(struct relay *relay, int got)
{
	if (got < 0)
		relay->stale_left = 0;
	else if (relay->stale_left)
		relay->stale_left--;
}

static int source_serve(struct relay *relay, int64_t now_ns)
{
	struct captured_frame frame;
	int got = 0;

	gated_note(relay);
	for (int i = 0; i < BATCH && relay->reading && got >= 0; i++) {
		got = source_read(relay->source, relay->counters, &frame);
		if (got > 0 && frame.timed)
			timed_take(relay, &frame, now_ns);
		else if (got > 0)
			untimed_take(relay, &frame, now_ns);
		stale_note(relay, got);
	}
	return got < 0 && got != -EAGAIN ? got : 0;
}

/* ---- sessions ---- */

static bool is_used(const struct relay *relay, int kind)
{
	return kind == RELAY_TIMED || relay->all;
}

/* The kernel removes a closed connection from the epoll set. */
static void session_try(struct relay *relay, int kind, int64_t now_ns)
{
	struct session *session = &relay->sessions[kind];

	if (is_used(relay, kind) && session_reconnect(session, now_ns) &&
	    event_add(relay, session->joining.fd, EPOLLIN, (enum event_source)kind))
		session_disconnect(session);
	if (kind == RELAY_TIMED && relay->backlog.count)
		session_hurry(session, now_ns);
}

int relay_heartbeat_map(int fd, struct ktsn_capture_heartbeat **heartbeat)
{
	long page_bytes = sysconf(_SC_PAGESIZE);

	*heartbeat = mmap(NULL, (size_t)page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *heartbeat == MAP_FAILED ? -errno : 0;
}

/* Renews the heartbeat if ktsnd has the pod's endpoint, so that the flow of untimed frames is open, and has
 * read their ring a moment ago. Passes on which priorities are gated. */
static void heartbeat_renew(struct ktsn_capture_heartbeat *heartbeat, const struct session *untimed,
			    int64_t now_ns)
{
	int64_t alive_ns;

	if (!session_is_connected(untimed) || !untimed->flows[KTSN_CLOCK_TAI].open)
		return;
	/* Pairs with the store in ring_tell() of ktsnd. */
	alive_ns = atomic_load_explicit(&untimed->ring.header->alive_ns, memory_order_acquire);
	if (now_ns - alive_ns > ALIVE_NS)
		return;
	/* Atomic, because the kernel's program reads them at any time. */
	atomic_store_explicit((_Atomic unsigned long long *)&heartbeat->gated,
			      atomic_load_explicit(&untimed->ring.header->gated, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit((_Atomic unsigned long long *)&heartbeat->at_ns, (unsigned long long)now_ns,
			      memory_order_relaxed);
}

/* Opens the flow before the first frame: frames are diverted only after the heartbeat, which needs it. */
static void heartbeat_serve(struct relay *relay, int64_t now_ns)
{
	struct session *untimed = &relay->sessions[RELAY_UNTIMED];

	if (session_is_connected(untimed))
		(void)request_flow(untimed, KTSN_CLOCK_TAI, now_ns);
	if (relay->heartbeat)
		heartbeat_renew(relay->heartbeat, untimed, now_ns);
	relay->heartbeat_ns = relay->heartbeat ? now_ns + HEARTBEAT_INTERVAL_NS : INT64_MAX;
}

static void session_serve(struct relay *relay, int kind, int64_t now_ns)
{
	struct session *session = &relay->sessions[kind];
	bool joining = session->joining.fd >= 0;

	if (joining)
		session_join(session, now_ns);
	else
		request_reply_take(session, now_ns);
	if (joining && kind == RELAY_UNTIMED && session_is_connected(session))
		heartbeat_serve(relay, now_ns);
}

/* Retries everything that may have become possible. */
static void retries_serve(struct relay *relay, int64_t now_ns)
{
	for (int kind = 0; kind < RELAY_KINDS; kind++)
		session_try(relay, kind, now_ns);
	backlog_send(relay, now_ns);
	held_send(relay, now_ns);
	if (relay->all && now_ns >= relay->heartbeat_ns)
		heartbeat_serve(relay, now_ns);
}

static void earliest_set(int64_t *first_ns, int64_t other_ns)
{
	if (other_ns < *first_ns)
		*first_ns = other_ns;
}

/* Returns when an unconnected session is due. */
static int64_t session_due_ns(const struct session *session)
{
	return session->joining.fd >= 0 ? session->joining.until_ns : session->retry_ns;
}

/* Returns the time-out of epoll_wait(). -1 when only an event can give the relay something to do. */
static int timeout_ms(const struct relay *relay, int64_t now_ns)
{
	int64_t first_ns = INT64_MAX;

	for (int kind = 0; kind < RELAY_KINDS; kind++)
		if (is_used(relay, kind) && !session_is_connected(&relay->sessions[kind]))
			earliest_set(&first_ns, session_due_ns(&relay->sessions[kind]));
	if (relay->all)
		earliest_set(&first_ns, relay->heartbeat_ns);
	if (relay->backlog.count && session_is_connected(&relay->sessions[RELAY_TIMED]))
		earliest_set(&first_ns, now_ns + RETRY_MS * INT64_C(1000000));
	if (first_ns == INT64_MAX)
		return -1;
	return first_ns <= now_ns ? 0 : (int)((first_ns - now_ns + 999999) / 1000000);
}

static int event_serve(struct relay *relay, const struct epoll_event *event, int64_t now_ns)
{
	uint32_t source = event->data.u32;

	switch (source) {
	case EVENT_SOURCE:
		return event->events & (EPOLLERR | EPOLLHUP) ? -ENODEV : source_serve(relay, now_ns);
	case EVENT_BACK:
		relay->source->ops->deliver(relay->source, relay->counters);
		return 0;
	case EVENT_TIMED:
	case EVENT_UNTIMED:
		session_serve(relay, (int)source, now_ns);
		return 0;
	case EVENT_SIGNAL:
		return 1;
	default:
		return 0;
	}
}

int relay_round(struct relay *relay)
{
	struct epoll_event events[EVENTS];
	int64_t now_ns = monotonic_ns();
	int count, done = 0;
	bool awake;

	/* First, so that frames which arrive from now on are not among the stale ones. */
	if (relay->all && relay->stale_left)
		done = source_serve(relay, now_ns);
	if (done)
		return done;
	awake = relay->reading && !source_sleeps(relay->source, relay->counters);
	count = epoll_wait(relay->epoll_fd, events, EVENTS, awake ? 0 : timeout_ms(relay, now_ns));
	if (count < 0 && errno != EINTR)
		return -errno;
	now_ns = monotonic_ns();
	for (int i = 0; i < count && !done; i++)
		done = event_serve(relay, &events[i], now_ns);
	if (awake && !done)
		done = source_serve(relay, now_ns);
	retries_serve(relay, now_ns);
	doorbells_ring(relay);
	return done;
}

int relay_run(struct relay *relay)
{
	int done = 0;

	while (!done)
		done = relay_round(relay);
	return done > 0 ? 0 : done;
}
