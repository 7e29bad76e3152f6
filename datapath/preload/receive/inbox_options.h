/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a UDP socket about received datagrams. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_INBOX_OPTIONS_H
#define KTSN_PRELOAD_INBOX_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Control messages that the application enabled. */
enum {
	INBOX_WANTS_PKTINFO = 1 << 0,
	INBOX_WANTS_TTL = 1 << 1,
	INBOX_WANTS_TOS = 1 << 2,
	INBOX_WANTS_PKTINFO6 = 1 << 3,
	INBOX_WANTS_HOPLIMIT6 = 1 << 4,
	INBOX_WANTS_TCLASS6 = 1 << 5,
	INBOX_WANTS_TIMESTAMP = 1 << 6,     /* SO_TIMESTAMP */
	INBOX_WANTS_TIMESTAMPNS = 1 << 7,   /* SO_TIMESTAMPNS */
	INBOX_WANTS_TIMESTAMP_NEW = 1 << 8, /* that of the two, with 64 bits everywhere */
	INBOX_WANTS_DROPS = 1 << 9,         /* SO_RXQ_OVFL */

	INBOX_WANTS_ANY_TIMESTAMP = INBOX_WANTS_TIMESTAMP | INBOX_WANTS_TIMESTAMPNS,
};

/* inbox_options_read reads the options. Returns false if one is enabled that only the kernel supports. */
bool inbox_options_read(int fd, int family, uint32_t *wants);

/* inbox_options_concern returns whether the option is one of those. */
bool inbox_options_concern(int level, int option);

/* inbox_options_filter returns whether the option sets a filter: the ring's filter must be removed before. */
bool inbox_options_filter(int level, int option);

#endif
