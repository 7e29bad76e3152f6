/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the copies of a message end that goes to several. Loop thread only.
 */
#ifndef KTSN_LOOP_COPY_H
#define KTSN_LOOP_COPY_H

#include <stdatomic.h>
#include <stdint.h>

struct loop;
struct message;
struct packet;

void copy_sent(struct loop *loop, struct packet *copy, _Atomic uint64_t *lateness, int64_t departed_tai_ns);
void copy_dropped(struct loop *loop, struct packet *copy, _Atomic uint64_t *reason);
/* Ends a copy. The message if it was the last, which is counted then and ends as well; else NULL. */
struct message *copy_finish(struct loop *loop, struct packet *copy);

#endif
