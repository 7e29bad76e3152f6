/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Internet checksum (RFC 1071). Pure; safe from any thread. Inline, because for a header, whose length is
 * constant, the compiler can then remove most of the code.
 */
#ifndef KTSN_FRAME_CHECKSUM_H
#define KTSN_FRAME_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One's complement addition: adds the carry of the highest bit to the lowest. */
static inline uint64_t ktsn_checksum_carry(uint64_t sum, uint64_t addend)
{
	sum += addend;
	return sum + (sum < addend);
}

/*
 * The sum of at most fifteen bytes. A last odd byte counts as the first of a pair in memory that ends with a
 * zero, in either byte order.
 */
static inline uint64_t ktsn_checksum_tail(const uint8_t *data, size_t bytes)
{
	uint64_t eight = 0;
	uint32_t four = 0;
	uint16_t two = 0, one = 0;

	if (bytes & 8) {
		memcpy(&eight, data, 8);
		data += 8;
	}
	if (bytes & 4) {
		memcpy(&four, data, 4);
		data += 4;
	}
	if (bytes & 2) {
		memcpy(&two, data, 2);
		data += 2;
	}
	if (bytes & 1)
		memcpy(&one, data, 1);
	return ktsn_checksum_carry(eight, (uint64_t)four + two + one);
}

/*
 * Adds `bytes` of data to a running sum. Every piece except the last must have an even length. The sum is
 * in the byte order of memory: store the folded result as it is.
 *
 * A sum of 64-bit words folds to the same 16 bits as a sum of 16-bit words (RFC 1071 section 2 (C)). There
 * are two sums, because each addition waits for the carry of the previous one in the same sum.
 */
static inline uint64_t ktsn_checksum_add(uint64_t sum, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t words[2], other_sum = 0;

	for (; bytes >= sizeof(words); bytes -= sizeof(words), at += sizeof(words)) {
		memcpy(words, at, sizeof(words));
		sum = ktsn_checksum_carry(sum, words[0]);
		other_sum = ktsn_checksum_carry(other_sum, words[1]);
	}
	return ktsn_checksum_carry(ktsn_checksum_carry(sum, other_sum), ktsn_checksum_tail(at, bytes));
}

/* Folds a running sum to the 16 bits that go into a header (one's complement, wire order). */
static inline uint16_t ktsn_checksum_fold_be(uint64_t sum)
{
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 16) + (uint16_t)sum;
	sum = (sum >> 16) + (uint16_t)sum;
	return (uint16_t)~sum;
}

#endif
