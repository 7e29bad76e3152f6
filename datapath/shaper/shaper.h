/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shaper holds packets until they may leave, and selects the next one.
 *
 * Third stage of a packet's path (ring -> frame -> shaper -> port). Pure and in virtual time: no system
 * calls, no clock (`now` is an argument), no allocation (the caller provides the memory). One thread at a
 * time. All times are CLOCK_TAI nanoseconds.
 *
 * Packets wait in a queue for each traffic class, in the order of their transmit times. A strategy selects
 * the next:
 *
 *   tas              Time-Aware Shaper of IEEE Std 802.1Q-2022 clause 8.6.8.4: the highest class whose
 *                    gate is open long enough for the frame. The default.
 *   strict-priority  The highest class, as if all gates were open.
 *   etf              The earliest transmit time over all classes; late packets are dropped (as tc-etf(8)).
 *   etf-deadline     As etf, for transmit times that are deadlines: packets leave as soon as possible.
 *
 * Under all strategies no packet leaves before its transmit time (except deadlines), and frames leave one
 * after the other at the configured speed of the link.
 *
 * Each sender has a lane. Senders with overdue packets in the same class take turns, so that none waits for
 * all packets of another. The packets of one sender always leave in the order of their transmit times.
 * Untimed packets leave after packets whose time has come, except late ones whose sender had a turn since.
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

/* Returns the bytes of memory of a lane, aligned for any type. Zeroed memory is an empty lane, so that unused
 * parts need not be touched. The memory belongs to the caller and must exist while the lane holds packets,
 * which must be all timed or all untimed. */
size_t ktsn_shaper_lane_bytes(void);

/* Returns the bytes of memory of a shaper, aligned for any type. */
size_t ktsn_shaper_bytes(void);

/* Initialises `memory` (ktsn_shaper_bytes() bytes, which belong to the caller) as an empty shaper with all
 * gates open. The result points into `memory`; there is nothing to release. */
struct ktsn_shaper *ktsn_shaper_init(void *memory, const struct ktsn_shaper_config *config);

/* Set the strategy and the gates from now on. Packets in the shaper stay; those that were enqueued under a
 * strategy that does not drop late packets are not dropped later either. A change between classless and other
 * strategies moves all packets to other queues. `gates` belong to the caller and must exist until they are
 * replaced; NULL: all open. */
void ktsn_shaper_strategy_set(struct ktsn_shaper *shaper, enum ktsn_strategy strategy);
void ktsn_shaper_gates_set(struct ktsn_shaper *shaper, const struct ktsn_gates *gates);

/*
 * Enqueues a packet in its sender's lane; NULL: the shaper's default lane. 0, or an error, with which the
 * packet still belongs to the caller:
 *
 *   -EMSGSIZE  larger than queue-max-sdu of its class
 *   -ETIME     etf: its time had passed when it was handed over
 *   -EINVAL    etf with a deadline, or etf-deadline without
 */
int ktsn_shaper_enqueue(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			struct ktsn_shaper_packet *packet, int64_t now_tai_ns);

/* Enqueues a packet that was handed over before `now`: etf checks its transmit time against `handed`. If it
 * can no longer leave, it is dropped at dequeue (KTSN_DROP_MISSED). */
int ktsn_shaper_enqueue_handed(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			       struct ktsn_shaper_packet *packet, int64_t handed_tai_ns, int64_t now_tai_ns);

/* Whether the strategy checks when packets were handed over. */
bool ktsn_strategy_checks_handover(enum ktsn_strategy strategy);

/* Whether packets leave as soon as the link is free, or are dropped: then the caller must not hold packets
 * until shortly before their transmit time. */
bool ktsn_strategy_sends_at_once(enum ktsn_strategy strategy);

/* Discards times computed before the clock was set back, such as when the link is free. */
void ktsn_shaper_clock_set_back(struct ktsn_shaper *shaper);

/* Returns a packet that could not be sent to its lane and revokes its turn. Several packets must be returned
 * in reverse order: the service of a sender is only revoked if it is its last. */
void ktsn_shaper_requeue(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			 struct ktsn_shaper_packet *packet, int64_t now_tai_ns);

/* Returns the packet that ktsn_shaper_dequeue() would return at `now`, or NULL. */
const struct ktsn_shaper_packet *ktsn_shaper_peek(struct ktsn_shaper *shaper, int64_t now_tai_ns);

/*
 * For bursts: returns the packet that may be given to the port at `now` together with previous frames that
 * occupy the link until later, at most until `until`. Its time has come and its gate is open at `now`; of the
 * packets known at `now` it is the one that would leave when the link is free.
 *
 *            now     free
 *   ----------+--------+--------+----> time
 *             | before | behind |
 */
const struct ktsn_shaper_packet *ktsn_shaper_peek_behind(struct ktsn_shaper *shaper, int64_t now_tai_ns,
							 int64_t until_tai_ns);

/* Returns the packet that will leave next, at `until` at the latest, if no other is enqueued before; or NULL.
 * Its sizes and times must not be changed. */
struct ktsn_shaper_packet *ktsn_shaper_peek_next(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						 int64_t until_tai_ns);

/* Removes any packet, so that the caller can change its time; NULL when there is none. */
struct ktsn_shaper_packet *ktsn_shaper_take(struct ktsn_shaper *shaper);

/* Returns the earliest time, `now` or later, at which dequeue will return a packet; KTSN_SHAPER_NEVER: none.
 */
int64_t ktsn_shaper_next(struct ktsn_shaper *shaper, int64_t now_tai_ns);

/* Returns when the first timed packet of all other lanes became or will become due, regardless of gates and
 * link; KTSN_SHAPER_NEVER when there is none. */
int64_t ktsn_shaper_due_excluding(const struct ktsn_shaper *shaper, const struct ktsn_shaper_lane *lane);

/*
 * For a caller that needs longer for a frame than the link: it should not be busy with a late packet when
 * another one becomes due.
 *
 * ktsn_shaper_due_after: returns when the first packet of that class or a higher one becomes due after `now`
 * with its gate open; KTSN_SHAPER_NEVER when there is none, or the strategy drops late packets.
 * ktsn_shaper_may_yield: whether the packet of ktsn_shaper_peek() at `now` can also leave after `until`.
 * ktsn_shaper_yield: delays the packets of that class whose time was before `late` until then, which counts
 * as a turn of their senders. Untimed packets leave after the due packet anyway.
 */
int64_t ktsn_shaper_due_after(const struct ktsn_shaper *shaper, unsigned int lowest_class,
			      int64_t now_tai_ns);
bool ktsn_shaper_may_yield(struct ktsn_shaper *shaper, int64_t now_tai_ns, int64_t until_tai_ns);
void ktsn_shaper_yield(struct ktsn_shaper *shaper, int64_t now_tai_ns, int64_t late_tai_ns,
		       int64_t until_tai_ns);

/* Removes and returns the packet that leaves at `now`, or is dropped, according to *verdict; or NULL. */
struct ktsn_shaper_packet *ktsn_shaper_dequeue(struct ktsn_shaper *shaper, int64_t now_tai_ns,
					       enum ktsn_verdict *verdict);

/* Removes and returns the packet of ktsn_shaper_peek_behind(). */
struct ktsn_shaper_packet *ktsn_shaper_dequeue_behind(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						      int64_t until_tai_ns, enum ktsn_verdict *verdict);

/*
 * For packets that the caller does not send although their time has come. ktsn_shaper_withdraw: removes the
 * packet of ktsn_shaper_peek_behind(), without occupying the link and without a turn. ktsn_shaper_restore:
 * returns it to its lane. ktsn_shaper_lateness_max: returns how late it may leave before the shaper drops it;
 * INT64_MAX: never.
 */
struct ktsn_shaper_packet *ktsn_shaper_withdraw(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						int64_t until_tai_ns);
void ktsn_shaper_restore(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			 struct ktsn_shaper_packet *packet, int64_t now_tai_ns);
int64_t ktsn_shaper_lateness_max(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet);

/* Whether a dequeued packet that the port took at `sent` is still on the link when its gate closes
 * (transmission-overrun, clause 12.29.1.1.2). */
bool ktsn_shaper_overrun(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
			 int64_t sent_tai_ns);

/* Returns the number of packets in the shaper. */
uint32_t ktsn_shaper_pending(const struct ktsn_shaper *shaper);

/* "tas", "strict-priority", "etf", "etf-deadline". */
const char *ktsn_strategy_name(enum ktsn_strategy strategy);
/* 0, or -EINVAL when none has that name. */
int ktsn_strategy_parse(const char *name, enum ktsn_strategy *strategy);

#endif
