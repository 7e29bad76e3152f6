/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_PRELOAD_EPOLL_SETS_H
#define KTSN_PRELOAD_EPOLL_SETS_H

struct flow;

/* A socket that stood in a set before it asked for SO_TXTIME is woken there as well: in the one that it was put into
 * last, by that descriptor. Any thread. */
void epoll_sets_join(struct flow *flow, int fd);

#endif
