/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When frames leave next, over all egresses. Loop thread only.
 */
#ifndef KTSN_LOOP_EGRESS_H
#define KTSN_LOOP_EGRESS_H

#include <stdint.h>

struct loop;

/* When the next frame may be given to a port; KTSN_SHAPER_NEVER when there is none. */
int64_t egress_departure_next(const struct loop *loop, int64_t now_tai_ns);

#endif
