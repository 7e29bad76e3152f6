/* SPDX-License-Identifier: Apache-2.0 */
#include "group_tap.h"

#include "group_frames.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Where things are: from the beginning of the frame, and behind the outer IPv4 header, whose length is X. */
enum {
	AT_ETHERTYPE = 12,
	AT_IP = 14,
	AT_FRAGMENT = AT_IP + 6,
	AT_PROTOCOL = AT_IP + 9,
	AT_PORT = AT_IP + 2,
	AT_CONTENT = AT_IP + KTSN_UDP_HEADER_BYTES + KTSN_VXLAN_HEADER_BYTES,
	AT_CONTENT_ETHERTYPE = AT_CONTENT + 12,
	AT_CONTENT_PROTOCOL = AT_CONTENT + 14 + 9,
	AT_CONTENT_NEXT_HEADER = AT_CONTENT + 14 + 6,
	ALL_OF_IT = 0x40000,
	/* A thousand nodes may announce something at once. */
	ROOM_BYTES = 2 << 20,
};

#define LOAD(size, mode, at)       BPF_STMT(BPF_LD | (size) | (mode), at)
#define UNLESS(value, skip)        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define IF(value, skip)            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0)
#define IF_ANY_BIT_OF(value, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, value, skip, 0)

/* A load behind the end of a packet drops it. */
static int filter_attach(int fd, uint16_t vxlan_port)
{
	struct sock_filter program[] = {
		LOAD(BPF_H, BPF_ABS, AT_ETHERTYPE),
		UNLESS(ETH_P_IP, 16),
		LOAD(BPF_B, BPF_ABS, AT_PROTOCOL),
		UNLESS(IPPROTO_UDP, 14),
		LOAD(BPF_H, BPF_ABS, AT_FRAGMENT),
		IF_ANY_BIT_OF(0x3fff, 12),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, AT_IP),
		LOAD(BPF_H, BPF_IND, AT_PORT),
		UNLESS(vxlan_port, 9),
		LOAD(BPF_H, BPF_IND, AT_CONTENT_ETHERTYPE),
		IF(GROUP_ETHERTYPE, 6),
		UNLESS(ETH_P_IP, 2),
		LOAD(BPF_B, BPF_IND, AT_CONTENT_PROTOCOL),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IGMP, 3, 4),
		UNLESS(ETH_P_IPV6, 3),
		LOAD(BPF_B, BPF_IND, AT_CONTENT_NEXT_HEADER),
		UNLESS(IPPROTO_HOPOPTS, 1),
		BPF_STMT(BPF_RET | BPF_K, ALL_OF_IT),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog filter = {.len = sizeof(program) / sizeof(program[0]), .filter = program};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ? -errno : 0;
}

/* With the filter before the first packet. */
static int tap_bind(int fd, int link_index, uint16_t vxlan_port)
{
	const struct sockaddr_ll link = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = link_index};
	int one = 1, room_bytes = ROOM_BYTES, err = filter_attach(fd, vxlan_port);

	if (err)
		return err;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room_bytes, sizeof(room_bytes));
	/* From Linux 4.20 on; without it ktsnd hears itself, and is none of its peers. */
	(void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
	return bind(fd, (const struct sockaddr *)&link, sizeof(link)) ? -errno : 0;
}

int group_tap_open(int link_index, uint16_t vxlan_port)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return -errno;
	err = tap_bind(fd, link_index, vxlan_port);
	if (!err)
		return fd;
	close(fd);
	return err;
}
