/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start reading here: loop_run() is the whole path of a packet through ktsnd.
 */
#include "loop.h"

#include "clock.h"
#include "commands.h"
#include "loop_state.h"
#include "outcome.h"
#include "realtime.h"
#include "send.h"
#include "take.h"
#include "wait.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	/* Between two looks at a flag of the other thread. */
	PAUSE_US = 50,
	/* The loop continues at most this long for the remaining copies of messages: a successor does not
	   send them. */
	PAUSE_TIMEOUT_NS = 2000000,
};

static bool pause_begins(struct loop *loop)
{
	int64_t now_ns;

	if (!atomic_load_explicit(&loop->control.pause, memory_order_acquire)) {
		loop->control.pause_seen_ns = 0;
		return false;
	}
	if (!loop->replication.sent_in_part)
		return true;
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (!loop->control.pause_seen_ns)
		loop->control.pause_seen_ns = now_ns;
	return now_ns - loop->control.pause_seen_ns > PAUSE_TIMEOUT_NS;
}

static void pause_stand(struct loop *loop)
{
	atomic_store_explicit(&loop->control.standing, true, memory_order_release);
	while (atomic_load_explicit(&loop->control.pause, memory_order_acquire) && !loop_stopped(loop))
		usleep(PAUSE_US);
	atomic_store_explicit(&loop->control.standing, false, memory_order_release);
}

static void *loop_run(void *argument)
{
	struct loop *loop = argument;

	/* Ordinary scheduling lets timers slip by 50 us (prctl(2)); SCHED_FIFO has no slack anyway. */
	prctl(PR_SET_TIMERSLACK, 1);
	ktsn_port_thread_attach(loop->config.port);
	rest_begin(loop);
	while (!loop_stopped(loop)) {
		if (pause_begins(loop)) {
			pause_stand(loop);
			continue; /* it may have been stopped meanwhile: then nothing belongs to it any more
				   */
		}
		commands_execute(loop); /* what the control thread wants */
		loop_take(loop);        /* rings -> frames -> shaper */
		loop_send(loop);        /* shaper -> port */
		loop_wait(loop);        /* until something may be due */
	}
	return NULL;
}

int loop_start(struct loop *loop, struct loop_scheduling *scheduling)
{
	int err = -pthread_create(&loop->control.thread, NULL, loop_run, loop);

	if (err)
		return err;
	loop->control.running = true;
	pthread_setname_np(loop->control.thread, "ktsnd-loop");
	scheduling->pinned = realtime_pin(loop->control.thread, loop->config.cpu) == 0;
	scheduling->fifo = realtime_fifo(loop->control.thread, loop->config.fifo_priority) == 0;
	return 0;
}

void loop_stop(struct loop *loop)
{
	if (!loop->control.running)
		return;
	atomic_store_explicit(&loop->control.stop, true, memory_order_release);
	loop_kick(loop);
	pthread_join(loop->control.thread, NULL);
	loop->control.running = false;
}

void loop_pause(struct loop *loop)
{
	atomic_store_explicit(&loop->control.pause, true, memory_order_release);
	while (loop->control.running &&
	       !atomic_load_explicit(&loop->control.standing, memory_order_acquire)) {
		loop_kick(loop);
		usleep(PAUSE_US);
	}
}

void loop_resume(struct loop *loop)
{
	atomic_store_explicit(&loop->control.pause, false, memory_order_release);
}

struct loop_object *loop_retired(struct loop *loop)
{
	struct loop_object *newest, *oldest = NULL;
	uint64_t count;

	/* Clear it first: objects that are retired after this make it readable again. */
	(void)!read(loop->retired.fd, &count, sizeof(count));
	newest = atomic_exchange_explicit(&loop->retired.first, NULL, memory_order_acquire);
	/* They are on a stack; the caller needs them in the order in which they ended. */
	while (newest) {
		struct loop_object *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

int loop_retired_fd(const struct loop *loop)
{
	return loop->retired.fd;
}

struct loop_flow *loop_notifications(struct loop *loop)
{
	uint64_t count;

	/* Clear it first: flows that are added after this make it readable again. */
	(void)!read(loop->notifications.fd, &count, sizeof(count));
	return atomic_exchange_explicit(&loop->notifications.first, NULL, memory_order_acquire);
}

int loop_notifications_fd(const struct loop *loop)
{
	return loop->notifications.fd;
}

const struct counters *loop_counters(const struct loop *loop)
{
	return &loop->counters;
}

struct loop_costs loop_costs(const struct loop *loop)
{
	return (struct loop_costs){.polls = counter_read(&loop->watch.polls),
				   .doorbells_set = counter_read(&loop->watch.doorbells_set)};
}

void loop_budget_set(struct loop *loop, uint32_t runtime_us, uint32_t period_us)
{
	rest_budget_set(loop, runtime_us, period_us);
}

struct loop_budget_use loop_budget_use(const struct loop *loop)
{
	return rest_budget_use(loop);
}

struct departures *loop_departures(struct loop *loop)
{
	return &loop->departures;
}

struct trace *loop_trace(struct loop *loop)
{
	return &loop->trace;
}

void loop_link_set(struct loop *loop, bool carrying)
{
	atomic_store_explicit(&loop->control.link_down, !carrying, memory_order_relaxed);
}

void loop_frames_withdrawn(struct loop *loop, uint32_t frames)
{
	withdrawals_report(loop, frames);
	loop_kick(loop);
}

int loop_receiver_begin(const struct loop *loop, uint32_t link_index, struct ktsn_port_receiver **receiver)
{
	return ktsn_port_receiver_begin(loop->config.bridge_port, link_index, receiver);
}

void loop_receiver_end(const struct loop *loop, struct ktsn_port_receiver *receiver)
{
	loop->config.bridge_port->ops->receiver_end(loop->config.bridge_port, receiver);
}

void loop_receivers_hold(const struct loop *loop, int64_t timeout_ns)
{
	ktsn_port_receivers_hold(loop->config.bridge_port, timeout_ns);
}

struct ktsn_port_delivery_counts loop_delivery_counts(const struct loop *loop)
{
	return ktsn_port_delivery_counts(loop->config.bridge_port);
}

int loop_epoll_fd(const struct loop *loop)
{
	return loop->wait.epoll_fd;
}

uint32_t loop_pending(const struct loop *loop)
{
	return loop_pending_messages(loop);
}

/* ---- creating and freeing: before the thread starts and after it has ended ---- */

static int egress_create(struct egress *egress, struct ktsn_port *port,
			 const struct ktsn_shaper_config *config)
{
	void *memory = realtime_alloc(ktsn_shaper_bytes());

	if (!memory)
		return -ENOMEM;
	egress->port = port;
	egress->shaper = ktsn_shaper_init(memory, config);
	return 0;
}

static int egresses_create(struct loop *loop)
{
	struct ktsn_shaper_config config = {
		.strategy = loop->config.strategy,
		.link_speed_bps = loop->config.link_speed_bps,
		.guard_band_ns = loop->config.guard_band_ns,
		.delta_ns = loop->config.delta_ns,
		.tolerance_ns = loop->config.late_after_ns,
	};
	int err = egress_create(&loop->egress[EGRESS_UPLINK], loop->config.port, &config);

	config.link_speed_bps = 0;
	return err ? err : egress_create(&loop->egress[EGRESS_BRIDGE], loop->config.bridge_port, &config);
}

static int packets_create(struct loop *loop)
{
	uint32_t packets = loop->config.packets;

	loop->pool.packets = realtime_alloc(packets * sizeof(*loop->pool.packets));
	if (!loop->pool.packets)
		return -ENOMEM;
	for (uint32_t i = packets; i-- > 0;) {
		loop->pool.packets[i].next = loop->pool.free;
		loop->pool.free = &loop->pool.packets[i];
	}
	loop->pool.free_count = packets;
	return 0;
}

static int events_create(struct loop *loop)
{
	struct epoll_event kick = {.events = EPOLLIN, .data.ptr = NULL};

	loop->wait.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->wait.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->retired.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->notifications.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wait.epoll_fd < 0 || loop->wait.kick_fd < 0 || loop->retired.fd < 0 ||
	    loop->notifications.fd < 0)
		return -errno;
	return epoll_ctl(loop->wait.epoll_fd, EPOLL_CTL_ADD, loop->wait.kick_fd, &kick) ? -errno : 0;
}

static void loop_free(struct loop *loop)
{
	if (loop->wait.epoll_fd >= 0)
		close(loop->wait.epoll_fd);
	if (loop->wait.kick_fd >= 0)
		close(loop->wait.kick_fd);
	if (loop->retired.fd >= 0)
		close(loop->retired.fd);
	if (loop->notifications.fd >= 0)
		close(loop->notifications.fd);
	if (loop->rest.schedstat_fd >= 0)
		close(loop->rest.schedstat_fd);
	/* A shaper is at the start of its memory. */
	for (int i = 0; i < EGRESSES; i++)
		free(loop->egress[i].shaper);
	free(loop->pool.packets);
	departures_fini(&loop->departures);
	withdrawals_fini(&loop->withdrawals);
	free(loop);
}

struct loop_classes loop_classes_default(void)
{
	struct loop_classes classes;

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		classes.pcp[class] = (uint8_t)(class > 1 ? class : 1 - class);
	for (unsigned int priority = 0; priority < LOOP_PRIORITIES; priority++)
		classes.of_priority[priority] = classes.pcp[priority % KTSN_CLASSES];
	return classes;
}

int loop_create(struct loop **created, const struct loop_config *config)
{
	struct loop *loop = realtime_alloc(sizeof(*loop));
	int err;

	if (!loop)
		return -ENOMEM;
	loop->config = *config;
	ktsn_txtime_queue_init(&loop->watch.expectations);
	loop->quotas.next_tai_ns = loop->throttle.until_tai_ns = loop->announcing.next_tai_ns =
		KTSN_SHAPER_NEVER;
	loop->shaping.strategy = config->strategy;
	loop->shaping.classes = loop_classes_default();
	loop->wait.lead_ns = config->spin_ns;
	loop->wait.epoll_fd = loop->wait.kick_fd = loop->retired.fd = loop->notifications.fd =
		loop->rest.schedstat_fd = -1;
	err = egresses_create(loop);
	if (!err)
		err = packets_create(loop);
	if (!err)
		err = departures_init(&loop->departures, config->departures);
	if (!err)
		err = withdrawals_init(&loop->withdrawals, config->withdrawn_max);
	if (!err)
		err = events_create(loop);
	if (err) {
		loop_free(loop);
		return err;
	}
	*created = loop;
	return 0;
}

void loop_destroy(struct loop *loop)
{
	if (loop)
		loop_free(loop);
}
