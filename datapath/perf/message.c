/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define MAGIC 0x54534e50u /* "TSNP" */

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
	/* Odd multipliers (those of xxHash): neighbouring sequences get unlike seeds. */
	uint32_t seed = run_id * 0x9e3779b1u + sequence * 0x85ebca77u;

	return seed ^ seed >> 15;
}

/* The offset's high byte takes part, or bytes moved by a multiple of 256 would go unnoticed. */
static uint8_t pattern_byte(uint32_t seed, uint32_t offset)
{
	return (uint8_t)(seed + offset * 167u + (offset >> 8) * 13u);
}

void message_encode(uint8_t *payload, const struct message_header *header)
{
	uint32_t seed = pattern_seed(header->run_id, header->sequence);

	put_u32(payload, MAGIC);
	payload[4] = header->version;
	payload[5] = header->clock;
	payload[6] = 0;
	payload[7] = 0;
	put_u32(payload + 8, header->run_id);
	put_u32(payload + 12, header->sequence);
	put_i64(payload + 16, header->txtime_ns);
	put_u32(payload + 24, header->payload_bytes);
	for (uint32_t i = MESSAGE_HEADER_BYTES; i < header->payload_bytes; i++)
		payload[i] = pattern_byte(seed, i);
}

int message_decode(const uint8_t *payload, size_t received_bytes, struct message_header *header)
{
	memset(header, 0, sizeof(*header));
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

static bool pattern_intact(const uint8_t *payload, const struct message_header *header)
{
	uint32_t seed = pattern_seed(header->run_id, header->sequence);
	uint8_t difference = 0;

	for (uint32_t i = MESSAGE_HEADER_BYTES; i < header->payload_bytes; i++)
		difference |= payload[i] ^ pattern_byte(seed, i);
	return difference == 0;
}

int message_verify(const uint8_t *payload, size_t received_bytes, const struct message_header *header)
{
	if (header->version != MESSAGE_VERSION || !message_clock_known(header->clock))
		return -EPROTO;
	if (header->payload_bytes != received_bytes || received_bytes < MESSAGE_MIN_BYTES)
		return -EMSGSIZE;
	return pattern_intact(payload, header) ? 0 : -EILSEQ;
}

bool message_clock_known(uint8_t clock)
{
	return clock == CLOCK_TAI || clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}
