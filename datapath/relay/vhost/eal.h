/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK, as far as the relay of a guest needs it: ordinary memory, a pool of buffers, and its log. No device,
 * no hugepage, no file that stays.
 *
 * The thread that calls it is the relay's.
 */
#ifndef KTSN_RELAY_VHOST_EAL_H
#define KTSN_RELAY_VHOST_EAL_H

#include <rte_mempool.h>

/* Starts DPDK, which starts a thread of its own, and makes the pool. Each buffer has room for
 * FRAME_BYTES_MAX. What DPDK has to say comes into the relay's log, bounded as all that is logged. 0, or
 * -errno. */
int eal_begin(struct rte_mempool **pool);

#endif
