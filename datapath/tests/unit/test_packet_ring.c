/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transmit ring of a packet socket: which of the last frames the kernel left in it, and that the kernel
 * skips withdrawn frames. The second half needs a network namespace, as root or in a user namespace.
 */
#include "packet_ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit_test.h"

enum { SLOTS = 8, SLOT_BYTES = 2048, FRAME_BYTES = 60 };

static struct tpacket2_hdr *slot(const struct packet_ring *ring, uint32_t index)
{
	return (struct tpacket2_hdr *)(void *)(ring->slots + (size_t)(index % SLOTS) * SLOT_BYTES);
}

/* As DPDK writes them. */
static void put(const struct packet_ring *ring, uint32_t at, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		slot(ring, at + i)->tp_len = slot(ring, at + i)->tp_snaplen = FRAME_BYTES;
		slot(ring, at + i)->tp_status = TP_STATUS_SEND_REQUEST;
	}
}

/* Every start position, number of frames, and number of departed frames. */
static void unsent_frames_are_withdrawn(void **state)
{
	for (uint32_t begin = 0; begin < 2 * SLOTS; begin++)
		for (uint32_t count = 1; count <= SLOTS; count++)
			for (uint32_t sent = 0; sent <= count; sent++) {
				struct packet_ring ring = {.slots = calloc(SLOTS, SLOT_BYTES),
							   .slot_bytes = SLOT_BYTES,
							   .slot_count = SLOTS,
							   .next = begin};

				assert_non_null(ring.slots);
				put(&ring, begin, count);
				for (uint32_t i = 0; i < sent; i++)
					slot(&ring, begin + i)->tp_status =
						i % 2 ? TP_STATUS_SENDING : TP_STATUS_AVAILABLE;
				assert_int_equal(packet_ring_withdraw(&ring, count), count - sent);
				for (uint32_t i = 0; i < count; i++)
					assert_int_equal(slot(&ring, begin + i)->tp_len,
							 i < sent ? FRAME_BYTES : UINT32_MAX);
				assert_int_equal(ring.next, begin + count);
				free(ring.slots);
			}
}

/* Enters a new network namespace with its loopback interface up. Returns false if the test may not create
 * one. */
static bool namespace_enter(void)
{
	struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd, err;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	err = ioctl(fd, SIOCSIFFLAGS, &up);
	close(fd);
	return !err;
}

/* As net_af_packet creates one. */
static int socket_make(bool loss)
{
	const struct sockaddr_ll lo = {.sll_family = AF_PACKET,
				       .sll_protocol = htons(ETH_P_ALL),
				       .sll_ifindex = (int)if_nametoindex("lo")};
	const struct tpacket_req rings = {.tp_block_size = 4096,
					  .tp_block_nr = SLOTS * SLOT_BYTES / 4096,
					  .tp_frame_size = SLOT_BYTES,
					  .tp_frame_nr = SLOTS};
	int version = TPACKET_V2, on = loss, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	assert_return_code(fd, errno);
	assert_return_code(setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)), errno);
	assert_return_code(setsockopt(fd, SOL_PACKET, PACKET_LOSS, &on, sizeof(on)), errno);
	assert_return_code(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &rings, sizeof(rings)), errno);
	assert_return_code(setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &rings, sizeof(rings)), errno);
	assert_return_code(bind(fd, (const struct sockaddr *)&lo, sizeof(lo)), errno);
	return fd;
}

static void ring_is_found_by_its_interface(void **state)
{
	struct packet_ring ring = {.slots = NULL};
	int fd;

	fd = socket_make(false);
	/* DPDK would not skip a withdrawn frame. */
	assert_int_equal(packet_ring_open(&ring, "lo", SLOT_BYTES, SLOTS), -ENOTSUP);
	close(fd);
	assert_int_equal(packet_ring_open(&ring, "lo", SLOT_BYTES, SLOTS), -ENOENT);
	fd = socket_make(true);
	assert_int_equal(packet_ring_open(&ring, "lo", SLOT_BYTES, SLOTS), 0);
	packet_ring_close(&ring);
	assert_null(ring.slots);
	packet_ring_close(&ring);
	close(fd);
}

static void frame_put(const struct packet_ring *ring, uint32_t at, uint8_t number)
{
	uint8_t *frame = (uint8_t *)slot(ring, at) + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll);

	memset(frame, number, FRAME_BYTES);
	put(ring, at, 1);
}

static void kernel_skips_withdrawn_frames(void **state)
{
	const struct timeval wait = {.tv_sec = 5};
	struct packet_ring ring = {.slots = NULL};
	uint8_t frame[SLOT_BYTES];
	int fd, receiver;

	fd = socket_make(true);
	receiver = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	assert_return_code(
		bind(receiver,
		     (const struct sockaddr *)&(struct sockaddr_ll){.sll_family = AF_PACKET,
								    .sll_protocol = htons(ETH_P_ALL),
								    .sll_ifindex = (int)if_nametoindex("lo")},
		     sizeof(struct sockaddr_ll)),
		errno);
	assert_return_code(setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), errno);
	assert_int_equal(packet_ring_open(&ring, "lo", SLOT_BYTES, SLOTS), 0);
	/* No call sends the first two, as if the device had not taken them. */
	frame_put(&ring, 0, 1);
	frame_put(&ring, 1, 2);
	assert_int_equal(packet_ring_withdraw(&ring, 2), 2);
	frame_put(&ring, 2, 3);
	assert_return_code(sendto(fd, NULL, 0, 0, NULL, 0), errno);
	assert_int_equal(packet_ring_withdraw(&ring, 1), 0);
	assert_int_equal(recv(receiver, frame, sizeof(frame), 0), FRAME_BYTES);
	assert_int_equal(frame[0], 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_not_equal(slot(&ring, i)->tp_status, TP_STATUS_SEND_REQUEST);
	packet_ring_close(&ring);
	close(receiver);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unsent_frames_are_withdrawn),
		cmocka_unit_test(ring_is_found_by_its_interface),
		cmocka_unit_test(kernel_skips_withdrawn_frames),
	};
	/* Without a namespace, run only the tests that need none; run all of them where nothing may be
	 * skipped. */
	bool all = namespace_enter() || getenv("KTSN_REQUIRE") || getenv("CI");

	return _cmocka_run_group_tests("packet_ring", tests, all ? sizeof(tests) / sizeof(tests[0]) : 1, NULL,
				       NULL);
}
