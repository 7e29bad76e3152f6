/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of the control protocol that do not depend on the connection: changes of the node, and pages
 * of lists.
 *
 * Control thread. Part of control: below control_server.
 */
#ifndef KTSN_DAEMON_CONTROL_NODE_H
#define KTSN_DAEMON_CONTROL_NODE_H

#include "control_reply.h"
#include "control_request.h"

/* Returns the reply, which the caller frees; NULL: there is no memory, or the request is of another kind. */
char *control_node_serve(struct node *node, const struct control_request *request);
/* Returns the reply to a change that returned `err`; `refusal` explains -EINVAL. The caller frees it. */
char *control_change_reply(int err, struct refusal *refusal);

#endif
