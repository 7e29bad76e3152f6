/* SPDX-License-Identifier: Apache-2.0 */
#include "esp.h"

#include "checksum.h"
#include "headers.h"

#include <endian.h>
#include <string.h>

enum {
	ALIGN_BYTES = 4,
	PAD_LENGTH_AND_NEXT_HEADER_BYTES = 2,
	/* Offsets in the IPv4 header. */
	AT_TOTAL_BYTES = 2,
	AT_PROTOCOL = 9,
	AT_CHECKSUM = 10,
	/* Offsets in the UDP header. */
	AT_DESTINATION_PORT = 2,
	AT_UDP_BYTES = 4,
	AT_ETHERTYPE = 12,
};

static size_t padding_bytes(size_t datagram_bytes)
{
	return -(datagram_bytes + PAD_LENGTH_AND_NEXT_HEADER_BYTES) % ALIGN_BYTES;
}

size_t ktsn_esp_bytes(size_t datagram_bytes)
{
	return KTSN_ESP_HEAD_BYTES + datagram_bytes + padding_bytes(datagram_bytes) +
	       PAD_LENGTH_AND_NEXT_HEADER_BYTES + KTSN_ESP_ICV_BYTES;
}

/* The padding bytes are 1, 2, 3 (RFC 4303 section 2.4). */
uint8_t *ktsn_esp_put(uint8_t *at, size_t datagram_bytes)
{
	uint8_t *trailer = at + KTSN_ESP_HEAD_BYTES + datagram_bytes;
	uint8_t padding = (uint8_t)padding_bytes(datagram_bytes);

	for (uint8_t i = 1; i <= padding; i++)
		*trailer++ = i;
	*trailer++ = padding;
	*trailer = KTSN_ESP_NEXT_HEADER_UDP;
	return at + KTSN_ESP_HEAD_BYTES;
}

static uint8_t *ipv4_find(uint8_t *frame)
{
	uint16_t ethertype_be;

	memcpy(&ethertype_be, frame + AT_ETHERTYPE, sizeof(ethertype_be));
	return frame + KTSN_ETHER_HEADER_BYTES +
	       (ktsn_frame_is_tagged(ethertype_be) ? KTSN_VLAN_TAG_BYTES : 0);
}

struct ktsn_esp ktsn_esp_find(uint8_t *frame, size_t frame_bytes)
{
	uint8_t *header = ipv4_find(frame) + KTSN_IPV4_HEADER_BYTES;
	uint8_t *icv = frame + frame_bytes - KTSN_ESP_ICV_BYTES;
	uint8_t *text = header + KTSN_ESP_HEAD_BYTES;

	return (struct ktsn_esp){
		.header = header, .text = text, .text_bytes = (size_t)(icv - text), .icv = icv};
}

void ktsn_esp_number(const struct ktsn_esp *esp, uint32_t spi, uint32_t sequence)
{
	const uint32_t header_be[2] = {htobe32(spi), htobe32(sequence)};
	const uint64_t iv_be = htobe64(sequence);

	memcpy(esp->header, header_be, sizeof(header_be));
	memcpy(esp->header + KTSN_ESP_HEADER_BYTES, &iv_be, sizeof(iv_be));
}

uint32_t ktsn_esp_sequence(const struct ktsn_esp *esp)
{
	uint32_t sequence_be;

	memcpy(&sequence_be, esp->header + sizeof(sequence_be), sizeof(sequence_be));
	return be32toh(sequence_be);
}

uint32_t ktsn_esp_destination_be(const struct ktsn_esp *esp)
{
	uint32_t destination_be;

	/* The last field of the IPv4 header. */
	memcpy(&destination_be, esp->header - sizeof(destination_be), sizeof(destination_be));
	return destination_be;
}

void ktsn_esp_nonce(const struct ktsn_esp *esp, const uint8_t salt[KTSN_ESP_SALT_BYTES],
		    uint8_t nonce[KTSN_ESP_NONCE_BYTES])
{
	memcpy(nonce, salt, KTSN_ESP_SALT_BYTES);
	memcpy(nonce + KTSN_ESP_SALT_BYTES, esp->header + KTSN_ESP_HEADER_BYTES, KTSN_ESP_IV_BYTES);
}

/* Sets the length, the protocol of the content, and the checksum of an IPv4 header. */
static void ipv4_rewrite(uint8_t *ipv4, uint16_t total_bytes, uint8_t protocol)
{
	const uint16_t total_bytes_be = htobe16(total_bytes), none = 0;
	uint16_t checksum_be;

	memcpy(ipv4 + AT_TOTAL_BYTES, &total_bytes_be, sizeof(total_bytes_be));
	ipv4[AT_PROTOCOL] = protocol;
	memcpy(ipv4 + AT_CHECKSUM, &none, sizeof(none));
	checksum_be = ktsn_checksum_fold_be(ktsn_checksum_add(0, ipv4, KTSN_IPV4_HEADER_BYTES));
	memcpy(ipv4 + AT_CHECKSUM, &checksum_be, sizeof(checksum_be));
}

size_t ktsn_esp_remove(uint8_t *frame, size_t frame_bytes, uint16_t destination_port_be)
{
	const struct ktsn_esp esp = ktsn_esp_find(frame, frame_bytes);
	uint8_t *ipv4 = ipv4_find(frame), *udp = ipv4 + KTSN_IPV4_HEADER_BYTES;
	uint16_t udp_bytes;

	memcpy(&udp_bytes, esp.text + AT_UDP_BYTES, sizeof(udp_bytes));
	udp_bytes = be16toh(udp_bytes);
	memmove(udp, esp.text, udp_bytes);
	memcpy(udp + AT_DESTINATION_PORT, &destination_port_be, sizeof(destination_port_be));
	ipv4_rewrite(ipv4, (uint16_t)(KTSN_IPV4_HEADER_BYTES + udp_bytes), KTSN_ESP_NEXT_HEADER_UDP);
	return (size_t)(udp + udp_bytes - frame);
}
