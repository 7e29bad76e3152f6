/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-hostile-guest PATH MODE MAC
 *
 * A front end of vhost-user that violates the protocol. It sets itself up like a good one, executes MODE,
 * sends one valid frame from MAC if it still can, and ends a moment later. Without arguments it lists its
 * modes.
 */
#include "wire.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_US = 300000, FRAME_BYTES = 64, KICKS = 200000, MESSAGES = 2000 };

static uint8_t own[6];

/* Descriptor i claims to point to this many bytes there. */
static void describe(const struct wire *wire, uint16_t i, uint64_t address, uint32_t bytes, uint16_t flags,
		     uint16_t next)
{
	wire_descriptors(wire)[i] = (struct vring_desc){address, bytes, flags, next};
}

static void good_frame(const struct wire *wire, uint16_t i)
{
	uint8_t *frame = wire->memory + AT_BUFFERS + HEADER_BYTES;
	const uint16_t ethertype_be = htons(0x88b6);

	memset(frame - HEADER_BYTES, 0, HEADER_BYTES + FRAME_BYTES);
	frame[0] = 2;
	memcpy(frame + 6, own, sizeof(own));
	memcpy(frame + 12, &ethertype_be, sizeof(ethertype_be));
	describe(wire, i, AT_BUFFERS, HEADER_BYTES + FRAME_BYTES, 0, 0);
	wire_offer(wire, i, 1);
}

/* ---- descriptors ---- */

static void loops(struct wire *wire)
{
	describe(wire, 0, AT_BUFFERS, 100, VRING_DESC_F_NEXT, 1);
	describe(wire, 1, AT_BUFFERS, 100, VRING_DESC_F_NEXT, 0);
	wire_offer(wire, 0, 1);
}

static void itself(struct wire *wire)
{
	describe(wire, 0, AT_BUFFERS, 0, VRING_DESC_F_NEXT, 0);
	wire_offer(wire, 0, 1);
}

static void lengths(struct wire *wire)
{
	static const uint32_t bytes[] = {0,
					 1,
					 HEADER_BYTES - 1,
					 HEADER_BYTES,
					 HEADER_BYTES + 1,
					 60000,
					 MEMORY_BYTES,
					 UINT32_MAX / 2,
					 UINT32_MAX};

	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		describe(wire, (uint16_t)i, AT_BUFFERS, bytes[i], 0, 0);
		wire_offer(wire, (uint16_t)i, 1);
	}
}

static void outside(struct wire *wire)
{
	static const uint64_t addresses[] = {MEMORY_BYTES,    MEMORY_BYTES - 20, UINT64_MAX,
					     UINT64_MAX - 50, 0x7f0000000000,    1ULL << 63};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		describe(wire, (uint16_t)i, addresses[i], 100, 0, 0);
		wire_offer(wire, (uint16_t)i, 1);
	}
}

static void too_long(struct wire *wire)
{
	for (uint16_t i = 0; i < 8; i++)
		describe(wire, i, AT_BUFFERS, 60000, 0, 0);
	wire_offer(wire, 0, 8);
	good_frame(wire, 8);
}

static void indices(struct wire *wire)
{
	wire_offer(wire, RING_SIZE, 1);
	wire_offer(wire, UINT16_MAX, 1);
	describe(wire, 0, AT_BUFFERS, 100, VRING_DESC_F_NEXT, UINT16_MAX);
	wire_offer(wire, 0, 1);
	wire_available(wire)->idx = (uint16_t)(wire_available(wire)->idx + 30000);
	wire_offer(wire, 0, 1);
}

static void tables(struct wire *wire)
{
	struct vring_desc *table = (struct vring_desc *)(wire->memory + AT_BUFFERS);
	static const uint32_t bytes[] = {0, 1, sizeof(*table), 1000 * sizeof(*table), UINT32_MAX};

	*table =
		(struct vring_desc){AT_BUFFERS, sizeof(*table), VRING_DESC_F_INDIRECT | VRING_DESC_F_NEXT, 0};
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		describe(wire, (uint16_t)i, AT_BUFFERS, bytes[i], VRING_DESC_F_INDIRECT, 0);
		wire_offer(wire, (uint16_t)i, 1);
	}
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Descriptors, available ring and buffers change while they are read. */
static void noise(struct wire *wire)
{
	uint64_t *words = (uint64_t *)(wire->memory + AT_RING);
	uint64_t random = 0x9e3779b97f4a7c15;

	for (int64_t until_ms = now_ms() + 1000; now_ms() < until_ms;) {
		for (int i = 0; i < 1000; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			words[random % (AT_USED / sizeof(*words))] =
				random & 1 ? random : random % MEMORY_BYTES;
		}
		wire_offer(wire, (uint16_t)(random % RING_SIZE), 8);
	}
}

static void kicks(struct wire *wire)
{
	const uint64_t increment = 1;

	for (int i = 0; i < KICKS; i++)
		(void)!write(wire->kick_fd, &increment, sizeof(increment));
	good_frame(wire, 0);
}

/* ---- memory and messages ---- */

static void shrinks(struct wire *wire)
{
	good_frame(wire, 0);
	usleep(SETTLE_US);
	describe(wire, 1, AT_BUFFERS, 100, 0, 0);
	wire_offer(wire, 1, 1);
	(void)!ftruncate(wire->memory_fd, 0);
}

/* A file on a disk: the back end blocks when it reads it, like one on a pod's file system. */
static void disk(struct wire *wire)
{
	char path[] = "/var/tmp/ktsn-test-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path) || ftruncate(fd, MEMORY_BYTES)) {
		perror(path);
		exit(1);
	}
	/* Its size differs; otherwise the back end would keep the old memory. */
	wire_memory_pass(wire, fd, MEMORY_BYTES / 2);
	if (wire_is_served(wire)) {
		fprintf(stderr, "ktsn-test-hostile-guest: a file of a disk is taken as memory\n");
		exit(1);
	}
}

static void messages(struct wire *wire)
{
	uint8_t bytes[256];
	unsigned int seed = 1;

	for (int i = 0; i < MESSAGES; i++) {
		for (size_t at = 0; at < sizeof(bytes); at++)
			bytes[at] = (uint8_t)rand_r(&seed);
		wire_send(wire, (uint32_t)rand_r(&seed) % 50, bytes, (uint32_t)rand_r(&seed) % sizeof(bytes),
			  -1);
		/* The back end hangs up on an invalid message. */
		if (i % 3 == 0) {
			close(wire->fd);
			wire_connect(wire, getenv("KTSN_TEST_PATH"));
		}
	}
}

static void many_rings(struct wire *wire)
{
	for (uint32_t i = 0; i < 300; i++) {
		const uint32_t state[2] = {i, RING_SIZE}, on[2] = {i, 1};

		wire_send(wire, SET_VRING_NUM, state, sizeof(state), -1);
		wire_send(wire, SET_VRING_ENABLE, on, sizeof(on), -1);
	}
	usleep(SETTLE_US);
}

/* While frames are read. */
static void stops(struct wire *wire)
{
	for (int i = 0; i < 200; i++) {
		for (uint16_t at = 0; at < 64; at++)
			good_frame(wire, at);
		wire_restart(wire);
	}
	good_frame(wire, 0);
}

static const struct {
	const char *name;
	void (*run)(struct wire *wire);
} modes[] = {
	{"loops", loops},       {"itself", itself},     {"lengths", lengths},       {"outside", outside},
	{"too-long", too_long}, {"indices", indices},   {"tables", tables},         {"noise", noise},
	{"kicks", kicks},       {"messages", messages}, {"many-rings", many_rings}, {"stops", stops},
	{"disk", disk},         {"shrinks", shrinks},
};

static int run(const char *path, const char *mode)
{
	struct wire wire = {0};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(mode, modes[i].name) != 0)
			continue;
		wire_begin(&wire, path);
		modes[i].run(&wire);
		usleep(SETTLE_US);
		return 0;
	}
	fprintf(stderr, "ktsn-test-hostile-guest: there is no mode %s\n", mode);
	return 2;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		puts(modes[i].name);
	if (argc == 1)
		return 0;
	if (argc != 4 || sscanf(argv[3], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &own[0], &own[1], &own[2], &own[3],
				&own[4], &own[5]) != 6)
		return 2;
	setenv("KTSN_TEST_PATH", argv[1], 1);
	return run(argv[1], argv[2]);
}
