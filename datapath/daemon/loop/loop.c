/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start reading here: loop_run() is the whole path of a packet through ktsnd.
 */
#include "loop.h"

#include "clock.h"
#include "loop_state.h"
#include "realtime.h"
#include "rest.h"
#include "run_commands.h"
#include "send.h"
#include "take.h"
#include "wait.h"
#include "withdrawals.h"

#include <sys/prctl.h>
#include <unistd.h>

enum {
	/* Looks again after this time. */
	PAUSE_US = 50,
	/* So long the loop goes on for the other copies of what has left in part: a successor does not send
	   them. */
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

static void commands_execute(struct loop *loop)
{
	loop_commands(loop);
	commands_complete(&loop->commands);
}

/* In the control thread, for a loop that has ended; also those that it had not come to. */
static void commands_finish(struct loop *loop)
{
	while (commands_peek(&loop->commands, 0))
		commands_execute(loop);
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
			continue; /* it may have been stopped meanwhile, and then nothing here is its own any
				     more */
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

static void kick(struct loop *loop)
{
	uint64_t one = 1;

	/* Can only fail when the counter is full, and then the loop is being woken anyway. */
	(void)!write(loop->wait.kick_fd, &one, sizeof(one));
}

void loop_stop(struct loop *loop)
{
	if (!loop->control.running)
		return;
	atomic_store_explicit(&loop->control.stop, true, memory_order_release);
	kick(loop);
	pthread_join(loop->control.thread, NULL);
	loop->control.running = false;
}

void loop_pause(struct loop *loop)
{
	atomic_store_explicit(&loop->control.pause, true, memory_order_release);
	while (loop->control.running &&
	       !atomic_load_explicit(&loop->control.standing, memory_order_acquire)) {
		kick(loop);
		usleep(PAUSE_US);
	}
}

void loop_resume(struct loop *loop)
{
	atomic_store_explicit(&loop->control.pause, false, memory_order_release);
}

void loop_command(struct loop *loop, const struct loop_command *command)
{
	/* Before the application is told the number. */
	if (command->type == COMMAND_DESTINATION_OPEN)
		atomic_fetch_add_explicit(&command->ring->announced, 1, memory_order_relaxed);
	if (loop_stopped(loop))
		commands_finish(loop);
	while (!commands_push(&loop->commands, command)) {
		kick(loop);
		usleep(100);
	}
	if (loop_stopped(loop))
		commands_finish(loop);
	else
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
	(void)!read(loop->retired.fd, &count, sizeof(count));
	newest = atomic_exchange_explicit(&loop->retired.first, NULL, memory_order_acquire);
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
	return loop->retired.fd;
}

struct loop_flow *loop_notifications(struct loop *loop)
{
	uint64_t count;

	/* Cleared first: what is pushed after the look makes it readable again. */
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
	kick(loop);
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
