/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hand-over replaces a running ktsnd in place, by a newer version or one with other options. The successor
 * (ktsnd --take-over) has opened its port and sends the request "take-over" to the control socket. Its
 * predecessor then sends its state, one record per message, with descriptors:
 *
 *   successor                                predecessor
 *      | ---- request take-over ---------------> |  refuses a successor that is older
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
 * Applications keep their connections, rings and doorbells. Messages that wait stay in their slots. Between
 * "end" and "taken" the predecessor's control thread serves no other request; only messages leave, which
 * their slots show. If the successor fails before "taken", the predecessor continues unchanged. Departures
 * pause from "stands" until the rings are open.
 *
 * Called by the control thread, and by the real-time worker while departures pause. Module handover: above
 * node, below control.
 */
#ifndef KTSN_DAEMON_HANDOVER_H
#define KTSN_DAEMON_HANDOVER_H

#include "instance.h"
#include "node_state.h"

/*
 * handover_give serves a request as the predecessor. `records` is the newest version of records that the
 * successor understands. 0 when the successor has taken everything: the loop stays paused, and ktsnd must end
 * without touching sockets or rings. -errno when it has not: this ktsnd continues.
 */
int handover_give(struct node *node, int client_fd, int control_fd, uint32_t records);

/*
 * handover_take takes over, as the successor, from the ktsnd that listens at control_path. `instance` is this
 * one. 0 with *control_fd; -ENOENT when none listens; else -errno after a log message, with the predecessor
 * unchanged: -EALREADY when it is younger than `instance`, -ECONNRESET or -EPIPE when it ended meanwhile,
 * -ETIMEDOUT when it did not answer within ten seconds.
 */
int handover_take(struct node *node, const char *control_path, const struct instance *instance,
		  int *control_fd);

#endif
