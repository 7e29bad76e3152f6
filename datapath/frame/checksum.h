/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Internet checksum (RFC 1071). Pure; safe from any thread.
 */
#ifndef KTSN_FRAME_CHECKSUM_H
#define KTSN_FRAME_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/*
 * Adds `bytes` of data to a running sum. Every piece but the last must have an even length. The sum is
 * in the byte order of memory: store the folded result as it is.
 */
uint64_t ktsn_checksum_add(uint64_t sum, const void *data, size_t bytes);

/* Folds a running sum to the 16 bits that go into a header (one's complement, wire order). */
uint16_t ktsn_checksum_fold_be(uint64_t sum);

#endif
