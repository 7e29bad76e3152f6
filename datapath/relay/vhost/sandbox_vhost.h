/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_RELAY_VHOST_SANDBOX_VHOST_H
#define KTSN_RELAY_VHOST_SANDBOX_VHOST_H

/*
 * The sandbox of ktsn-relay-vhost has two steps, because librte_vhost opens its socket and starts threads
 * itself, and capabilities belong to a thread: sandbox_vhost_prepare() comes before that,
 * sandbox_vhost_enter(), which is for all threads, after it. It allows the system calls of the relay of
 * captured frames (sandbox.h), and those that librte_vhost needs to talk to front ends and to map their
 * memory.
 */

/* 0 or -errno. */
int sandbox_vhost_prepare(void);
int sandbox_vhost_enter(void);

#endif
