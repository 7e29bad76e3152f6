/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a timed message goes: asks ktsnd once for each socket and address, and waits for its answer. Any thread.
 */
#ifndef KTSN_PRELOAD_WAY_H
#define KTSN_PRELOAD_WAY_H

#include "flow_table.h"
#include "session.h"

/* The message carries no transmit time: it is the kernel's. Outside the range of errno. */
#define SEND_NOT_TIMED (-0x10000)

/* What must be known before a message can go anywhere. */
struct way {
	struct session *session;
	struct destination destination; /* route KTSN_APP_ROUTE_KERNEL: only that */
};

/* key: NULL for where the socket is connected. way->session: the one that there is, or NULL. 0, SEND_NOT_TIMED or
 * -errno as sendmsg gives it. */
long way_to(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct way *way);

#endif
