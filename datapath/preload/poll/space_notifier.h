/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space to send: free slots in the ring, and room in the socket's send buffer. Its notifier is an eventfd
 * that is writable while there is space. A send that finds no space fills the eventfd's counter; ktsnd reads
 * it when something was released.
 *
 * Any thread.
 */
#ifndef KTSN_PRELOAD_SPACE_NOTIFIER_H
#define KTSN_PRELOAD_SPACE_NOTIFIER_H

#include "flow.h"
#include "session.h"

/* The notifier's descriptor, which is made and handed to ktsnd if there is none; -1 when there can be
 * none. */
int space_notifier_fd(struct flow *flow);

/* Hands an existing notifier to ktsnd. The registration lock, the flow's and the poll state's are the
 * caller's. */
void space_notifier_register(struct session *session, struct flow *flow);

/* Whether the send buffer has room for another message. As in the kernel, the last message may go beyond
 * it. */
bool send_buffer_has_space(struct session *session, struct flow *flow);

/* Whether a message may be sent now: room in the send buffer, and as many free slots as the last send
 * wanted. */
bool space_available(struct session *session, struct flow *flow);

/* A send found no space: from now on the notifier is not writable, until there is space. */
void space_await(struct session *session, struct flow *flow);

/* A send found space. */
void space_found(struct poll_state *state);

/* Wakes those who wait for space, to look again: the socket was shut down. */
void space_notify(struct flow *flow);

/* The process itself has given a slot back: wakes those of its sockets that have space now. */
void space_slot_freed(struct session *session);

/* Whether any socket of the process waits for space. */
bool space_awaited_any(void);

#endif
