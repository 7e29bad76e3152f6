/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of ARP, NDP and reverse ARP frames for tests: the bytes after the EtherType. Each function returns
 * their length.
 */
#ifndef KTSN_TESTS_FRAMES_H
#define KTSN_TESTS_FRAMES_H

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FRAMES_BYTES_MAX = 256 };

static inline size_t ipv4_make(uint8_t *at, const char *source)
{
	memset(at, 0, 20);
	at[0] = 0x45;
	inet_pton(AF_INET, source, at + 12);
	inet_pton(AF_INET, "10.42.9.9", at + 16);
	return 20;
}

static inline size_t ipv6_make(uint8_t *at, const char *source, uint8_t next_header)
{
	memset(at, 0, 40);
	at[0] = 0x60;
	at[6] = next_header;
	inet_pton(AF_INET6, source, at + 8);
	inet_pton(AF_INET6, "ff02::1", at + 24);
	return 40;
}

static inline size_t advertisement_make(uint8_t *at, const char *source, const char *target)
{
	ipv6_make(at, source, 58);
	memset(at + 40, 0, 24);
	at[40] = 136;
	inet_pton(AF_INET6, target, at + 48);
	return 64;
}

static inline size_t arp_make(uint8_t *at, const uint8_t mac[6], const char *source)
{
	static const uint8_t begins[] = {0, 1, 8, 0, 6, 4, 0, 1};

	memset(at, 0, 28);
	memcpy(at, begins, sizeof(begins));
	memcpy(at + 8, mac, 6);
	inet_pton(AF_INET, source, at + 14);
	return 28;
}

/* Writes a priority tag and the payload's EtherType into the bytes before `payload`. */
static inline size_t tag_push(uint8_t *at, size_t bytes, uint16_t ethertype, uint8_t pcp)
{
	memmove(at + 4, at, bytes);
	at[0] = (uint8_t)(pcp << 5);
	at[1] = 7;
	at[2] = (uint8_t)(ethertype >> 8);
	at[3] = (uint8_t)ethertype;
	return bytes + 4;
}

#endif
