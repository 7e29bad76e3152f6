/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that are encrypted on their way to other nodes: numbered and sealed in the order in which they
 * leave, at most a millisecond before.
 *
 * A receiver takes a number once, and none that is far behind the highest (RFC 4303 section 3.4.3). Messages
 * may wait for a minute and then leave in another order than they came in, so they wait unsealed, with room
 * for ESP. While the loop waits for the next departure it seals that one frame ahead, and the departure
 * itself stays one send:
 *
 *   shaped, unsealed --(next to leave, within 1 ms, or leaving)--> sealed, numbered --> port
 *        ^                                                            |
 *        +-----------(another overtook it, or other keys)-------------+
 *
 * What comes to be overtaken gets a new number when it leaves: it is decrypted and sealed anew, and its old
 * number is never used. So are those that were held back meanwhile, and those whose node has other keys by
 * then. A number is given once, whatever becomes of the frame: no nonce comes twice.
 *
 * Loop thread only.
 */
#ifndef KTSN_LOOP_SEAL_H
#define KTSN_LOOP_SEAL_H

#include "packet.h"

struct loop;

/* Seals the frame that leaves next, if that is soon. Whether it did, and took time. */
bool seal_ahead(struct loop *loop, int64_t now_tai_ns);

/* Of a frame whose network asks for encryption. seal_possible: it may leave, encrypted or, where that is only
 * preferred, in clear. seal_departing: it leaves now, and is made so; only if it is possible. seal_refused:
 * it has not left after all; of several the last comes first. seal_forget: it ends, sealed. */
bool seal_possible(const struct loop *loop, const struct packet *packet);
void seal_departing(struct loop *loop, struct packet *packet);
void seal_refused(const struct packet *packet);
void seal_forget(struct loop *loop, struct packet *packet);

/* Commands. */
void seal_association_set(struct loop *loop, struct loop_association *association);
void seal_association_none(struct loop *loop, uint32_t address_be);
/* A network asks for more than what frames that wait were made for: those that have no room for ESP may not
 * leave then. One that asks for less leaves them as they are. */
void seal_network_set(struct loop *loop, uint32_t vni, enum loop_encryption encryption);

#endif
