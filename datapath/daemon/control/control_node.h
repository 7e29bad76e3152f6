/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of the control protocol that concern the node alone, whichever connection they come by: what
 * it is told, and pages of what there is several of.
 *
 * Control thread. Part of control: below control_server.
 */
#ifndef KTSN_DAEMON_CONTROL_NODE_H
#define KTSN_DAEMON_CONTROL_NODE_H

#include "control_reply.h"
#include "control_request.h"

/* Returns the reply, which is the caller's to free; NULL: no memory, or not such a request. */
char *control_node_serve(struct node *node, const struct control_request *request);
/* The reply to a change that ended so; `refusal` says why where `err` is -EINVAL. The caller frees it. */
char *control_change_reply(int err, struct refusal *refusal);

#endif
