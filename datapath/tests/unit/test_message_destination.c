/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libktsn's parser of a message's destination and options finds, or refuses, what the kernel would.
 */
#include "message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

#ifndef SCM_TXTIME
#define SCM_TXTIME 61
#endif

enum { CONTROL_BYTES = 256 };

static const struct socket_kind ipv4 = {AF_INET, false}, ipv6 = {AF_INET6, false},
				packet_raw = {AF_PACKET, true}, packet_dgram = {AF_PACKET, false};

/* May be newer than the headers. */
enum { IP_PROTOCOL_CONTROL = 52, SCM_TS_OPT_ID_CONTROL = 81 };

/* A message with a transmit time and the options that a test adds. */
struct letter {
	int fd;
	struct msghdr message;
	uint8_t control[CONTROL_BYTES];
	struct sockaddr_in6 to_ipv6;
	struct sockaddr_in to_ipv4;
	struct sockaddr_ll to_link;
	struct iovec iov;
	struct ktsn_app_key key;
};

static void add(struct letter *letter, int level, int type, size_t cmsg_len, const void *data, size_t bytes)
{
	struct cmsghdr header = {.cmsg_len = cmsg_len, .cmsg_level = level, .cmsg_type = type};
	uint8_t *at = letter->control + letter->message.msg_controllen;

	memcpy(at, &header, sizeof(header));
	memcpy(at + CMSG_LEN(0), data, bytes);
	letter->message.msg_control = letter->control;
	letter->message.msg_controllen += CMSG_SPACE(bytes);
}

static void add_int(struct letter *letter, int level, int type, int value)
{
	add(letter, level, type, CMSG_LEN(sizeof(value)), &value, sizeof(value));
}

static void letter_init(struct letter *letter)
{
	int64_t txtime_ns = 1;

	memset(letter, 0, sizeof(*letter));
	add(letter, SOL_SOCKET, SCM_TXTIME, CMSG_LEN(sizeof(txtime_ns)), &txtime_ns, sizeof(txtime_ns));
}

static void address_to(struct letter *letter, const char *text, uint32_t scope)
{
	if (strchr(text, ':')) {
		letter->to_ipv6 = (struct sockaddr_in6){
			.sin6_family = AF_INET6, .sin6_port = htons(7788), .sin6_scope_id = scope};
		assert_int_equal(inet_pton(AF_INET6, text, &letter->to_ipv6.sin6_addr), 1);
		letter->message.msg_name = &letter->to_ipv6;
		letter->message.msg_namelen = sizeof(letter->to_ipv6);
		return;
	}
	letter->to_ipv4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(7788)};
	assert_int_equal(inet_pton(AF_INET, text, &letter->to_ipv4.sin_addr), 1);
	letter->message.msg_name = &letter->to_ipv4;
	letter->message.msg_namelen = sizeof(letter->to_ipv4);
}

static int read_as(struct letter *letter, struct socket_kind kind)
{
	return message_destination_read(&letter->message, kind, letter->fd, &letter->key);
}

TEST(empty_message_uses_the_socket)
{
	static const struct ktsn_app_key nothing;
	struct letter letter;

	letter_init(&letter);
	assert_int_equal(read_as(&letter, ipv4), 0);
	assert_memory_equal(&letter.key, &nothing, sizeof(nothing));
	assert_int_equal(read_as(&letter, ipv6), 0);
	/* Irrelevant for a frame. */
	add_int(&letter, SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE);
	assert_int_equal(read_as(&letter, ipv4), 0);
	letter.to_ipv6 = (struct sockaddr_in6){.sin6_family = AF_UNSPEC};
	letter.message.msg_name = &letter.to_ipv6;
	letter.message.msg_namelen = sizeof(letter.to_ipv6);
	assert_int_equal(read_as(&letter, ipv6), 0);
}

TEST(equal_addresses_share_a_key)
{
	struct letter letter, mapped;

	letter_init(&letter);
	address_to(&letter, "10.42.2.2", 0);
	assert_int_equal(read_as(&letter, ipv4), 1);
	assert_int_equal(letter.key.family, AF_INET);
	letter_init(&mapped);
	address_to(&mapped, "::ffff:10.42.2.2", 0);
	assert_int_equal(read_as(&mapped, ipv6), 1);
	assert_memory_equal(&mapped.key, &letter.key, sizeof(letter.key));
	/* An IPv6 socket accepts an IPv4 address as well. */
	assert_int_equal(read_as(&letter, ipv6), 1);
	assert_memory_equal(&mapped.key, &letter.key, sizeof(letter.key));
}

TEST(scopes_of_link_local_addresses_count)
{
	static const struct {
		const char *address;
		uint32_t interface;
	} cases[] = {{"fe80::1", 7}, {"ff02::1", 7}, {"ff01::1", 7}, {"fd00::1", 0}, {"ff15::1", 0}};
	struct letter letter;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		letter_init(&letter);
		address_to(&letter, cases[i].address, 7);
		assert_int_equal(read_as(&letter, ipv6), 1);
		assert_int_equal(letter.key.family, AF_INET6);
		assert_int_equal(letter.key.interface, cases[i].interface);
	}
	/* RFC 2133 had no scope. */
	letter.message.msg_namelen = 24;
	assert_int_equal(read_as(&letter, ipv6), 1);
	letter.message.msg_namelen = 23;
	assert_int_equal(read_as(&letter, ipv6), -EINVAL);
}

TEST(invalid_addresses_are_refused)
{
	struct letter letter;

	letter_init(&letter);
	address_to(&letter, "fd00::1", 0);
	assert_int_equal(read_as(&letter, ipv4), -EAFNOSUPPORT);
	letter.to_ipv6.sin6_port = 0;
	assert_int_equal(read_as(&letter, ipv6), -EINVAL);
	letter.to_ipv6.sin6_family = AF_UNIX;
	assert_int_equal(read_as(&letter, ipv6), -EINVAL);
	letter.message.msg_namelen = 1;
	assert_int_equal(read_as(&letter, ipv6), -EINVAL);
	address_to(&letter, "10.42.2.2", 0);
	letter.message.msg_namelen = 15;
	assert_int_equal(read_as(&letter, ipv4), -EINVAL);
	assert_int_equal(read_as(&letter, ipv6), -EINVAL);
}

TEST(control_messages_of_ipv4_are_read)
{
	struct in_pktinfo info = {.ipi_ifindex = 3};
	uint8_t tos = 0x10;
	struct letter letter;

	inet_pton(AF_INET, "10.42.1.9", &info.ipi_spec_dst);
	letter_init(&letter);
	add(&letter, IPPROTO_IP, IP_TOS, CMSG_LEN(1), &tos, 1);
	add_int(&letter, IPPROTO_IP, IP_TTL, 9);
	add(&letter, IPPROTO_IP, IP_PKTINFO, CMSG_LEN(sizeof(info)), &info, sizeof(info));
	add_int(&letter, SOL_SOCKET, SO_PRIORITY, 5);
	assert_int_equal(read_as(&letter, ipv4), 1);
	assert_int_equal(letter.key.carries, KTSN_APP_CARRIES_ALL);
	assert_int_equal(letter.key.tos, 0x10);
	assert_int_equal(letter.key.ttl, 9);
	assert_int_equal(letter.key.priority, 5);
	assert_int_equal(letter.key.interface, 3);
	assert_memory_equal(letter.key.source, &info.ipi_spec_dst, 4);
	/* The socket's address decides the family; this destination has another family. */
	assert_int_equal(read_as(&letter, ipv6), 1);
	assert_int_equal(letter.key.carries, KTSN_APP_CARRIES_PRIORITY);
}

TEST(control_messages_of_ipv6_are_read)
{
	struct in6_pktinfo info = {.ipi6_ifindex = 3};
	struct letter letter;

	inet_pton(AF_INET6, "fd00:42:1::9", &info.ipi6_addr);
	letter_init(&letter);
	address_to(&letter, "fd00:42:2::2", 0);
	add_int(&letter, IPPROTO_IPV6, IPV6_TCLASS, 0x2e);
	add_int(&letter, IPPROTO_IPV6, IPV6_HOPLIMIT, 2);
	add_int(&letter, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
	add(&letter, IPPROTO_IPV6, IPV6_PKTINFO, CMSG_LEN(sizeof(info)), &info, sizeof(info));
	assert_int_equal(read_as(&letter, ipv6), 1);
	assert_int_equal(letter.key.carries, KTSN_APP_CARRIES_TOS | KTSN_APP_CARRIES_TTL);
	assert_int_equal(letter.key.tos, 0x2e);
	assert_int_equal(letter.key.ttl, 2);
	assert_int_equal(letter.key.interface, 3);
	assert_memory_equal(letter.key.source, &info.ipi6_addr, 16);
	/* For an IPv4 destination the source must be IPv4, too. */
	address_to(&letter, "::ffff:10.42.2.2", 0);
	assert_int_equal(read_as(&letter, ipv6), -EINVAL);
}

/* -1 selects the socket's value. */
TEST(ipv6_defaults_can_be_requested)
{
	struct letter letter;

	letter_init(&letter);
	add_int(&letter, IPPROTO_IPV6, IPV6_HOPLIMIT, -1);
	assert_int_equal(read_as(&letter, ipv6), 0);
	add_int(&letter, IPPROTO_IPV6, IPV6_TCLASS, -1);
	assert_int_equal(read_as(&letter, ipv6), 0);
	assert_int_equal(letter.key.carries, 0);
}

/* The last one counts. */
TEST(ipv6_defaults_come_back)
{
	struct letter letter;

	letter_init(&letter);
	add_int(&letter, IPPROTO_IPV6, IPV6_TCLASS, 0x2e);
	add_int(&letter, IPPROTO_IPV6, IPV6_TCLASS, -1);
	assert_int_equal(read_as(&letter, ipv6), 0);
	assert_int_equal(letter.key.carries, 0);
}

TEST(a_mark_is_refused)
{
	struct letter letter;
	int err;

	letter_init(&letter);
	add_int(&letter, SOL_SOCKET, SO_MARK, 1);
	err = read_as(&letter, ipv4);
	/* With and without the privilege. */
	assert_true(err == -EOPNOTSUPP || err == -EPERM);
}

TEST(bad_control_messages_are_refused)
{
	static const struct {
		struct socket_kind kind;
		int level, type, value, error;
	} cases[] = {
		{{AF_INET, false}, IPPROTO_IP, IP_TTL, 0, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, IP_TTL, 256, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, IP_TOS, -1, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, IP_TOS, 256, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, IP_PKTINFO, 1, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, 999, 1, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, IP_PROTOCOL_CONTROL, 0, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, IP_PROTOCOL_CONTROL, 256, -EINVAL},
		{{AF_INET, false}, IPPROTO_IP, IP_RETOPTS, 1, -EOPNOTSUPP},
		{{AF_INET, false}, SOL_SOCKET, SO_PRIORITY, 16, -EPERM},
		{{AF_INET, false}, SOL_SOCKET, SO_PRIORITY, -1, -EPERM},
		{{AF_PACKET, false}, SOL_SOCKET, SO_PRIORITY, 16, -EPERM},
		{{AF_INET, false}, SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE, -EINVAL},
		{{AF_INET, false}, SOL_SOCKET, 999, 1, -EINVAL},
		{{AF_PACKET, false}, SOL_SOCKET, 999, 1, -EINVAL},
		{{AF_INET6, false}, IPPROTO_IPV6, IPV6_HOPLIMIT, -2, -EINVAL},
		{{AF_INET6, false}, IPPROTO_IPV6, IPV6_HOPLIMIT, 256, -EINVAL},
		{{AF_INET6, false}, IPPROTO_IPV6, IPV6_TCLASS, 256, -EINVAL},
		{{AF_INET6, false}, IPPROTO_IPV6, IPV6_PKTINFO, 1, -EINVAL},
		{{AF_INET6, false}, IPPROTO_IPV6, IPV6_RTHDR, 1, -EOPNOTSUPP},
		{{AF_INET6, false}, IPPROTO_IPV6, IPV6_HOPOPTS, 1, -EOPNOTSUPP},
		{{AF_INET6, false}, IPPROTO_IPV6, 999, 1, -EINVAL},
	};
	uint8_t frame[60] = {0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct letter letter;

		letter_init(&letter);
		letter.to_link = (struct sockaddr_ll){.sll_ifindex = 1, .sll_halen = 6};
		letter.iov = (struct iovec){frame, sizeof(frame)};
		letter.message.msg_iov = &letter.iov;
		letter.message.msg_iovlen = 1;
		if (cases[i].kind.domain == AF_PACKET) {
			letter.message.msg_name = &letter.to_link;
			letter.message.msg_namelen = sizeof(letter.to_link);
		}
		add_int(&letter, cases[i].level, cases[i].type, cases[i].value);
		assert_int_equal(read_as(&letter, cases[i].kind), cases[i].error);
	}
}

TEST(invalid_lengths_are_refused)
{
	int value = 1;
	struct letter letter;

	letter_init(&letter);
	add(&letter, IPPROTO_IP, IP_TTL, CMSG_LEN(2), &value, sizeof(value));
	assert_int_equal(read_as(&letter, ipv4), -EINVAL);
	letter_init(&letter);
	add(&letter, IPPROTO_IP, IP_TTL, 4096, &value, sizeof(value));
	assert_int_equal(read_as(&letter, ipv4), -EINVAL);
	letter_init(&letter);
	add(&letter, IPPROTO_IP, IP_TTL, 1, &value, sizeof(value));
	assert_int_equal(read_as(&letter, ipv4), -EINVAL);
}

TEST(interfaces_must_agree)
{
	struct in6_pktinfo info = {.ipi6_ifindex = 8};
	struct letter letter;

	letter_init(&letter);
	address_to(&letter, "fe80::1", 7);
	add(&letter, IPPROTO_IPV6, IPV6_PKTINFO, CMSG_LEN(sizeof(info)), &info, sizeof(info));
	assert_int_equal(read_as(&letter, ipv6), -EINVAL);
	letter.to_ipv6.sin6_scope_id = 8;
	assert_int_equal(read_as(&letter, ipv6), 1);
}

TEST(frames_have_their_destination)
{
	static uint8_t frame[] = {2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 0x88, 0xb5, 'x'};
	struct iovec pieces[] = {{frame, 3}, {frame + 3, sizeof(frame) - 3}};
	struct letter letter;

	letter_init(&letter);
	letter.message.msg_iov = pieces;
	letter.message.msg_iovlen = 2;
	/* A bound socket names no interface. */
	assert_int_equal(read_as(&letter, packet_raw), 1);
	assert_int_equal(letter.key.family, AF_PACKET);
	assert_int_equal(letter.key.interface, 0);
	assert_memory_equal(letter.key.address, frame, 12);
	assert_int_equal(letter.key.port_be, htons(0x88b5));
	assert_int_equal(read_as(&letter, packet_dgram), -EINVAL);
	pieces[1].iov_len = 10;
	assert_int_equal(read_as(&letter, packet_raw), -EINVAL);
	pieces[1].iov_len = 11;
	assert_int_equal(read_as(&letter, packet_raw), 1);
}

TEST(link_addresses_select_the_destination)
{
	struct letter letter;

	letter_init(&letter);
	letter.to_link = (struct sockaddr_ll){.sll_family = AF_PACKET,
					      .sll_protocol = htons(0x88b5),
					      .sll_ifindex = 4,
					      .sll_halen = 6,
					      .sll_addr = {2, 0, 0, 0, 0, 0xb}};
	letter.message.msg_name = &letter.to_link;
	letter.message.msg_namelen = sizeof(letter.to_link);
	assert_int_equal(read_as(&letter, packet_dgram), 1);
	assert_int_equal(letter.key.interface, 4);
	assert_int_equal(letter.key.port_be, htons(0x88b5));
	assert_memory_equal(letter.key.address, letter.to_link.sll_addr, 6);
	letter.to_link.sll_ifindex = 0;
	assert_int_equal(read_as(&letter, packet_dgram), -ENXIO);
	letter.to_link.sll_ifindex = -4;
	assert_int_equal(read_as(&letter, packet_dgram), -ENXIO);
	letter.to_link.sll_halen = 200;
	assert_int_equal(read_as(&letter, packet_dgram), -EINVAL);
	letter.message.msg_namelen--;
	assert_int_equal(read_as(&letter, packet_dgram), -EINVAL);
}

TEST(irrelevant_fields_of_frames_are_accepted)
{
	int flags = SOF_TIMESTAMPING_OPT_ID;
	struct letter letter;

	letter_init(&letter);
	add_int(&letter, IPPROTO_IP, IP_PROTOCOL_CONTROL, IPPROTO_UDP);
	assert_int_equal(read_as(&letter, ipv4), 0);
	/* The number of a time stamp, for a socket that numbers them itself. */
	add_int(&letter, SOL_SOCKET, SCM_TS_OPT_ID_CONTROL, 4711);
	letter.fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(read_as(&letter, ipv4), -EINVAL);
	assert_int_equal(setsockopt(letter.fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)), 0);
	assert_int_equal(read_as(&letter, ipv4), 0);
	add(&letter, SOL_SOCKET, SCM_TS_OPT_ID_CONTROL, CMSG_LEN(1), &flags, 1);
	assert_int_equal(read_as(&letter, ipv4), -EINVAL);
	close(letter.fd);
}
