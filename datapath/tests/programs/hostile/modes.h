/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which a pod is hostile. Each goes on until the target's time is over; -1 when it could not even
 * begin. What it achieved it prints as "NAME NUMBER" lines.
 */
#ifndef KTSN_TEST_HOSTILE_MODES_H
#define KTSN_TEST_HOSTILE_MODES_H

#include "client.h"

/* ring_modes.c: what can be written into a ring */
int mode_scribble(const struct target *target);
int mode_lie(const struct target *target);
int mode_race(const struct target *target);
int mode_flood(const struct target *target);
int mode_distant(const struct target *target);

/* memory_modes.c: what can be done with the memory of rings */
int mode_punch(const struct target *target);
int mode_collapse(const struct target *target);
int mode_keep(const struct target *target);
int mode_sparse(const struct target *target);

/* socket_modes.c: what can be done with the connection and its descriptors */
int mode_stall(const struct target *target);
int mode_many(const struct target *target);
int mode_bell(const struct target *target);
int mode_churn(const struct target *target);
int mode_register(const struct target *target);
int mode_foreign(const struct target *target);

/* receive_modes.c: what can be done with receive rings */
int mode_receive(const struct target *target);
int mode_receive_churn(const struct target *target);

/* holding_modes.c: what makes a system call wait for the pod */
int mode_linger(const struct target *target);
int mode_notifier(const struct target *target);
int mode_locked(const struct target *target);
int mode_unread(const struct target *target);
int mode_ask(const struct target *target);

/* queue_modes.c: what makes long queues, and much work of little */
int mode_watchers(const struct target *target);
int mode_watchers_close(const struct target *target);
int mode_sleepers(const struct target *target);
int mode_pollers(const struct target *target);
int mode_group(const struct target *target);
int mode_handback(const struct target *target);

int mode_audience(const struct target *target);
int mode_folder(const struct target *target);

/* removal_modes.c: what makes a close wait for what only a later one ends */
int mode_immortal(const struct target *target);
int mode_immortal2(const struct target *target);
int mode_fuse(const struct target *target);
int mode_fuse_ring(const struct target *target);
int mode_faulted(const struct target *target);
int mode_ends(const struct target *target);
int mode_refill(const struct target *target);
int mode_returns(const struct target *target);

/* receiver_modes.c: what makes frames expensive to receive, and a sender of them */
int mode_receivers(const struct target *target);
int mode_receivers_filter(const struct target *target);
int mode_steady(const struct target *target);

/* netlink_modes.c: what takes CAP_NET_ADMIN in the pod's network namespace */
int mode_netlink(const struct target *target);

/* wire_modes.c: what takes CAP_NET_RAW, frames past ktsnd */
int mode_arp(const struct target *target);
int mode_nd(const struct target *target);
int mode_fdb(const struct target *target);
int mode_fragments(const struct target *target);
int mode_extensions(const struct target *target);
int mode_membership(const struct target *target);
int mode_neighbours(const struct target *target);
int mode_vxlan(const struct target *target);
int mode_bridge(const struct target *target);

/* A TCP connection over loopback that nobody reads: the last close of `fd` waits for `peer`, so long. */
struct lingering {
	int fd, peer, listener;
};
int lingering_open(struct lingering *lingering, int linger_s);

/* Publishes into every slot that has become free. Returns how many. */
long ring_fill(const struct client *client, int64_t txtime_ns);

void say(const char *name, long number);
int complain(const char *what, int err);

#endif
