/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one request at a time from any number of clients.
 *
 * Control thread. Part of control: above handover, below main.
 */
#ifndef KTSN_DAEMON_CONTROL_SERVER_H
#define KTSN_DAEMON_CONTROL_SERVER_H

#include "control_reply.h"

struct control_server;

/* What status says that does not change while ktsnd runs; copied. */
int control_server_create(struct control_server **server, struct node *node, int listen_fd,
			  const struct control_status *fixed);
/* Whether another ktsnd has taken over: this one must end and touch nothing that is the other's now. */
bool control_server_handed_over(const struct control_server *server);
/* Ends a trace that nobody reads. Returns ms until it is due again, -1: not. */
int control_server_tick(struct control_server *server);
/* Closes the connections and the listening descriptor. NULL is harmless. */
void control_server_destroy(struct control_server *server);

#endif
