/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define MAGIC           0x54534e50u /* "TSNP" */
#define SHORT_MAGIC     0x5473u     /* "Ts" */
#define SHORT_TIME_BITS 62

/* Clocks, indexed by their number in a short header. */
static const uint8_t short_clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_TAI};

enum { SHORT_CLOCKS = sizeof(short_clocks) / sizeof(short_clocks[0]) };

static void put_u32(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
}

static void put_i64(uint8_t *at, int64_t value)
{
	put_u32(at, (uint32_t)((uint64_t)value >> 32));
	put_u32(at + 4, (uint32_t)(uint64_t)value);
}

static uint32_t get_u32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int64_t get_i64(const uint8_t *at)
{
	return (int64_t)((uint64_t)get_u32(at) << 32 | get_u32(at + 4));
}

static uint32_t pattern_seed(uint32_t run_id, uint32_t sequence)
{
	/* Odd multipliers (those of xxHash): neighboring sequences get different seeds. */
	uint32_t seed = run_id * 0x9e3779b1u + sequence * 0x85ebca77u;

	return seed ^ seed >> 15;
}

/* The high byte of the offset is included; otherwise bytes moved by a multiple of 256 would go unnoticed. */
static uint8_t pattern_byte(uint32_t seed, uint32_t offset)
{
	return (uint8_t)(seed + offset * 167u + (offset >> 8) * 13u);
}

static void write_pattern(uint8_t *payload, uint32_t from, const struct message_header *header)
{
	uint32_t seed = pattern_seed(header->run_id, header->sequence);

	for (uint32_t i = from; i < header->payload_bytes; i++)
		payload[i] = pattern_byte(seed, i);
}

static bool pattern_intact(const uint8_t *payload, uint32_t from, const struct message_header *header)
{
	uint32_t seed = pattern_seed(header->run_id, header->sequence);
	uint8_t difference = 0;

	for (uint32_t i = from; i < header->payload_bytes; i++)
		difference |= payload[i] ^ pattern_byte(seed, i);
	return difference == 0;
}

/* The check of a short header, over all of its other bytes. */
static uint8_t short_check(const uint8_t *payload, uint32_t payload_bytes)
{
	uint32_t sum = pattern_seed(get_u32(payload), get_u32(payload + 4) & MESSAGE_SHORT_SEQUENCE_MAX) +
		       payload_bytes;

	sum = pattern_seed(sum, get_u32(payload + 8));
	sum = pattern_seed(sum, get_u32(payload + 12));
	/* Folds all bits into the result. */
	sum ^= sum >> 16;
	return (uint8_t)(sum ^ sum >> 8);
}

static void encode_short(uint8_t *payload, const struct message_header *header)
{
	uint64_t clock = 0;

	while (clock < SHORT_CLOCKS - 1 && short_clocks[clock] != header->clock)
		clock++;
	put_u32(payload, SHORT_MAGIC << 16 | (header->run_id & MESSAGE_SHORT_RUN_ID_MAX));
	put_u32(payload + 4, header->sequence & MESSAGE_SHORT_SEQUENCE_MAX);
	put_i64(payload + 8, (int64_t)(clock << SHORT_TIME_BITS | (uint64_t)header->txtime_ns));
	payload[4] = short_check(payload, header->payload_bytes);
}

static void decode_short(const uint8_t *payload, size_t received_bytes, struct message_header *header)
{
	uint64_t time = (uint64_t)get_i64(payload + 8);
	uint64_t clock = time >> SHORT_TIME_BITS;

	header->version = MESSAGE_VERSION;
	header->is_short = true;
	header->clock = clock < SHORT_CLOCKS ? short_clocks[clock] : UINT8_MAX;
	header->run_id = get_u32(payload) & MESSAGE_SHORT_RUN_ID_MAX;
	header->sequence = get_u32(payload + 4) & MESSAGE_SHORT_SEQUENCE_MAX;
	header->txtime_ns = (int64_t)(time & ((1ull << SHORT_TIME_BITS) - 1));
	header->payload_bytes = (uint32_t)received_bytes;
}

static void encode_long(uint8_t *payload, const struct message_header *header)
{
	put_u32(payload, MAGIC);
	payload[4] = header->version;
	payload[5] = header->clock;
	payload[6] = 0;
	payload[7] = 0;
	put_u32(payload + 8, header->run_id);
	put_u32(payload + 12, header->sequence);
	put_i64(payload + 16, header->txtime_ns);
	put_u32(payload + 24, header->payload_bytes);
}

void message_encode(uint8_t *payload, const struct message_header *header)
{
	bool is_short = header->payload_bytes < MESSAGE_LONG_BYTES;

	(is_short ? encode_short : encode_long)(payload, header);
	write_pattern(payload, is_short ? MESSAGE_MIN_BYTES : MESSAGE_HEADER_BYTES, header);
}

int message_decode(const uint8_t *payload, size_t received_bytes, struct message_header *header)
{
	memset(header, 0, sizeof(*header));
	if (received_bytes >= MESSAGE_MIN_BYTES && get_u32(payload) >> 16 == SHORT_MAGIC) {
		decode_short(payload, received_bytes, header);
		return 0;
	}
	if (received_bytes < MESSAGE_HEADER_BYTES || get_u32(payload) != MAGIC)
		return -EBADMSG;
	header->version = payload[4];
	header->clock = payload[5];
	header->run_id = get_u32(payload + 8);
	header->sequence = get_u32(payload + 12);
	header->txtime_ns = get_i64(payload + 16);
	header->payload_bytes = get_u32(payload + 24);
	return 0;
}

int message_verify(const uint8_t *payload, size_t received_bytes, const struct message_header *header)
{
	bool is_short = header->is_short;

	if (header->version != MESSAGE_VERSION || !message_clock_known(header->clock))
		return -EPROTO;
	if (header->payload_bytes != received_bytes || (received_bytes < MESSAGE_LONG_BYTES) != is_short)
		return -EMSGSIZE;
	if (is_short && payload[4] != short_check(payload, header->payload_bytes))
		return -EILSEQ;
	return pattern_intact(payload, is_short ? MESSAGE_MIN_BYTES : MESSAGE_HEADER_BYTES, header) ? 0
												    : -EILSEQ;
}

bool message_clock_known(uint8_t clock)
{
	return clock == CLOCK_TAI || clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}
