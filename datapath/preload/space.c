/* SPDX-License-Identifier: Apache-2.0 */
#include "space.h"

#include "flow_table.h"

#include <poll.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)

/* Between two looks where there is no descriptor to wait on. */
enum { LOOK_NS = 5 * 1000 * 1000 };

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)};
}

static long nap(int64_t slice_ns)
{
	const struct timespec left = timespec_of(slice_ns < LOOK_NS ? slice_ns : LOOK_NS);

	return kernel_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &left, NULL) == -EINTR ? -EINTR
											   : -ETIMEDOUT;
}

long space_wait(struct session *session, struct flow *flow, int64_t slice_ns)
{
	struct pollfd space = {.fd = waiting_space(flow), .events = POLLOUT};
	/* The kernel writes into it. */
	struct timespec left = timespec_of(slice_ns);
	long ready;

	if (space.fd < 0)
		return nap(slice_ns);
	waiting_space_await(session, flow);
	ready = kernel_call(SYS_ppoll, &space, 1, &left, NULL, 0);
	if (ready == 0)
		return -ETIMEDOUT;
	if (ready < 0)
		return ready;
	/* Closed behind our back. */
	return space.revents & POLLNVAL ? nap(slice_ns) : 0;
}
