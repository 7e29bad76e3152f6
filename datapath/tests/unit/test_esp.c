/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-GCM against published vectors, and the layout of ESP around a tunnel's datagram.
 */
#include "esp.h"
#include "frame.h"
#include "gcm.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { TEXT_BYTES_MAX = 128, FRAME_BYTES_MAX = 2048, KEY_ALIGN = 64, INNER_BYTES = 42 };

#define GOLDEN                                                                                               \
	"020000000102020000000101080045000074000040004032b654c0000201c00002020102030405060708000000000506"   \
	"070862fa2e4c3b913f49ed4eec3f1496210c292766322e8a905eb14fae73a4a99591820bd3356d252e70a295467be40f"   \
	"755f5da53d97cf978750667851f29868de7db97a143720cb0cc161d8dac69d02c907"

static size_t hex_read(const char *digits, uint8_t *bytes)
{
	size_t count = strlen(digits) / 2;

	for (size_t i = 0; i < count; i++) {
		char two[3] = {digits[2 * i], digits[2 * i + 1], '\0'};

		bytes[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return count;
}

static struct ktsn_gcm_key *key_make(const uint8_t bytes[KTSN_GCM_KEY_BYTES])
{
	size_t room = (ktsn_gcm_key_bytes() + KEY_ALIGN - 1) / KEY_ALIGN * KEY_ALIGN;
	struct ktsn_gcm_key *key = aligned_alloc(KEY_ALIGN, room);

	assert_int_equal(ktsn_gcm_begin(), 0);
	assert_non_null(key);
	ktsn_gcm_key_expand(key, bytes);
	return key;
}

/* The first two are whole ESP packets (draft-mcgrew-gcm-test-01, cases 2 and 1), the third is test case 4 of
 * the specification of GCM (McGrew and Viega). */
static const struct vector {
	const char *key, *nonce, *aad, *text, *sealed;
} vectors[] = {
	{"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "0000a5f80000000a",
	 "4500003e698f000080114dccc0a80102c0a801010a980035002a2343b2d0010000010000000000000373697009637962"
	 "65726369747902646b00000100010001",
	 "deb22cd9b07c72c16e3a65beeb8df304a5a5897d33ae530f1ba76d5d114d2a5c3de81827c10e9a4f51330d0eec416642"
	 "cfbb85a5b47e48a4ec3b9ba95d918bd183b70d3aa8bc6ee4c309e9d85a41ad4a"},
	{"4c80cdefbb5d10da906ac73c3613a634", "2e443b684956ed7e3b244cfe", "000043218765432100000000",
	 "45000048699a000080114db7c0a80102c0a801010a9bf15638d301000001000000000000045f736970045f7564700373"
	 "69700963796265726369747902646b000021000101020201",
	 "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34cfa2436f14a3f3cf65925bf1f4a13c5d"
	 "15b21e1884f5ff6247aeabb786b93bce61bc17d768fd9732459018148f6cbe722fd04796562dfdb4"},
	{"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
	 "feedfacedeadbeeffeedfacedeadbeefabaddad2",
	 "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
	 "b16aedf5aa0de657ba637b39",
	 "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa05"
	 "1ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47"},
};

TEST(published_vectors_match)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		uint8_t key_bytes[KTSN_GCM_KEY_BYTES], nonce[KTSN_GCM_NONCE_BYTES], aad[32];
		uint8_t text[TEXT_BYTES_MAX], plain[TEXT_BYTES_MAX], sealed[TEXT_BYTES_MAX];
		size_t aad_bytes = hex_read(vectors[i].aad, aad);
		size_t bytes = hex_read(vectors[i].text, plain);
		struct ktsn_gcm_key *key;

		assert_int_equal(hex_read(vectors[i].key, key_bytes), sizeof(key_bytes));
		assert_int_equal(hex_read(vectors[i].nonce, nonce), sizeof(nonce));
		assert_int_equal(hex_read(vectors[i].sealed, sealed), bytes + KTSN_GCM_TAG_BYTES);
		key = key_make(key_bytes);
		memcpy(text, plain, bytes);
		ktsn_gcm_seal(key, nonce, aad, aad_bytes, text, bytes, text + bytes);
		assert_memory_equal(text, sealed, bytes + KTSN_GCM_TAG_BYTES);
		assert_true(ktsn_gcm_open(key, nonce, aad, aad_bytes, text, bytes, text + bytes));
		assert_memory_equal(text, plain, bytes);
		free(key);
	}
}

TEST(changed_frames_do_not_open)
{
	const uint8_t key_bytes[KTSN_GCM_KEY_BYTES] = {1}, nonce[KTSN_GCM_NONCE_BYTES] = {2};
	struct ktsn_gcm_key *key = key_make(key_bytes);

	for (size_t bit = 0; bit < (8 + 20 + KTSN_GCM_TAG_BYTES) * 8; bit++) {
		uint8_t bytes[8 + 20 + KTSN_GCM_TAG_BYTES] = {7};

		ktsn_gcm_seal(key, nonce, bytes, 8, bytes + 8, 20, bytes + 28);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(ktsn_gcm_open(key, nonce, bytes, 8, bytes + 8, 20, bytes + 28));
	}
	free(key);
}

static const struct ktsn_frame_path inner = {
	.source_mac = {2, 0, 0, 0, 0, 1},
	.destination_mac = {2, 0, 0, 0, 0, 2},
	.source_ipv4_be = 0x0100000a,
	.destination_ipv4_be = 0x0200000a,
	.source_port_be = 0x1111,
	.destination_port_be = 0x2222,
	.ttl = 64,
};

static struct ktsn_frame_tunnel tunnel_make(bool esp, uint16_t vlan_id)
{
	return (struct ktsn_frame_tunnel){
		.outer =
			{
				.source_mac = {2, 0, 0, 0, 1, 1},
				.destination_mac = {2, 0, 0, 0, 1, 2},
				.source_ipv4_be = 0x010200c0,
				.destination_ipv4_be = 0x020200c0,
				.source_port_be = 0x50c3,
				.destination_port_be = htons(esp ? 4793 : 4789),
				.ttl = 64,
			},
		.vni = 42,
		.vlan_id = vlan_id,
		.pcp = 3,
		.esp = esp,
	};
}

/* Returns the bytes of the frame. */
static size_t frame_make(uint8_t frame[FRAME_BYTES_MAX], const struct ktsn_frame_tunnel *tunnel,
			 size_t payload_bytes)
{
	size_t headers_bytes = ktsn_frame_header_bytes(&inner, tunnel);

	for (size_t i = 0; i < payload_bytes; i++)
		frame[headers_bytes + i] = (uint8_t)(i * 7 + 3);
	assert_int_equal(ktsn_frame_build(frame, FRAME_BYTES_MAX, &inner, tunnel, payload_bytes),
			 headers_bytes);
	return headers_bytes + payload_bytes + ktsn_frame_trailer_bytes(&inner, tunnel, payload_bytes);
}

TEST(esp_encloses_the_datagram)
{
	const struct ktsn_frame_tunnel tunnel = tunnel_make(true, 0);

	for (size_t payload = 0; payload <= 1400; payload++) {
		uint8_t frame[FRAME_BYTES_MAX] = {0};
		size_t bytes = frame_make(frame, &tunnel, payload), udp_bytes = 8 + 8 + INNER_BYTES + payload;
		const struct ktsn_esp esp = ktsn_esp_find(frame, bytes);
		size_t padding = esp.text[esp.text_bytes - 2];

		assert_int_equal(frame[14 + 9], 50);
		assert_int_equal(frame[14 + 2] << 8 | frame[14 + 3], bytes - 14);
		assert_ptr_equal(esp.header, frame + 14 + 20);
		assert_ptr_equal(esp.text, esp.header + 8 + 8);
		assert_ptr_equal(esp.icv + 16, frame + bytes);
		assert_int_equal(ktsn_esp_destination_be(&esp), tunnel.outer.destination_ipv4_be);
		assert_int_equal(esp.text_bytes % 4, 0);
		assert_true(padding < 4);
		assert_int_equal(esp.text_bytes, udp_bytes + padding + 2);
		for (size_t i = 0; i < padding; i++)
			assert_int_equal(esp.text[udp_bytes + i], i + 1);
		assert_int_equal(esp.text[esp.text_bytes - 1], 17);
		assert_true(bytes - 14 - 20 - udp_bytes <= KTSN_ESP_OVERHEAD_BYTES_MAX);
		assert_int_equal(esp.text[2] << 8 | esp.text[3], 4793);
	}
	assert_int_equal(KTSN_ESP_OVERHEAD_BYTES_MAX, 37);
}

/* With and without a VLAN tag. */
TEST(frame_without_esp_is_unchanged)
{
	for (uint16_t vlan_id = 0; vlan_id <= 7; vlan_id += 7) {
		const struct ktsn_frame_tunnel with = tunnel_make(true, vlan_id),
					       without = tunnel_make(false, vlan_id);

		for (size_t payload = 0; payload <= 300; payload++) {
			uint8_t frame[FRAME_BYTES_MAX] = {0}, expected[FRAME_BYTES_MAX] = {0};
			size_t bytes = frame_make(frame, &with, payload);
			size_t expected_bytes = frame_make(expected, &without, payload);

			assert_int_equal(ktsn_esp_remove(frame, bytes, htons(4789)), expected_bytes);
			assert_memory_equal(frame, expected, expected_bytes);
		}
	}
}

TEST(frame_too_long_for_esp_is_refused)
{
	const struct ktsn_frame_tunnel tunnel = tunnel_make(true, 0);
	uint8_t frame[FRAME_BYTES_MAX];
	size_t bytes = frame_make(frame, &tunnel, 100);

	assert_int_equal(ktsn_frame_build(frame, bytes, &inner, &tunnel, 100),
			 ktsn_frame_header_bytes(&inner, &tunnel));
	assert_true(ktsn_frame_build(frame, bytes - 1, &inner, &tunnel, 100) < 0);
}

/* The frame on the wire, with numbers whose bytes all differ; checked with Go's crypto/cipher. */
TEST(sealed_frame_matches_the_golden_frame)
{
	const struct ktsn_frame_tunnel tunnel = tunnel_make(true, 0);
	const uint8_t salt[KTSN_ESP_SALT_BYTES] = {0x10, 0x11, 0x12, 0x13};
	uint8_t key_bytes[KTSN_GCM_KEY_BYTES], nonce[KTSN_ESP_NONCE_BYTES], frame[FRAME_BYTES_MAX],
		golden[FRAME_BYTES_MAX];
	size_t bytes = frame_make(frame, &tunnel, 3);
	const struct ktsn_esp esp = ktsn_esp_find(frame, bytes);
	struct ktsn_gcm_key *key;

	for (size_t i = 0; i < sizeof(key_bytes); i++)
		key_bytes[i] = (uint8_t)i;
	key = key_make(key_bytes);
	ktsn_esp_number(&esp, 0x01020304, 0x05060708);
	assert_int_equal(ktsn_esp_sequence(&esp), 0x05060708);
	ktsn_esp_nonce(&esp, salt, nonce);
	ktsn_gcm_seal(key, nonce, esp.header, KTSN_ESP_HEADER_BYTES, esp.text, esp.text_bytes, esp.icv);
	assert_int_equal(hex_read(GOLDEN, golden), bytes);
	assert_memory_equal(frame, golden, bytes);
	free(key);
}
