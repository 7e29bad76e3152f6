/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_RELAY_VHOST_SANDBOX_VHOST_H
#define KTSN_RELAY_VHOST_SANDBOX_VHOST_H

/*
 * The sandbox of ktsn-relay-vhost has two steps, because librte_vhost opens its socket and starts threads by
 * itself, and capabilities are of each thread: the first comes before that, the second, which is for all
 * threads, after it. The system calls that it leaves are those of the tap relay (sandbox.h), and what
 * librte_vhost needs to speak with front ends and to map their memory.
 */

/* 0 or -errno. */
int sandbox_vhost_prepare(void);
int sandbox_vhost_enter(void);

#endif
