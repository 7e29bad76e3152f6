/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of all lengths, and buffers that are too short. */
#include "receive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void has_every_length(void)
{
	static const int lengths[] = {1, 2, 195, 196, 197, 512, 1000, 1372};
	int fd = looked_socket();

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		ask(fd, (struct sending){.label = "b", .count = 1, .bytes = lengths[i]});
	print_rest("receive", fd);
}

/* Fragmented datagrams take another path than those between them. */
static void comes_in_fragments(void)
{
	int fd = looked_socket();

	for (int i = 0; i < 3; i++) {
		ask(fd, (struct sending){.label = "whole", .count = 1});
		ask(fd, (struct sending){.label = "in-fragments", .count = 1, .bytes = 3000 + i});
	}
	print_sorted("receive", fd, 6);
	print_rest("rest", fd);
}

static void is_empty(void)
{
	struct sending empty = {.label = "empty", .count = 3, .bytes = -1};
	int fd = looked_socket();
	char data[ROOM];

	ask(fd, empty);
	sent(fd, "a", 1);
	print_fact("recv: %s", result_name(recv(fd, data, sizeof(data), 0)));
	print_fact("read: %s", result_name(read(fd, data, sizeof(data))));
	print_received("peek", fd, MSG_PEEK);
	print_rest("receive", fd);
}

static void wants_no_bytes(void)
{
	int fd = looked_socket();
	char data[ROOM];
	struct iovec second[2] = {{data, 0}, {data, 0}};
	struct msghdr message = {.msg_iov = NULL};

	print_fact("read of nothing from nothing: %s", result_name(read(fd, data, 0)));
	sent(fd, "abc", 4);
	print_fact("read: %s", result_name(read(fd, data, 0)));
	print_fact("readv of none: %s", result_name(readv(fd, second, 0)));
	print_fact("readv of nothing: %s", result_name(readv(fd, second, 2)));
	print_fact("recv: %s", result_name(recv(fd, data, 0, 0)));
	print_fact("recv with MSG_TRUNC: %s", result_name(recv(fd, data, 0, MSG_TRUNC)));
	print_fact("recvmsg: %s", result_name(recvmsg(fd, &message, 0)));
	print_fact("flags: %x", (unsigned int)message.msg_flags);
	print_rest("rest", fd);
	print_fact("recv: %s", result_name(recv(fd, data, 0, MSG_DONTWAIT)));
}

static void has_little_room_for_the_address(void)
{
	int fd = looked_socket();
	char data[ROOM];

	for (socklen_t room = 0; room <= sizeof(struct sockaddr_in6) + 4; room += 4) {
		union socket_address expected = source_address(PEER);
		uint8_t from[sizeof(struct sockaddr_in6) + 8];
		socklen_t bytes = room, written;
		long received;

		memset(from, 0xaa, sizeof(from));
		sent(fd, "a", 1);
		received = recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *)from, &bytes);
		written = room < address_bytes() ? room : address_bytes();
		print_fact("room for %u: %s, length %u, right %d, more written %d", room,
			   result_name(received), bytes, memcmp(from, &expected, written) == 0,
			   from[written] != 0xaa);
	}
	sent(fd, "a", 1);
	print_fact("no address wanted: %s", result_name(recvfrom(fd, data, sizeof(data), 0, NULL, NULL)));
	sent(fd, "a", 1);
	print_fact("no address, but a length: %s",
		   result_name(recvfrom(fd, data, sizeof(data), 0, NULL, &(socklen_t){28})));
	print_rest("rest", fd);
}

static void gets_pieces(void)
{
	int fd = looked_socket();
	char first[2], second[1], third[3], fourth[ROOM];
	struct iovec pieces[4] = {{first, 2}, {second, 0}, {third, 3}, {fourth, sizeof(fourth)}};
	union socket_address from;

	for (size_t count = 1; count <= 4; count++) {
		struct msghdr message = {.msg_iov = pieces,
					 .msg_iovlen = count,
					 .msg_name = &from,
					 .msg_namelen = sizeof(from)};
		long received;

		memset(first, '-', sizeof(first));
		memset(third, '-', sizeof(third));
		memset(fourth, '-', 4);
		sent(fd, "pieces", 1);
		received = recvmsg(fd, &message, 0);
		print_fact("%zu: %s %s %s %s, flags %x, from %s", count, result_name(received),
			   text_of(first, 2), text_of(third, 3), text_of(fourth, 4),
			   (unsigned int)message.msg_flags, whose(&from, message.msg_namelen));
	}
}

static void requests_invalid_buffers(void)
{
	int fd = looked_socket();
	char data[ROOM];
	struct iovec piece = {data, sizeof(data)};
	struct msghdr many = {.msg_iov = &piece, .msg_iovlen = 1025},
		      negative = {.msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_name = data,
				  .msg_namelen = (socklen_t)-1};

	sent(fd, "a", 1);
	print_fact("too many pieces: %s", result_name(recvmsg(fd, &many, MSG_DONTWAIT)));
	print_fact("a negative length: %s", result_name(recvmsg(fd, &negative, MSG_DONTWAIT)));
	print_rest("rest", fd);
	print_fact("no descriptor: %s", result_name(recv(-1, data, sizeof(data), MSG_DONTWAIT)));
	close(fd);
	print_fact("closed: %s", result_name(recv(fd, data, sizeof(data), MSG_DONTWAIT)));
	print_fact("closed: %s", result_name(read(fd, data, sizeof(data))));
	print_fact("no socket: %s", result_name(recv(STDOUT_FILENO, data, sizeof(data), MSG_DONTWAIT)));
}

const struct receive_case buffer_cases[] = {
	{"every-length", has_every_length},
	{"comes-in-fragments", comes_in_fragments},
	{"empty", is_empty},
	{"wants-no-bytes", wants_no_bytes},
	{"little-room-for-the-address", has_little_room_for_the_address},
	{"pieces", gets_pieces},
	{"asks-for-what-cannot-be", requests_invalid_buffers},
	{NULL, NULL},
};
