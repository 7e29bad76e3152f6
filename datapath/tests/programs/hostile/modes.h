/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which a pod is hostile. Each continues until the target's time is over and returns -1 if it
 * could not begin. Results are printed as "NAME NUMBER" lines.
 */
#ifndef KTSN_TEST_HOSTILE_MODES_H
#define KTSN_TEST_HOSTILE_MODES_H

#include "client.h"

/* ring_modes.c: contents of a ring */
int mode_scribble(const struct target *target);
int mode_lie(const struct target *target);
int mode_race(const struct target *target);
int mode_flood(const struct target *target);
int mode_distant(const struct target *target);

/* memory_modes.c: memory of rings */
int mode_punch(const struct target *target);
int mode_collapse(const struct target *target);
int mode_keep(const struct target *target);
int mode_sparse(const struct target *target);

/* socket_modes.c: the connection and its descriptors */
int mode_stall(const struct target *target);
int mode_many(const struct target *target);
int mode_bell(const struct target *target);
int mode_churn(const struct target *target);
int mode_register(const struct target *target);
int mode_foreign(const struct target *target);

/* receive_modes.c: receive rings */
int mode_receive(const struct target *target);
int mode_receive_churn(const struct target *target);

/* holding_modes.c: system calls that block on the pod */
int mode_linger(const struct target *target);
int mode_notifier(const struct target *target);
int mode_locked(const struct target *target);
int mode_unread(const struct target *target);
int mode_ask(const struct target *target);

/* queue_modes.c: long queues, and cheap requests that cause a lot of work */
int mode_watchers(const struct target *target);
int mode_watchers_close(const struct target *target);
int mode_sleepers(const struct target *target);
int mode_pollers(const struct target *target);
int mode_group(const struct target *target);
int mode_handback(const struct target *target);

int mode_audience(const struct target *target);
int mode_folder(const struct target *target);

/* removal_modes.c: closes that wait for a later close */
int mode_immortal(const struct target *target);
int mode_immortal2(const struct target *target);
int mode_fuse(const struct target *target);
int mode_fuse_ring(const struct target *target);
int mode_faulted(const struct target *target);
int mode_ends(const struct target *target);
int mode_refill(const struct target *target);
int mode_returns(const struct target *target);

/* receiver_modes.c: frames that are expensive to receive, and their sender */
int mode_receivers(const struct target *target);
int mode_receivers_filter(const struct target *target);
int mode_steady(const struct target *target);

/* netlink_modes.c: attacks that need CAP_NET_ADMIN in the pod's network namespace */
int mode_netlink(const struct target *target);

/* wire_modes.c: attacks that need CAP_NET_RAW: frames that bypass ktsnd */
int mode_arp(const struct target *target);
int mode_nd(const struct target *target);
int mode_fdb(const struct target *target);
int mode_fragments(const struct target *target);
int mode_extensions(const struct target *target);
int mode_membership(const struct target *target);
int mode_neighbours(const struct target *target);
int mode_vxlan(const struct target *target);
int mode_bridge(const struct target *target);

/* Creates a TCP connection over loopback that nobody reads: the last close of `fd` blocks until `peer` is
 * closed. */
struct lingering {
	int fd, peer, listener;
};
int lingering_open(struct lingering *lingering, int linger_s);

/* Publishes into every slot that has become free. Returns their number. */
long ring_fill(const struct client *client, int64_t txtime_ns);

void result_print(const char *name, long number);
int complain(const char *label, int err);

#endif
