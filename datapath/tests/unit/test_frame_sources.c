/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source addresses that a frame claims.
 */
#include "frame_sources.h"

#include "frames.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "unit_test.h"

enum { IPV4 = 0x0800, ARP = 0x0806, RARP = 0x8035, IPV6 = 0x86dd, C_TAG = 0x8100, S_TAG = 0x88a8 };

static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

/* The buffer ends where the frame ends, so that a sanitizer detects any byte read beyond it. */
static int sources_of(uint16_t ethertype, const uint8_t *payload, size_t bytes,
		      struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX])
{
	uint8_t *exact = malloc(bytes ? bytes : 1);
	int count;

	assert_non_null(exact);
	memcpy(exact, payload, bytes);
	count = ktsn_frame_sources(htobe16(ethertype), exact, bytes, sources);
	free(exact);
	return count;
}

static void assert_source(const struct ktsn_frame_source *source, int family, const char *text)
{
	uint8_t bytes[16] = {0};

	assert_int_equal(source->kind, family == AF_INET ? KTSN_SOURCE_IPV4 : KTSN_SOURCE_IPV6);
	assert_int_equal(inet_pton(family, text, bytes), 1);
	assert_memory_equal(source->bytes, bytes, sizeof(bytes));
}

TEST(sources_of_each_protocol)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	uint8_t frame[FRAMES_BYTES_MAX];

	assert_int_equal(sources_of(IPV4, frame, ipv4_make(frame, "10.42.1.2"), sources), 1);
	assert_source(&sources[0], AF_INET, "10.42.1.2");
	assert_int_equal(sources_of(IPV6, frame, ipv6_make(frame, "fd00::2", 17), sources), 1);
	assert_source(&sources[0], AF_INET6, "fd00::2");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			sources_of(i ? RARP : ARP, frame, arp_make(frame, mac, "10.42.1.3"), sources), 2);
		assert_int_equal(sources[0].kind, KTSN_SOURCE_MAC);
		assert_memory_equal(sources[0].bytes, mac, sizeof(mac));
		assert_source(&sources[1], AF_INET, "10.42.1.3");
	}
	assert_int_equal(sources_of(0x88f7, frame, 10, sources), 0);
	assert_int_equal(sources_of(0x05dc, frame, 0, sources), 0);
}

TEST(advertised_neighbor_after_extension_headers)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	uint8_t frame[FRAMES_BYTES_MAX];

	assert_int_equal(sources_of(IPV6, frame, advertisement_make(frame, "fd00::2", "fd00::9"), sources),
			 2);
	assert_source(&sources[1], AF_INET6, "fd00::9");
	/* Destination options of 16 bytes, and hop-by-hop options of 8. */
	memmove(frame + 64, frame + 40, 24);
	memset(frame + 40, 0, 24);
	frame[6] = 60;
	frame[40] = 0;
	frame[41] = 1;
	frame[56] = 58;
	assert_int_equal(sources_of(IPV6, frame, 88, sources), 2);
	assert_source(&sources[1], AF_INET6, "fd00::9");
	/* A solicitation asks for an address and claims none. */
	advertisement_make(frame, "fd00::2", "fd00::9");
	frame[40] = 135;
	assert_int_equal(sources_of(IPV6, frame, 64, sources), 1);
}

TEST(sources_after_tags)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	uint8_t frame[FRAMES_BYTES_MAX];
	size_t bytes = tag_push(frame, ipv4_make(frame, "10.42.1.2"), IPV4, 0);

	assert_int_equal(sources_of(C_TAG, frame, bytes, sources), 1);
	assert_source(&sources[0], AF_INET, "10.42.1.2");
	bytes = tag_push(frame, bytes, C_TAG, 0);
	assert_int_equal(sources_of(S_TAG, frame, bytes, sources), 1);
	assert_source(&sources[0], AF_INET, "10.42.1.2");
	bytes = tag_push(frame, bytes, S_TAG, 0);
	assert_int_equal(sources_of(S_TAG, frame, bytes, sources), -EBADMSG);
}

TEST(truncated_frames_are_refused)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	uint8_t frame[FRAMES_BYTES_MAX];
	size_t whole;

	whole = tag_push(frame, ipv4_make(frame, "10.42.1.2"), IPV4, 0);
	for (size_t bytes = 0; bytes < whole; bytes++)
		assert_int_equal(sources_of(C_TAG, frame, bytes, sources), -EBADMSG);
	whole = arp_make(frame, mac, "10.42.1.2");
	for (size_t bytes = 0; bytes < whole; bytes++)
		assert_int_equal(sources_of(ARP, frame, bytes, sources), -EBADMSG);
	whole = advertisement_make(frame, "fd00::2", "fd00::9");
	for (size_t bytes = 41; bytes < whole; bytes++)
		assert_int_equal(sources_of(IPV6, frame, bytes, sources), -EBADMSG);
	frame[6] = 0; /* hop-by-hop, then an invalid header */
	frame[41] = 200;
	assert_int_equal(sources_of(IPV6, frame, whole, sources), -EBADMSG);
}

TEST(mismatched_ethertype_is_refused)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	uint8_t frame[FRAMES_BYTES_MAX];

	assert_int_equal(sources_of(IPV6, frame, ipv4_make(frame, "10.42.1.2") + 40, sources), -EBADMSG);
	assert_int_equal(sources_of(IPV4, frame, ipv6_make(frame, "fd00::2", 17), sources), -EBADMSG);
	arp_make(frame, mac, "10.42.1.2");
	frame[4] = 8;
	assert_int_equal(sources_of(ARP, frame, 40, sources), -EBADMSG);
}
