/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of ESP in transport mode with AES-GCM (RFC 4303, RFC 4106), around the UDP datagram of a tunnel:
 *
 *                       |<------------ head ----------->|                     |<---- trailer ---->|
 *   | Ethernet | IPv4 20 | SPI 4 | sequence 4 | IV 8     | UDP, VXLAN, frame    | padding 0-3, 2 | ICV 16 |
 *                        |<-- authenticated -->|          |<------------ encrypted ----------->|
 *
 * The caller provides keys and ciphers. Pure, like all of frame/.
 */
#ifndef KTSN_FRAME_ESP_H
#define KTSN_FRAME_ESP_H

#include <stddef.h>
#include <stdint.h>

enum {
	KTSN_ESP_HEADER_BYTES = 8, /* SPI and sequence number */
	KTSN_ESP_IV_BYTES = 8,
	KTSN_ESP_HEAD_BYTES = KTSN_ESP_HEADER_BYTES + KTSN_ESP_IV_BYTES,
	KTSN_ESP_ICV_BYTES = 16,
	/* How many bytes ESP adds to a datagram at most: with three bytes of padding. */
	KTSN_ESP_OVERHEAD_BYTES_MAX = KTSN_ESP_HEAD_BYTES + 3 + 2 + KTSN_ESP_ICV_BYTES,
	KTSN_ESP_SALT_BYTES = 4,
	KTSN_ESP_NONCE_BYTES = KTSN_ESP_SALT_BYTES + KTSN_ESP_IV_BYTES,
	KTSN_ESP_NEXT_HEADER_UDP = 17,
};

/* Length of ESP around a datagram, from the SPI to the end of the ICV. */
size_t ktsn_esp_bytes(size_t datagram_bytes);

/* Leaves room for the head, which ktsn_esp_number() fills in later, and writes padding and next header after
 * the datagram. Returns the position of the datagram. */
uint8_t *ktsn_esp_put(uint8_t *at, size_t datagram_bytes);

/* The parts of a frame's ESP. */
struct ktsn_esp {
	uint8_t *header; /* KTSN_ESP_HEADER_BYTES: authenticated */
	uint8_t *text;   /* encrypted in place */
	size_t text_bytes;
	uint8_t *icv;
};

/* Finds the parts in a frame that was built with `esp`. */
struct ktsn_esp ktsn_esp_find(uint8_t *frame, size_t frame_bytes);

/* Writes SPI and sequence number, and the sequence number also as the IV, which is thus unique for a key. */
void ktsn_esp_number(const struct ktsn_esp *esp, uint32_t spi, uint32_t sequence);
uint32_t ktsn_esp_sequence(const struct ktsn_esp *esp);

/* Address of the node to which the frame goes, in wire order. */
uint32_t ktsn_esp_destination_be(const struct ktsn_esp *esp);

/* The nonce of a frame that has a sequence number (RFC 4106 section 4). */
void ktsn_esp_nonce(const struct ktsn_esp *esp, const uint8_t salt[KTSN_ESP_SALT_BYTES],
		    uint8_t nonce[KTSN_ESP_NONCE_BYTES]);

/* Removes ESP from a frame that is not encrypted, so that it contains a datagram to that port. Returns the
 * new length of the frame. */
size_t ktsn_esp_remove(uint8_t *frame, size_t frame_bytes, uint16_t destination_port_be);

#endif
