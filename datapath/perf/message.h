/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload that the talker sends and the listener checks. Pure: no system calls, no allocation; safe
 * from any thread.
 *
 * All fields in network byte order:
 *
 *   0      4         5       6          8        12         16           24              28
 *   | magic | version | clock | reserved | run id | sequence | txtime_ns  | payload bytes | pattern ...
 *
 * The pattern depends on run id, sequence and offset, so that a byte that was changed, moved, or taken
 * from another message is noticed.
 *
 * Messages below MESSAGE_LONG_BYTES have a short header, which is all there is of one with 16 bytes:
 *
 *   0       2        4       5          8                                16
 *   | magic | run id | check | sequence | clock (2 bits), txtime_ns (62) | pattern ...
 *
 * It has the low 16 bits of the run id and the low 24 of the sequence. The check is over the whole header and
 * the length: 255 of 256 changed headers are noticed.
 */
#ifndef KTSN_PERF_MESSAGE_H
#define KTSN_PERF_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MESSAGE_VERSION = 1,
	MESSAGE_HEADER_BYTES = 28,
	/* Longer messages have some pattern after the long header. */
	MESSAGE_LONG_BYTES = 40,
	/* The short header without a pattern. */
	MESSAGE_MIN_BYTES = 16,
	/* What UDP over IPv4 can carry: 65535 - 20 - 8. */
	MESSAGE_MAX_BYTES = 65507,
	/* The capacity of the short header's fields. */
	MESSAGE_SHORT_RUN_ID_MAX = 0xffff,
	MESSAGE_SHORT_SEQUENCE_MAX = 0xffffff,
};

struct message_header {
	uint8_t version;
	bool is_short; /* of a message that was decoded */
	uint8_t clock; /* the Linux number of the clockid_t of txtime_ns */
	uint32_t run_id;
	uint32_t sequence;      /* from 0 */
	int64_t txtime_ns;      /* requested transmit time on that clock */
	uint32_t payload_bytes; /* of the whole message, this header included */
};

/*
 * Writes header and pattern: header->payload_bytes bytes, at least MESSAGE_MIN_BYTES. The header is short or
 * long by that length.
 */
void message_encode(uint8_t *payload, const struct message_header *header);

/*
 * Reads the header. -EBADMSG when this is no message of tsnperf (too short or another magic); `header` is
 * then all zero. message_verify() checks the rest of the message.
 */
int message_decode(const uint8_t *payload, size_t received_bytes, struct message_header *header);

/*
 * Checks a decoded message. 0; -EPROTO for an unknown version or clock, -EMSGSIZE when the length is not
 * the one that was sent, -EILSEQ when a byte of the pattern is wrong.
 */
int message_verify(const uint8_t *payload, size_t received_bytes, const struct message_header *header);

/* Returns whether a talker can use `clock`. */
bool message_clock_known(uint8_t clock);

#endif
