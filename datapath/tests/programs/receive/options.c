/* SPDX-License-Identifier: Apache-2.0 */
/* Options that change the datagrams, or whether the ring or the kernel serves the socket. */
#include "receive.h"

#include <stdio.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef SO_PEEK_OFF
#define SO_PEEK_OFF 42
#endif

enum { SOFTWARE_STAMPS = 1 << 3 | 1 << 4 /* SOF_TIMESTAMPING_{RX_,}SOFTWARE */ };

/* struct sock_filter and sock_fprog of <linux/filter.h> */
struct instruction {
	uint16_t code;
	uint8_t if_true, if_false;
	uint32_t value;
};
struct filter {
	uint16_t count;
	const struct instruction *instructions;
};

static void asks_for_timestamping(void)
{
	int before = bound_socket(), later = looked_socket();

	set_int(before, SOL_SOCKET, SO_TIMESTAMPING, SOFTWARE_STAMPS);
	look(before);
	sent(later, "a", 2);
	set_int(later, SOL_SOCKET, SO_TIMESTAMPING, SOFTWARE_STAMPS);
	print_received("what was there", later, MSG_DONTWAIT);
	print_received("what was there", later, MSG_DONTWAIT);
	/* The kernel stamps from an unknown moment on. */
	sleep_ms(20);
	sent(before, "b", 1);
	sent(later, "c", 1);
	print_message("asked before", before, CONTROL_ROOM);
	print_message("asked later", later, CONTROL_ROOM);
}

/* The interface decides whether segments arrive together: these do not. The order relative to earlier and
 * later datagrams is undefined (docs/reference/receiving.md, two queues). */
static void asks_for_gro(void)
{
	int before = bound_socket(), later = looked_socket();

	set_int(before, SOL_UDP, UDP_GRO, 1);
	look(before);
	sent(later, "a", 2);
	set_int(later, SOL_UDP, UDP_GRO, 1);
	sent(before, "b", 2);
	sent(later, "c", 2);
	print_rest("asked before", before);
	print_sorted("asked later", later, 4);
	set_int(later, SOL_UDP, UDP_GRO, 0);
	sent(later, "d", 2);
	print_rest("no more", later);
}

static void print_peeked(int fd)
{
	char data[4];

	for (int i = 0; i < 3; i++) {
		long received = recv(fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);

		print_fact("peek: %s %s", result_name(received), text_of(data, received));
	}
	print_rest("receive", fd);
}

static void peeks_at_an_offset(void)
{
	int before = bound_socket(), later = looked_socket();

	set_int(before, SOL_SOCKET, SO_PEEK_OFF, 0);
	look(before);
	sent(before, "abcdefgh", 2);
	print_peeked(before);
	sent(later, "a", 1);
	print_rest("receive", later);
	set_int(later, SOL_SOCKET, SO_PEEK_OFF, 2);
	sent(later, "ijklmnop", 2);
	print_peeked(later);
}

static void peeks_at_an_offset_of_queued(void)
{
	int fd = looked_socket();

	sent(fd, "abcdefgh", 2);
	set_int(fd, SOL_SOCKET, SO_PEEK_OFF, 0);
	print_peeked(fd);
}

static void attach(int fd, uint32_t bytes)
{
	struct instruction pass = {.code = 0x06 /* BPF_RET */, .value = bytes};
	struct filter filter = {1, &pass};

	require(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0,
		"attach a filter");
}

/* The filter also sees the UDP header. */
static void has_a_filter(void)
{
	int before = bound_socket(), later = looked_socket();

	attach(before, 8 + 2);
	sent(before, "abcd", 2);
	print_rest("cut by a filter", before);
	sent(later, "a", 2);
	attach(later, 0);
	sent(later, "b", 2);
	print_rest("what was there before the filter", later);
	attach(later, 8 + 3);
	sent(later, "cdefgh", 2);
	print_rest("cut by a later filter", later);
	set_int(later, SOL_SOCKET, SO_DETACH_FILTER, 0);
	sent(later, "e", 2);
	print_rest("without a filter", later);
}

static void has_a_receive_buffer(void)
{
	int fd = bound_socket(), value = 0;
	socklen_t bytes = sizeof(value);

	set_int(fd, SOL_SOCKET, SO_RCVBUF, 100000);
	look(fd);
	require(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &bytes) == 0, "read an option");
	print_fact("SO_RCVBUF: %d", value);
	sent(fd, "a", 60);
	print_sorted("receive", fd, 60);
	set_int(fd, SOL_SOCKET, SO_RCVBUF, 200000);
	require(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &bytes) == 0, "read an option");
	print_fact("SO_RCVBUF: %d", value);
	sent(fd, "b", 60);
	print_sorted("receive", fd, 60);
	print_rest("rest", fd);
}

const struct receive_case option_cases[] = {
	{"timestamping", asks_for_timestamping},
	{"gro", asks_for_gro},
	{"peeks-at-an-offset", peeks_at_an_offset},
	{"peeks-at-an-offset-of-what-was-there", peeks_at_an_offset_of_queued},
	{"filter", has_a_filter},
	{"receive-buffer", has_a_receive_buffer},
	{NULL, NULL},
};
