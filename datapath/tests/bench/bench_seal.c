/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of encrypting a frame: its number, its nonce, and AES-GCM over its content. Measured with a few
 * frames, which stay in the processor's caches, and with ktsnd's default number, which do not.
 */
#include "bench_suites.h"
#include "esp.h"
#include "frame.h"
#include "gcm.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 16, MANY = 4096, BUFFER_BYTES = 2048, LIMIT_NS = 150 };

/* Bytes of the inner frame. */
static const uint32_t sizes[] = {64, 256, 512, 1024, 1450};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct pool {
	struct ktsn_gcm_key *key;
	uint8_t *buffers;
	uint32_t sequence;
};

static size_t frame_fill(uint8_t *frame, uint32_t inner_bytes)
{
	const struct ktsn_frame_path path = {.kind = KTSN_FRAME_ETHERNET, .ethertype_be = 0x0008, .ttl = 64};
	const struct ktsn_frame_tunnel tunnel = {.outer = {.ttl = 64}, .vni = 42, .esp = true};
	size_t payload_bytes = inner_bytes - KTSN_ETHER_HEADER_BYTES;
	int headers_bytes = ktsn_frame_build(frame, BUFFER_BYTES, &path, &tunnel, payload_bytes);

	bench_must(headers_bytes > 0, "a frame does not fit");
	return (size_t)headers_bytes + payload_bytes +
	       ktsn_frame_trailer_bytes(&path, &tunnel, payload_bytes);
}

static void seal(struct pool *pool, uint8_t *frame, size_t bytes)
{
	static const uint8_t salt[KTSN_ESP_SALT_BYTES] = {1, 2, 3, 4};
	const struct ktsn_esp esp = ktsn_esp_find(frame, bytes);
	uint8_t nonce[KTSN_ESP_NONCE_BYTES];

	ktsn_esp_number(&esp, 0x01020304, ++pool->sequence);
	ktsn_esp_nonce(&esp, salt, nonce);
	ktsn_gcm_seal(pool->key, nonce, esp.header, KTSN_ESP_HEADER_BYTES, esp.text, esp.text_bytes, esp.icv);
}

static void size_measure(struct pool *pool, struct bench_case *bench, uint32_t operations,
			 uint32_t inner_bytes, uint32_t frames)
{
	size_t bytes = 0;
	int64_t begin_ns;

	for (uint32_t i = 0; i < frames; i++)
		bytes = frame_fill(pool->buffers + (size_t)i * BUFFER_BYTES, inner_bytes);
	begin_ns = bench_cpu_ns();
	for (uint32_t i = 0; i < operations; i++)
		seal(pool, pool->buffers + (size_t)(i % frames) * BUFFER_BYTES, bytes);
	bench_sample(bench, (double)(bench_cpu_ns() - begin_ns) / operations);
}

static void figure(struct bench_report *report, const struct bench_case *bench)
{
	struct bench_figure figure = {.unit = "ns", .value = bench_median(bench), .limit = LIMIT_NS};

	snprintf(figure.name, sizeof(figure.name), "%s", bench->name);
	report_figure(report, &figure);
}

void bench_seal(struct bench_report *report, const struct bench_plan *plan)
{
	static const uint32_t counts[] = {FEW, MANY};
	static const uint8_t key[KTSN_GCM_KEY_BYTES] = {1};
	struct bench_case *cases[SIZES][2];
	struct pool pool = {.buffers = bench_alloc((uint64_t)MANY * BUFFER_BYTES)};

	bench_must(ktsn_gcm_begin() == 0, "this processor has no AES-GCM");
	pool.key = aligned_alloc(64, (ktsn_gcm_key_bytes() + 63) / 64 * 64);
	bench_must(pool.key != NULL, "out of memory");
	ktsn_gcm_key_expand(pool.key, key);
	for (int s = 0; s < SIZES; s++)
		for (int c = 0; c < 2; c++)
			cases[s][c] = report_case(report, "ns", "seal: %u bytes, %u frames in turn", sizes[s],
						  counts[c]);
	for (uint32_t turn = 0; turn < plan->turns; turn++)
		for (int s = 0; s < SIZES; s++)
			for (int c = 0; c < 2; c++)
				size_measure(&pool, cases[s][c], plan->operations, sizes[s], counts[c]);
	for (int s = 0; s < SIZES; s++)
		figure(report, cases[s][0]);
	free(pool.key);
	free(pool.buffers);
}
