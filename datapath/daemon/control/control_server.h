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

/* `fixed` is copied: the part of the status that does not change while ktsnd runs. */
int control_server_create(struct control_server **server, struct node *node, int listen_fd,
			  const struct control_status *fixed);
/* Returns whether another ktsnd has taken over: this one must end without touching the other's state. */
bool control_server_handed_over(const struct control_server *server);
/* Ends a trace that nobody reads. Returns ms until the next call is due, or -1: none is. */
int control_server_tick(struct control_server *server);
/* Closes the connections and the listening descriptor. `server` may be NULL. */
void control_server_destroy(struct control_server *server);

#endif
