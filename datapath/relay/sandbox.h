/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of the relays: no capabilities, no new privileges, no core dumps, sockets of this machine only,
 * no memory that is executed, and only the system calls that frames and ktsnd need. Others fail with EPERM.
 */
#ifndef KTSN_RELAY_SANDBOX_H
#define KTSN_RELAY_SANDBOX_H

/* sandbox_enter limits the relay of captured frames. 0 or -errno. */
int sandbox_enter(void);

/*
 * The relay of a guest enters in two steps, because librte_vhost opens its socket and starts threads itself,
 * and capabilities belong to a thread: sandbox_vhost_prepare() comes before that, sandbox_vhost_enter(),
 * which is for all threads, after it. More calls are allowed: librte_vhost talks to front ends and maps their
 * memory. 0 or -errno.
 */
int sandbox_vhost_prepare(void);
int sandbox_vhost_enter(void);

#endif
