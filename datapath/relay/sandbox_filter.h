/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sandboxes of both relays have in common: a list of system calls, sockets of AF_UNIX only, and
 * memory that is not executed.
 */
#ifndef KTSN_RELAY_SANDBOX_FILTER_H
#define KTSN_RELAY_SANDBOX_FILTER_H

#include <stddef.h>

/* The calling thread, and threads that it starts from then on, have no capability. 0 or -errno. */
int sandbox_capabilities_drop(void);

/* All threads of the process make no other calls than these, and sockets and memory as said above; other
 * calls fail with EPERM. 0 or -errno. */
int sandbox_filter_load(const char *const *allowed, size_t count);

#endif
