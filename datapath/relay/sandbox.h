/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of the relays: no capabilities, and only the system calls that frames and ktsnd need. Others
 * fail with EPERM.
 */
#ifndef KTSN_RELAY_SANDBOX_H
#define KTSN_RELAY_SANDBOX_H

#include <stddef.h>

/* sandbox_enter limits the relay of captured frames. 0 or -errno. */
int sandbox_enter(void);

/* sandbox_capabilities_drop drops the capabilities of the calling thread. 0 or -errno. */
int sandbox_capabilities_drop(void);

/* sandbox_filter_load allows all threads of the process these system calls, sockets of this machine, and
 * memory that is not executed; no new privileges and no core dumps. Names that the architecture does not have
 * are ignored. 0 or -errno. */
int sandbox_filter_load(const char *const *allowed, size_t count);

#endif
