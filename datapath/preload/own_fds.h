/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of libktsn's own beside those of the session, which the application must not close by sweeping.
 *
 * Any thread, also in signal handlers.
 */
#ifndef KTSN_PRELOAD_OWN_FDS_H
#define KTSN_PRELOAD_OWN_FDS_H

#include <stdbool.h>

/* Moves a fresh descriptor up, out of the application's way, and remembers it. Returns its new number. */
int own_fd_keep(int fd);

/* A copy of one of libktsn's own, or -1. */
int own_fd_copy(int fd);

void own_fd_close(int fd);

/* Without a search. */
bool own_fd_is(int fd);

/* The lowest at or above `fd`, or -1. */
int own_fd_next(int fd);

#endif
