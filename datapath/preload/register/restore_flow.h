/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One flow's part in restoring (restore.h). One thread at a time: the registration lock is the caller's.
 */
#ifndef KTSN_PRELOAD_RESTORE_FLOW_H
#define KTSN_PRELOAD_RESTORE_FLOW_H

#include "flow.h"
#include "session.h"

/* Registers the flow with a restarted ktsnd, under the numbers that the flow and its destinations had: all
 * that ktsnd takes. 0 or the first -errno, but one of request_premature() before any other; the flow's
 * numbers stay in any case. */
int flow_restore(struct session *session, struct flow *flow, int fd);

/* After flow_restore() of all flows: what could not be restored counts as never registered. */
void flow_forget_lost(struct session *session, struct flow *flow);

#endif
