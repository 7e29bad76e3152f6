/* SPDX-License-Identifier: Apache-2.0 */
#include "packet_ring.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { PACKET_FD_MAX = 1024 /* ktsnd has few descriptors yet when it opens its port */ };

/*
 * A negative length is malformed. The kernel drops such a slot at the next send and continues with the next
 * slot, because DPDK sets PACKET_LOSS. For a length that is only too long the kernel would write a log
 * message.
 */
static const uint32_t withdrawn_length = UINT32_MAX;

/* DPDK has no call that returns the descriptor of its packet socket, so this checks what each is bound to. */
static int fd_find(const char *interface)
{
	int link_index = (int)if_nametoindex(interface);
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return -errno;
	for (int fd = 0; fd < (int)limit.rlim_cur && fd < PACKET_FD_MAX; fd++) {
		struct sockaddr_ll bound = {0};
		socklen_t bytes = sizeof(bound);

		if (getsockname(fd, (struct sockaddr *)&bound, &bytes) == 0 &&
		    bound.sll_family == AF_PACKET && bound.sll_ifindex == link_index)
			return fd;
	}
	return -ENOENT;
}

int packet_ring_open(struct packet_ring *ring, const char *interface, uint32_t slot_bytes,
		     uint32_t slot_count)
{
	size_t bytes = (size_t)slot_bytes * slot_count;
	int loss = 0, fd = fd_find(interface);
	socklen_t loss_bytes = sizeof(loss);

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_PACKET, PACKET_LOSS, &loss, &loss_bytes))
		return -errno;
	if (!loss)
		return -ENOTSUP;
	ring->mapping = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring->mapping == MAP_FAILED)
		return -errno;
	ring->mapping_bytes = 2 * bytes;
	ring->slots = (uint8_t *)ring->mapping + bytes;
	ring->slot_bytes = slot_bytes;
	ring->slot_count = slot_count;
	return 0;
}

void packet_ring_close(struct packet_ring *ring)
{
	if (ring->slots)
		munmap(ring->mapping, ring->mapping_bytes);
	ring->slots = NULL;
}

static struct tpacket2_hdr *slot_at(const struct packet_ring *ring, uint32_t index)
{
	return (struct tpacket2_hdr *)(ring->slots + (size_t)(index % ring->slot_count) * ring->slot_bytes);
}

uint32_t packet_ring_withdraw(struct packet_ring *ring, uint32_t count)
{
	uint32_t left = 0;

	ring->next += count;
	while (left < count) {
		struct tpacket2_hdr *slot = slot_at(ring, ring->next - 1 - left);

		/* The kernel changes it in the call that just returned, or later when the receiver frees it.
		 */
		if (__atomic_load_n(&slot->tp_status, __ATOMIC_RELAXED) != TP_STATUS_SEND_REQUEST)
			break;
		slot->tp_len = withdrawn_length;
		left++;
	}
	return left;
}
