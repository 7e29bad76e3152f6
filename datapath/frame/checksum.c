/* SPDX-License-Identifier: Apache-2.0 */
#include "checksum.h"

#include <string.h>

/* One's complement addition: the carry out of the top comes back in at the bottom. */
static uint64_t add_with_carry(uint64_t sum, uint64_t addend)
{
	sum += addend;
	return sum + (sum < addend);
}

/*
 * At most fifteen bytes. A last odd byte counts as the first of a pair in memory, with a zero behind it,
 * on either byte order.
 */
static uint64_t sum_tail(const uint8_t *data, size_t bytes)
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
	return add_with_carry(eight, (uint64_t)four + two + one);
}

/*
 * A sum of 64-bit words folds to the same 16 bits as one of 16-bit words (RFC 1071 section 2 (C)). Two
 * sums side by side, since each waits for its own carry.
 */
uint64_t ktsn_checksum_add(uint64_t sum, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t words[2], other_sum = 0;

	for (; bytes >= sizeof(words); bytes -= sizeof(words), at += sizeof(words)) {
		memcpy(words, at, sizeof(words));
		sum = add_with_carry(sum, words[0]);
		other_sum = add_with_carry(other_sum, words[1]);
	}
	return add_with_carry(add_with_carry(sum, other_sum), sum_tail(at, bytes));
}

uint16_t ktsn_checksum_fold_be(uint64_t sum)
{
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 16) + (uint16_t)sum;
	sum = (sum >> 16) + (uint16_t)sum;
	return (uint16_t)~sum;
}
