/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a frame leaves: holds packets until they may go, and says which goes next.
 *
 * Third stage of a packet's path (ring -> frame -> shaper -> port). Pure and in virtual time: no system
 * calls, no clock (`now` is an argument), no allocation (the caller gives the memory). One thread at a
 * time. All times are CLOCK_TAI nanoseconds.
 *
 * Packets wait in a queue for each traffic class, in the order of their transmit times. A strategy says whose
 * turn it is:
 *
 *   tas              Time-Aware Shaper of IEEE Std 802.1Q-2022 clause 8.6.8.4: the highest class whose
 *                    gate is open long enough for the frame. The default.
 *   strict-priority  the highest class, as if no gate were ever shut
 *   etf              transmit times alone, over all classes; what is late is dropped (as tc-etf(8))
 *   etf-deadline     the same for transmit times that are deadlines: packets leave as soon as they can
 *
 * Common to all: never before its transmit time (but for deadlines), and one frame after the other at the
 * configured speed of the link.
 *
 * Packets of several senders are in lanes, one for each: of senders that have packets overdue in the same
 * class, each has its turn, so that none waits for all that another has. The order among one sender's packets
 * is that of their transmit times, whatever others do. Before those that have no time goes each whose time
 * has come, unless it is late and its sender had a turn since.
 */
#ifndef KTSN_SHAPER_SHAPER_H
#define KTSN_SHAPER_SHAPER_H

#include "gates.h"
#include "packet.h"
#include "shaper_config.h"

#include <stdbool.h>
#include <stddef.h>

struct ktsn_shaper;
struct ktsn_shaper_lane;

/* Bytes of memory that a lane needs, aligned for any type. Memory that is all zero is an empty lane, so that
 * what the lane never uses need never be touched. It is the caller's, and stays while the lane holds packets.
 * These are all untimed, or none is.
 */
size_t ktsn_shaper_lane_bytes(void);

/* Bytes of memory that a shaper needs, aligned for any type. */
size_t ktsn_shaper_bytes(void);

/* Prepares `memory` (ktsn_shaper_bytes() bytes, the caller's) as an empty shaper whose gates are open. The
 * result points into `memory`; nothing has to be undone. */
struct ktsn_shaper *ktsn_shaper_init(void *memory, const struct ktsn_shaper_config *config);

/* From now on; what is held stays, and is not dropped for being late if it was taken by a strategy that drops
 * nothing for that. All of it is put into other queues when classes count no more, or count again. `gates`
 * are the caller's and must stay until others take their place; NULL for all open.
 */
void ktsn_shaper_strategy_set(struct ktsn_shaper *shaper, enum ktsn_strategy strategy);
void ktsn_shaper_gates_set(struct ktsn_shaper *shaper, const struct ktsn_gates *gates);

/*
 * Takes the packet, into its sender's lane; NULL: the shaper's own, for whoever has none. 0, or the packet
 * stays the caller's:
 *
 *   -EMSGSIZE  larger than queue-max-sdu of its class
 *   -ETIME     etf: its time had passed when it was handed over
 *   -EINVAL    etf: a deadline among transmit times, or the other way round
 */
int ktsn_shaper_enqueue(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			struct ktsn_shaper_packet *packet, int64_t now_tai_ns);

/* The same of one that was handed over before, by which etf judges whether its time had passed. One that is
 * taken so and cannot leave any more is dropped when it is asked for (KTSN_DROP_MISSED). Not later than
 * `now`. */
int ktsn_shaper_enqueue_handed(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			       struct ktsn_shaper_packet *packet, int64_t handed_tai_ns, int64_t now_tai_ns);

/* Whether the strategy judges packets by when they were handed over. */
bool ktsn_strategy_judges_handover(enum ktsn_strategy strategy);

/* Whether what the strategy takes leaves as soon as the link is free, and is dropped at once otherwise: then
 * no packet may wait outside until its transmit time is near. */
bool ktsn_strategy_sends_at_once(enum ktsn_strategy strategy);

/* The clock was set back: what was reckoned with the old time, that the link is busy until then, is void. */
void ktsn_shaper_clock_set_back(struct ktsn_shaper *shaper);

/* Takes back a packet that was to be sent and could not be: into the same lane, where it has not had its
 * turn. Of several the last comes back first: what has left meanwhile was a turn. */
void ktsn_shaper_requeue(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			 struct ktsn_shaper_packet *packet, int64_t now_tai_ns);

/* The packet that ktsn_shaper_dequeue() would give back at `now`, or NULL. */
const struct ktsn_shaper_packet *ktsn_shaper_peek(struct ktsn_shaper *shaper, int64_t now_tai_ns);

/*
 * For a burst: what may be given to the port at `now` together with the frames before, although these occupy
 * the link until later, at most until `until`. Its time has come and its gate is open at `now`; it is the one
 * that would leave when the link is free, as far as is known at `now`.
 *
 *            now     free
 *   ----------+--------+--------+----> time
 *             | before | behind |
 */
const struct ktsn_shaper_packet *ktsn_shaper_peek_behind(struct ktsn_shaper *shaper, int64_t now_tai_ns,
							 int64_t until_tai_ns);

/* The packet that will come back next, at `until` at the latest, to be sent, if nothing is enqueued before;
 * NULL: there is none. Its sizes and times stay as they are. */
struct ktsn_shaper_packet *ktsn_shaper_peek_next(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						 int64_t until_tai_ns);

/* Takes out any packet, whatever its time; NULL when there is none. For those that get other times. */
struct ktsn_shaper_packet *ktsn_shaper_take(struct ktsn_shaper *shaper);

/* The earliest time, `now` or later, at which a packet will come back; KTSN_SHAPER_NEVER when none will. */
int64_t ktsn_shaper_next(struct ktsn_shaper *shaper, int64_t now_tai_ns);

/* When the first packet with a time of any other lane became due, or will; gates and link may hold it back
 * for longer. KTSN_SHAPER_NEVER when there is none. */
int64_t ktsn_shaper_due_excluding(const struct ktsn_shaper *shaper, const struct ktsn_shaper_lane *lane);

/*
 * For a caller to whom a frame takes longer than the link: what is to be sent at its time must not find it
 * busy with something that is late already.
 *
 * ktsn_shaper_due_after: when the first packet of that class or a higher one becomes due that is not at
 * `now`, if its gate is open then; KTSN_SHAPER_NEVER when there is none, or the strategy drops what is late.
 * ktsn_shaper_may_yield: whether what ktsn_shaper_peek() gives at `now` can as well leave after `until`.
 * ktsn_shaper_yield: it does, as all in its class whose time was before `late`; that they waited counts as
 * their senders' turns. What is untimed leaves after that one anyway.
 */
int64_t ktsn_shaper_due_after(const struct ktsn_shaper *shaper, unsigned int lowest_class,
			      int64_t now_tai_ns);
bool ktsn_shaper_may_yield(struct ktsn_shaper *shaper, int64_t now_tai_ns, int64_t until_tai_ns);
void ktsn_shaper_yield(struct ktsn_shaper *shaper, int64_t now_tai_ns, int64_t late_tai_ns,
		       int64_t until_tai_ns);

/* Gives back a packet that leaves at `now`, or is dropped, as *verdict says; or NULL when none may. */
struct ktsn_shaper_packet *ktsn_shaper_dequeue(struct ktsn_shaper *shaper, int64_t now_tai_ns,
					       enum ktsn_verdict *verdict);

/* The same of what ktsn_shaper_peek_behind() gives. */
struct ktsn_shaper_packet *ktsn_shaper_dequeue_behind(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						      int64_t until_tai_ns, enum ktsn_verdict *verdict);

/*
 * For what may not leave although its time has come, for a reason that is the caller's. ktsn_shaper_withdraw:
 * takes out what ktsn_shaper_peek_behind() gives; the link stays as free as it was, and it is nobody's turn.
 * ktsn_shaper_restore: puts it back into the same lane, at its time. ktsn_shaper_lateness_max: how late it
 * may leave before the shaper drops it; INT64_MAX: it does not.
 */
struct ktsn_shaper_packet *ktsn_shaper_withdraw(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						int64_t until_tai_ns);
void ktsn_shaper_restore(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			 struct ktsn_shaper_packet *packet, int64_t now_tai_ns);
int64_t ktsn_shaper_lateness_max(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet);

/* Whether a packet that dequeue gave back, and that the port had by `sent`, is still on the link when its
 * gate shuts (transmission-overrun, clause 12.29.1.1.2). */
bool ktsn_shaper_overrun(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
			 int64_t sent_tai_ns);

/* Packets held. */
uint32_t ktsn_shaper_pending(const struct ktsn_shaper *shaper);

/* "tas", "strict-priority", "etf", "etf-deadline". */
const char *ktsn_strategy_name(enum ktsn_strategy strategy);
/* 0, or -EINVAL when none has that name. */
int ktsn_strategy_parse(const char *name, enum ktsn_strategy *strategy);

#endif
