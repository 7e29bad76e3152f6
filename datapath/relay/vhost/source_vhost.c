/* SPDX-License-Identifier: Apache-2.0 */
#include "source_vhost.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rte_atomic.h>
#include <rte_mbuf.h>
#include <rte_vhost.h>

enum {
	/* Kick descriptors, the back end, and the timer. */
	EVENTS_MAX = GUEST_PAIRS_MAX + 2,
	/* While librte_vhost serves a message of the front end, polling the queues may find nothing
	 * although they have frames, and no notification follows. So the queues are polled at this interval
	 * in any case. */
	LOOK_AGAIN_MS = 100,
};

static const enum relay_drop drops[] = {
	[CAPTURED_TRUNCATED] = RELAY_DROP_TRUNCATED,
	[CAPTURED_RECORD_SHORT] = RELAY_DROP_RECORD_SHORT,
	[CAPTURED_RECORD_BITS] = RELAY_DROP_RECORD_BITS,
	[CAPTURED_RECORD_ADDRESSES] = RELAY_DROP_RECORD_ADDRESSES,
};

/* ---- notifications ---- */

static int watch(struct source_vhost *vhost, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events};

	return epoll_ctl(vhost->source.fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void kicks_forget(struct source_vhost *vhost)
{
	for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++)
		if (vhost->watched[pair] >= 0)
			(void)epoll_ctl(vhost->source.fd, EPOLL_CTL_DEL, vhost->watched[pair], NULL);
}

/* Edge-triggered, because nobody reads them. */
static void kicks_watch(struct source_vhost *vhost)
{
	for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++) {
		vhost->watched[pair] = vhost->guest.kick_fd[pair];
		if (vhost->watched[pair] >= 0 && watch(vhost, vhost->watched[pair], EPOLLIN | EPOLLET))
			vhost->watched[pair] = -1;
	}
}

static void timer_set(const struct source_vhost *vhost, bool runs)
{
	const struct timespec interval = {.tv_nsec = runs ? LOOK_AGAIN_MS * 1000000L : 0};
	const struct itimerspec when = {.it_value = interval, .it_interval = interval};

	(void)timerfd_settime(vhost->timer_fd, 0, &when, NULL);
}

/* The relay is awake, and a write into the guest's ring would be useless. */
static void notifications_set(struct source_vhost *vhost, bool on)
{
	for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++)
		if (vhost->guest.kick_fd[pair] >= 0)
			(void)rte_vhost_enable_guest_notification(vhost->guest.vid,
								  (uint16_t)guest_ring_from(pair), on);
	vhost->notified = on;
}

/* Handles a front end that connected, disconnected, or changed queues. */
static void guest_take(struct source_vhost *vhost)
{
	bool another;

	/* Before closing them: the front end has copies, so that they would stay in the epoll set. */
	kicks_forget(vhost);
	another = backend_take(&vhost->guest);
	kicks_watch(vhost);
	vhost->notified = false;
	if (another)
		timer_set(vhost, vhost->guest.vid >= 0);
	/* Nobody waits for room in these rings. */
	for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++)
		if (vhost->guest.vid >= 0 && vhost->guest.kick_fd[pair] >= 0)
			(void)rte_vhost_enable_guest_notification(vhost->guest.vid,
								  (uint16_t)guest_ring_to(pair), 0);
}

/* Called after the relay has slept. New frames are found by polling. */
static void woken(struct source_vhost *vhost)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t count;

	(void)epoll_wait(vhost->source.fd, events, EVENTS_MAX, 0);
	(void)!read(vhost->timer_fd, &count, sizeof(count));
	notifications_set(vhost, false);
}

/* ---- bursts ---- */

/* Counts frames that librte_vhost took from the ring and dropped: longer than a buffer, or no frame. */
static void lost_count(const struct source_vhost *vhost, struct relay_counters *counters, uint16_t before,
		       uint16_t after)
{
	uint16_t lost = (uint16_t)(after - before - vhost->count);

	/* Less than none: librte_vhost adds an announcement of its own after a migration. */
	if (lost == 0 || lost > INT16_MAX)
		return;
	relay_count(&counters->read[RELAY_UNTIMED], lost);
	relay_count(&counters->dropped[RELAY_DROP_DESCRIPTOR], lost);
}

static void pair_read(struct source_vhost *vhost, struct relay_counters *counters, int pair)
{
	uint16_t ring = (uint16_t)guest_ring_from(pair), before, after, used;

	if (rte_vhost_get_vring_base(vhost->guest.vid, ring, &before, &used))
		return;
	vhost->pair = pair;
	vhost->count =
		rte_vhost_dequeue_burst(vhost->guest.vid, ring, vhost->setup.pool, vhost->burst, GUEST_BURST);
	if (rte_vhost_get_vring_base(vhost->guest.vid, ring, &after, &used) == 0)
		lost_count(vhost, counters, before, after);
}

/* Reads a burst from the next pair that has frames. Returns whether there is one. */
static bool burst_fill(struct source_vhost *vhost, struct relay_counters *counters)
{
	int last = vhost->pair;

	rte_pktmbuf_free_bulk(vhost->burst, vhost->count);
	vhost->count = vhost->next = 0;
	if (backend_changed())
		guest_take(vhost);
	if (vhost->guest.vid < 0)
		return false;
	for (int i = 1; i <= GUEST_PAIRS_MAX && vhost->count == 0; i++) {
		int pair = (last + i) % GUEST_PAIRS_MAX;

		if (vhost->guest.kick_fd[pair] >= 0)
			pair_read(vhost, counters, pair);
	}
	return vhost->count > 0;
}

/* ---- frames ---- */

/* Parses a frame. 0, or the reason to drop it. */
static int frame_take(const struct source_vhost *vhost, struct rte_mbuf *mbuf, struct captured_frame *frame)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *);
	enum captured_verdict verdict;

	*frame = (struct captured_frame){.timed = false};
	if (mbuf->nb_segs != 1 || mbuf->data_len > FRAME_BYTES_MAX)
		return RELAY_DROP_TRUNCATED;
	verdict = captured_frame_parse(bytes, mbuf->data_len, frame);
	if (verdict)
		return (int)drops[verdict];
	/* With a record before it, even if that has only a class. */
	if (frame->addresses != bytes && !vhost->setup.records)
		return RELAY_DROP_RECORD_DENIED;
	if (memcmp(frame->addresses + ETH_ALEN, vhost->setup.address, ETH_ALEN) != 0)
		return RELAY_DROP_SOURCE;
	frame->priority = class_priority(vhost->setup.class_by, frame, vhost->pair);
	return 0;
}

static int vhost_read(struct source *source, struct relay_counters *counters, struct captured_frame *frame)
{
	struct source_vhost *vhost = (struct source_vhost *)source;
	int drop;

	if (vhost->notified)
		woken(vhost);
	if (vhost->next == vhost->count && !burst_fill(vhost, counters))
		return -EAGAIN;
	drop = frame_take(vhost, vhost->burst[vhost->next++], frame);
	relay_count(&counters->read[frame->timed ? RELAY_TIMED : RELAY_UNTIMED], 1);
	if (drop)
		relay_drop(counters, (enum relay_drop)drop);
	return drop ? 0 : 1;
}

static bool vhost_sleeps(struct source *source, struct relay_counters *counters)
{
	struct source_vhost *vhost = (struct source_vhost *)source;

	if (vhost->next < vhost->count)
		return false;
	if (!vhost->notified)
		notifications_set(vhost, true);
	/* The guest sees that it must notify, or its frame is seen here. */
	rte_smp_mb();
	/* Another guest's rings do not have notifications enabled yet. */
	return !burst_fill(vhost, counters) && vhost->notified;
}

static void vhost_deliver(struct source *source, struct relay_counters *counters)
{
	struct source_vhost *vhost = (struct source_vhost *)source;

	if (backend_changed())
		guest_take(vhost);
	deliver_serve(&vhost->deliver, &vhost->guest, counters);
}

int source_vhost_init(struct source_vhost *vhost, const struct source_vhost_setup *setup)
{
	static const struct source_ops ops = {
		.read = vhost_read, .sleeps = vhost_sleeps, .deliver = vhost_deliver};
	int err;

	*vhost = (struct source_vhost){.setup = *setup, .guest = {.vid = -1}};
	vhost->source = (struct source){.ops = &ops, .back_fd = setup->link_fd};
	deliver_init(&vhost->deliver, setup->pool, setup->link_fd);
	for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++)
		vhost->guest.kick_fd[pair] = vhost->watched[pair] = -1;
	vhost->source.fd = epoll_create1(EPOLL_CLOEXEC);
	vhost->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (vhost->source.fd < 0 || vhost->timer_fd < 0)
		return -errno;
	err = watch(vhost, backend_event_fd(), EPOLLIN);
	return err ? err : watch(vhost, vhost->timer_fd, EPOLLIN);
}
