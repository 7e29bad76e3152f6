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

/* space_notifier_fd returns the notifier's descriptor. A new one is created and passed to ktsnd; -1 if that
 * fails. */
int space_notifier_fd(struct flow *flow);

/* space_notifier_register passes an existing notifier to ktsnd. The caller holds the registration lock, the
 * flow's and the poll state's. */
void space_notifier_register(struct session *session, struct flow *flow);

/* send_buffer_has_space returns whether the send buffer has room for another message. As in the kernel, the
 * last message may exceed it. */
bool send_buffer_has_space(struct session *session, struct flow *flow);

/* space_available returns whether a message may be sent now: there is room in the send buffer, and as many
 * free slots as the last send wanted. */
bool space_available(struct session *session, struct flow *flow);

/* space_await is called when a send found no space. The notifier is not writable until there is space. */
void space_await(struct session *session, struct flow *flow);

/* space_found is called when a send found space. */
void space_found(struct poll_state *state);

/* space_notify wakes threads that wait for space, because the socket was shut down. */
void space_notify(struct flow *flow);

/* space_slot_freed wakes waiting sockets that have space after the process itself has released a slot. */
void space_slot_freed(struct session *session);

/* space_awaited_any returns whether any socket of the process waits for space. */
bool space_awaited_any(void);

#endif
