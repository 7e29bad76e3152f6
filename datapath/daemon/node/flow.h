/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flow: a socket of a process. For its functions see flows.h. Control thread.
 */
#ifndef KTSN_DAEMON_FLOW_H
#define KTSN_DAEMON_FLOW_H

#include "process.h"

/* libktsn remembers 8 addresses of a socket; twice as many stay valid here, so that an entry that it
 * still uses is never dropped. */
enum { FLOW_DESTINATIONS_MAX = 16 };

struct flow {
	struct process *process;
	struct loop_flow *loop;
	struct txtime_mode mode;
	bool frames; /* KTSN_APP_FRAMES. Its destinations stay until the application closes them, and are in
		      * the table of the process only */
	uint32_t index;
	uint64_t cookie; /* of the socket */
	struct namespace *ns;
	struct socket_attributes attributes;
	struct destination *destinations[FLOW_DESTINATIONS_MAX]; /* of unconnected sends; a ring buffer */
	uint32_t destinations_next;
	struct destination *connected;
	struct notifier *error_notifier, *space_notifier; /* NULL: no application waits for that */
	int64_t notified_tai_ns;                          /* last notification by either */
	bool closed; /* its number stays taken until the loop has retired it */
	bool ended;  /* was closing in the previous ktsnd: closed after its messages have been taken */
};

#endif
