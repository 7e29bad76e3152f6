/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing a running ktsnd by another in place: a newer version, or other options. The successor (ktsnd
 * --take-over) has opened its port and asks on the control socket (request "hand-over"); its predecessor then
 * sends what it has, one record a message, descriptors with them:
 *
 *   successor                                predecessor
 *      | ---- request take-over ---------------> |  refuses one that is older than itself
 *      | <--- control, shaping, sockets, ------- |  still sending
 *      |      endpoints, peers, timed sockets,   |
 *      |      processes, flows, destinations     |
 *      | <--- end ------------------------------ |
 *      |  maps rings, finds routes               |
 *      | ---- ready ---------------------------> |
 *      |                                         |  pauses its loop
 *      | <--- stands --------------------------- |
 *      | ---- taken ---------------------------> |  from here on the rings are the successor's
 *      |  opens the rings                        |  ends
 *
 * No application notices: their connections, rings and doorbells are the same. Messages that wait are still
 * in their slots. Nothing changes between "end" and "taken", because the predecessor's control thread serves
 * nobody else meanwhile; only messages leave, and their slots say so. Until "taken" a successor that fails
 * changes nothing: its predecessor goes on. Departures pause from "stands" until the rings are open.
 *
 * Control thread, and the real-time worker while departures pause. Part of handover: above node, below
 * control.
 */
#ifndef KTSN_DAEMON_HANDOVER_H
#define KTSN_DAEMON_HANDOVER_H

#include "instance.h"
#include "node_state.h"

/*
 * Predecessor: serves the request. 0 when the successor has taken everything: then the loop is paused for
 * good, and ktsnd must end without touching sockets or rings. Else -errno, and everything goes on. `records`
 * is the newest version of them that the successor understands.
 */
int handover_give(struct node *node, int client_fd, int control_fd, uint32_t records);

/*
 * Successor: takes over from the ktsnd that listens at control_path. 0 with *control_fd; -ENOENT when none
 * listens there; else -errno after a log message, and then nothing of it was changed: -EALREADY when it is
 * younger than `instance`, which is this one, -ECONNRESET or -EPIPE when it ended meanwhile, -ETIMEDOUT when
 * it did not answer. Nothing is waited for longer than ten seconds.
 */
int handover_take(struct node *node, const char *control_path, const struct instance *instance,
		  int *control_fd);

#endif
