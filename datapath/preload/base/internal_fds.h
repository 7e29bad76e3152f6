/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of libktsn itself. They have high numbers, because some programs count on low ones. Descriptors
 * of the notifiers are remembered here, so that an application that closes all descriptors does not close
 * them; session.h knows those of the session.
 *
 * Callable from any thread, also in signal handlers.
 */
#ifndef KTSN_PRELOAD_INTERNAL_FDS_H
#define KTSN_PRELOAD_INTERNAL_FDS_H

#include <stdbool.h>

/* internal_fd_raise moves a new descriptor to a high number, if there is one. Returns its number. */
int internal_fd_raise(int fd);

/* internal_fd_keep moves a new descriptor to a high number and remembers it. Returns its number. */
int internal_fd_keep(int fd);

/* internal_fd_copy returns a copy of an internal descriptor, remembered as well, or -1. */
int internal_fd_copy(int fd);

/* internal_fd_close closes a remembered descriptor. -1 is ignored. */
void internal_fd_close(int fd);

/* internal_fd_is returns whether the descriptor is remembered, in constant time. */
bool internal_fd_is(int fd);

/* internal_fd_next returns the lowest remembered descriptor at or above `fd`, or -1. */
int internal_fd_next(int fd);

#endif
