/* SPDX-License-Identifier: Apache-2.0 */
#include "clock_steps.h"

#include "clock.h"
#include "log.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
	/* Less is the measurement's doing. */
	STEP_NS = 100000,
	/* Readings that lie further apart say nothing. */
	APART_MAX_NS = STEP_NS / 2,
	TRIES = 8,
};

/* A timer that expires in no lifetime, for the sake of being cancelled. */
static int set_watch(struct event_source *source, struct events *events)
{
	const struct itimerspec never = {.it_value = {.tv_sec = INT32_MAX}};
	int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -1;
	source->fd = fd;
	if (!timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) &&
	    !events_add(events, source))
		return 0;
	close(fd);
	source->fd = -1;
	return -1;
}

static void set_readable(struct event_source *source)
{
	uint64_t expired;

	(void)!read(source->fd, &expired, sizeof(expired));
	clock_steps_look(source->owner);
}

void clock_steps_watch(struct clock_steps *steps, struct events *events)
{
	steps->set = (struct event_source){.fd = -1, .readable = set_readable, .owner = steps};
	clock_steps_look(steps);
	if (set_watch(&steps->set, events))
		log_warning(
			"the kernel does not say when the clock is set: steps are seen only when ktsnd has "
			"something to do");
}

void clock_steps_end(struct clock_steps *steps, struct events *events)
{
	if (steps->set.fd <= 0)
		return;
	events_remove(events, &steps->set);
	close(steps->set.fd);
	steps->set.fd = -1;
}

void clock_steps_take(struct clock_steps *steps, int64_t monotonic_to_tai_ns)
{
	int64_t step_ns = monotonic_to_tai_ns - steps->monotonic_to_tai_ns;
	bool stepped = steps->known && llabs(step_ns) >= STEP_NS;

	if (steps->known && !stepped)
		return;
	steps->known = true;
	steps->monotonic_to_tai_ns = monotonic_to_tai_ns;
	if (!stepped)
		return;
	steps->count++;
	steps->last_ns = step_ns;
	log_warning("CLOCK_TAI was set %s by %lld.%09lld s; schedules go on from their base times by the new "
		    "time",
		    step_ns < 0 ? "back" : "ahead", llabs(step_ns) / NS_PER_SECOND,
		    llabs(step_ns) % NS_PER_SECOND);
}

void clock_steps_look(struct clock_steps *steps)
{
	for (int i = 0; i < TRIES; i++) {
		int64_t before_ns = clock_ns(CLOCK_MONOTONIC), tai_ns = clock_tai_ns();
		int64_t apart_ns = clock_ns(CLOCK_MONOTONIC) - before_ns;

		if (apart_ns > APART_MAX_NS)
			continue;
		clock_steps_take(steps, tai_ns - before_ns - apart_ns / 2);
		return;
	}
}
