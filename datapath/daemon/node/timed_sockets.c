/* SPDX-License-Identifier: Apache-2.0 */
#include "timed_sockets.h"

#include <errno.h>

void timed_socket_remember(struct pod *pod, const struct flow *flow)
{
	/* Sockets of a relay are never passed on. */
	if (flow->frames)
		return;
	pod->recent[pod->recent_next++ % POD_RECENT_MAX] =
		(struct timed_socket){.cookie = flow->cookie, .mode = flow->mode};
}

void timed_socket_take_over(struct pod *pod, const struct timed_socket *socket)
{
	pod->recent[pod->recent_next++ % POD_RECENT_MAX] = *socket;
}

static int open_flow_find(const struct process *process, uint64_t cookie, struct txtime_mode *mode)
{
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++) {
		const struct flow *flow = process->flows[i];

		if (flow && !flow->closed && !flow->frames && flow->cookie == cookie) {
			*mode = flow->mode;
			return 0;
		}
	}
	return -ENOENT;
}

int timed_socket_find(const struct pod *pod, uint64_t cookie, struct txtime_mode *mode)
{
	for (const struct process *process = pod->processes; process; process = process->next)
		if (open_flow_find(process, cookie, mode) == 0)
			return 0;
	for (uint32_t i = 0; i < POD_RECENT_MAX; i++) {
		if (pod->recent[i].cookie == cookie) {
			*mode = pod->recent[i].mode;
			return 0;
		}
	}
	return -ENOENT;
}
