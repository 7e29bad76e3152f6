/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The speed of a link. Any thread.
 */
#ifndef KTSN_DAEMON_LINK_SPEED_H
#define KTSN_DAEMON_LINK_SPEED_H

#include <stdint.h>

/* What an interface of the calling thread's namespace reports as its speed now; 0 when it reports none (no
 * carrier, or a virtual device that has none). */
uint64_t link_speed_bps(const char *interface);

#endif
