/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start reading here: loop_run() is the whole way of a packet through ktsnd.
 */
#include "loop_state.h"

#include "realtime.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	/* Looks again after this time. */
	PAUSE_US = 50,
	/* So long the loop goes on for the other copies of what has left in part: a successor does not send them. */
	PAUSE_PATIENCE_NS = 2000000,
};

static bool pause_begins(struct loop *loop)
{
	int64_t now_ns;

	if (!atomic_load_explicit(&loop->pause, memory_order_acquire)) {
		loop->pause_seen_ns = 0;
		return false;
	}
	if (!loop->parted)
		return true;
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (!loop->pause_seen_ns)
		loop->pause_seen_ns = now_ns;
	return now_ns - loop->pause_seen_ns > PAUSE_PATIENCE_NS;
}

static void pause_stand(struct loop *loop)
{
	atomic_store_explicit(&loop->standing, true, memory_order_release);
	while (atomic_load_explicit(&loop->pause, memory_order_acquire) &&
	       !atomic_load_explicit(&loop->stop, memory_order_acquire))
		usleep(PAUSE_US);
	atomic_store_explicit(&loop->standing, false, memory_order_release);
}

static void *loop_run(void *argument)
{
	struct loop *loop = argument;

	/* Ordinary scheduling lets timers slip by 50 us (prctl(2)); SCHED_FIFO has no slack anyway. */
	prctl(PR_SET_TIMERSLACK, 1);
	ktsn_port_thread_attach(loop->config.port);
	while (!atomic_load_explicit(&loop->stop, memory_order_acquire)) {
		if (pause_begins(loop)) {
			pause_stand(loop);
			continue; /* it may have been stopped meanwhile, and then nothing here is its own any more */
		}
		loop_commands(loop); /* what the control thread wants */
		commands_complete(&loop->commands);
		loop_take(loop); /* rings -> frames -> shaper */
		loop_send(loop); /* shaper -> port */
		loop_wait(loop); /* until something may be due */
	}
	return NULL;
}

static int outlet_create(struct outlet *outlet, struct ktsn_port *port,
			 const struct ktsn_shaper_config *config)
{
	void *memory = realtime_alloc(ktsn_shaper_bytes());

	if (!memory)
		return -ENOMEM;
	outlet->port = port;
	outlet->shaper = ktsn_shaper_init(memory, config);
	return 0;
}

static int outlets_create(struct loop *loop)
{
	struct ktsn_shaper_config config = {
		.strategy = loop->config.strategy,
		.link_speed_bps = loop->config.link_speed_bps,
		.guard_band_ns = loop->config.guard_band_ns,
		.delta_ns = loop->config.delta_ns,
		.tolerance_ns = loop->config.late_after_ns,
	};
	int err = outlet_create(&loop->outlets[OUTLET_UPLINK], loop->config.port, &config);

	config.link_speed_bps = 0;
	return err ? err : outlet_create(&loop->outlets[OUTLET_BRIDGE], loop->config.bridge_port, &config);
}

static int packets_create(struct loop *loop)
{
	uint32_t packets = loop->config.packets;

	loop->packets = realtime_alloc(packets * sizeof(*loop->packets));
	if (!loop->packets)
		return -ENOMEM;
	for (uint32_t i = packets; i-- > 0;) {
		loop->packets[i].next = loop->packets_free;
		loop->packets_free = &loop->packets[i];
	}
	loop->packets_free_count = packets;
	return 0;
}

static int events_create(struct loop *loop)
{
	struct epoll_event kick = {.events = EPOLLIN, .data.ptr = NULL};

	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->retired_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->notifications_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->epoll_fd < 0 || loop->kick_fd < 0 || loop->retired_fd < 0 || loop->notifications_fd < 0)
		return -errno;
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->kick_fd, &kick) ? -errno : 0;
}

static void loop_free(struct loop *loop)
{
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	if (loop->kick_fd >= 0)
		close(loop->kick_fd);
	if (loop->retired_fd >= 0)
		close(loop->retired_fd);
	if (loop->notifications_fd >= 0)
		close(loop->notifications_fd);
	/* A shaper begins where its memory begins. */
	for (int i = 0; i < OUTLETS; i++)
		free(loop->outlets[i].shaper);
	free(loop->packets);
	free(loop);
}

struct loop_classes loop_classes_default(void)
{
	struct loop_classes classes;

	for (uint8_t class = 0; class < KTSN_CLASSES; class ++)
		classes.pcp[class] = class > 1 ? class : 1 - class;
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
	ktsn_txtime_queue_init(&loop->expectations);
	loop->quota_next_tai_ns = loop->unmute_tai_ns = KTSN_SHAPER_NEVER;
	loop->strategy = config->strategy;
	loop->classes = loop_classes_default();
	loop->lead_ns = config->spin_ns;
	loop->epoll_fd = loop->kick_fd = loop->retired_fd = loop->notifications_fd = -1;
	err = outlets_create(loop);
	if (!err)
		err = packets_create(loop);
	if (!err)
		err = events_create(loop);
	if (err) {
		loop_free(loop);
		return err;
	}
	*created = loop;
	return 0;
}

int loop_start(struct loop *loop, struct loop_scheduling *scheduling)
{
	int err = -pthread_create(&loop->thread, NULL, loop_run, loop);

	if (err)
		return err;
	loop->running = true;
	pthread_setname_np(loop->thread, "ktsnd-loop");
	scheduling->pinned = realtime_pin(loop->thread, loop->config.cpu) == 0;
	scheduling->fifo = realtime_fifo(loop->thread, loop->config.fifo_priority) == 0;
	return 0;
}

static void kick(struct loop *loop)
{
	uint64_t one = 1;

	/* Can only fail when the counter is full, and then the loop is being woken anyway. */
	(void)!write(loop->kick_fd, &one, sizeof(one));
}

void loop_stop(struct loop *loop)
{
	if (!loop->running)
		return;
	atomic_store_explicit(&loop->stop, true, memory_order_release);
	kick(loop);
	pthread_join(loop->thread, NULL);
	loop->running = false;
}

void loop_pause(struct loop *loop)
{
	atomic_store_explicit(&loop->pause, true, memory_order_release);
	while (loop->running && !atomic_load_explicit(&loop->standing, memory_order_acquire)) {
		kick(loop);
		usleep(PAUSE_US);
	}
}

void loop_resume(struct loop *loop)
{
	atomic_store_explicit(&loop->pause, false, memory_order_release);
}

void loop_destroy(struct loop *loop)
{
	if (loop)
		loop_free(loop);
}

void loop_command(struct loop *loop, const struct loop_command *command)
{
	/* Before the application is told the number. */
	if (command->type == COMMAND_DESTINATION_OPEN)
		atomic_fetch_add_explicit(&command->ring->announced, 1, memory_order_relaxed);
	while (!commands_push(&loop->commands, command)) {
		kick(loop);
		usleep(100);
	}
	kick(loop);
}

uint32_t loop_commands_mark(const struct loop *loop)
{
	return commands_mark(&loop->commands);
}

bool loop_commands_passed(const struct loop *loop, uint32_t mark)
{
	return commands_passed(&loop->commands, mark);
}

struct loop_object *loop_retired(struct loop *loop)
{
	struct loop_object *newest, *oldest = NULL;
	uint64_t count;

	/* Cleared first: what is retired after the look makes it readable again. */
	(void)!read(loop->retired_fd, &count, sizeof(count));
	newest = atomic_exchange_explicit(&loop->retired, NULL, memory_order_acquire);
	/* They were pushed on a stack; the caller wants them in the order in which they ended. */
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
	return loop->retired_fd;
}

const struct counters *loop_counters(const struct loop *loop)
{
	return &loop->counters;
}

struct loop_costs loop_costs(const struct loop *loop)
{
	return (struct loop_costs){.looks = counter_read(&loop->looks),
				   .doorbells_set = counter_read(&loop->doorbells_set)};
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
	atomic_store_explicit(&loop->link_down, !carrying, memory_order_relaxed);
}

int loop_epoll_fd(const struct loop *loop)
{
	return loop->epoll_fd;
}

uint32_t loop_pending(const struct loop *loop)
{
	return atomic_load_explicit(&loop->pending, memory_order_relaxed);
}
