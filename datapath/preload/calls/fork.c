/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork: the parent's session, ring and notifiers stay the parent's.
 */
#include "connect.h"
#include "export.h"
#include "flow_table.h"
#include "inbox_table.h"
#include "next.h"
#include "notifiers.h"

/* The child gets reports of its own messages only, by notifiers of its own. */
static bool inherited_notifiers_close(int fd, struct flow *flow, void *context)
{
	(void)fd;
	(void)context;
	notifiers_close(&flow->poll_state);
	return flow_release(flow);
}

EXPORT pid_t fork(void)
{
	pid_t pid = next_fork();

	if (pid == 0) {
		flows_forked();
		inboxes_forked();
		flow_each(inherited_notifiers_close, NULL);
		session_forked();
	}
	return pid;
}
