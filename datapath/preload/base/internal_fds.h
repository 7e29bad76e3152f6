/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of libktsn's own. They have high numbers, out of the way of programs that count on low ones.
 * Those of the notifiers are remembered here, so that an application that closes all descriptors does not
 * close them; those of the session are known to session.h.
 *
 * Any thread, also in signal handlers.
 */
#ifndef KTSN_PRELOAD_INTERNAL_FDS_H
#define KTSN_PRELOAD_INTERNAL_FDS_H

#include <stdbool.h>

/* Moves a fresh descriptor up, where that is possible. Returns its new number. */
int internal_fd_raise(int fd);

/* Moves a fresh descriptor up and remembers it. Returns its new number. */
int internal_fd_keep(int fd);

/* A copy of one of libktsn's own, remembered as well, or -1. */
int internal_fd_copy(int fd);

/* Closes a remembered descriptor; nothing for -1. */
void internal_fd_close(int fd);

/* Whether the descriptor is remembered. No search. */
bool internal_fd_is(int fd);

/* The lowest remembered at or above `fd`, or -1. */
int internal_fd_next(int fd);

#endif
