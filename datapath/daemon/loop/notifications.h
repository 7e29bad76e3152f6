/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows whose applications the control thread is to notify, since that takes system calls: of a report, or of
 * space to send more. Loop thread; loop.h has the control thread's side.
 */
#ifndef KTSN_LOOP_NOTIFICATIONS_H
#define KTSN_LOOP_NOTIFICATIONS_H

#include <stdint.h>

struct loop;
struct loop_flow;
struct loop_ring;

/* `why` is NOTIFY_REPORT or NOTIFY_SPACE. */
void notification_push(struct loop *loop, struct loop_flow *flow, uint32_t why);
/* Slots are the application's again: has those sockets notified that wait for one in poll or epoll. A pod can
 * have thousands of threads asleep, so nothing that they sleep on is touched here. */
void space_notify(struct loop *loop, struct loop_ring *ring);

#endif
