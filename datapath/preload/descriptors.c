/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptors.h"

#include "registration.h"

void descriptor_gone(int fd)
{
	struct flow *flow;

	/* Two loads for a descriptor that never asked for SO_TXTIME. */
	if (!flow_known(fd) || !session_process_is_ours())
		return;
	flow = flow_remove(fd);
	if (!flow)
		return;
	waiting_fd_gone(flow, fd);
	flow_put(flow);
}

void descriptor_copied(int from, int to)
{
	struct flow *flow;

	if (!flow_known(from) || !session_process_is_ours())
		return;
	flow = flow_acquire(from);
	if (!flow)
		return;
	(void)flow_share(flow, to);
	flow_put(flow);
}

struct range {
	unsigned int first;
	unsigned int last;
};

static bool gone_if_within(int fd, struct flow *flow, void *context)
{
	const struct range *range = context;

	if ((unsigned int)fd >= range->first && (unsigned int)fd <= range->last)
		descriptor_gone(fd);
	flow_put(flow);
	return false;
}

void descriptors_gone(unsigned int first, unsigned int last)
{
	struct range range = {.first = first, .last = last};

	flow_each(gone_if_within, &range);
}
