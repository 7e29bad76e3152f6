/* SPDX-License-Identifier: Apache-2.0 */
/* Several sockets on one port, and many sockets with ports of their own. */
#include "receive.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 32, FLOWS = SOURCES, EACH = 4, ROUNDS = 10 };

static void group_make(int group[2])
{
	for (int i = 0; i < 2; i++) {
		union socket_address at = any_address(i ? port_of(group[0]) : 0);

		group[i] = unbound_socket();
		set_int(group[i], SOL_SOCKET, SO_REUSEPORT, 1);
		require(bind(group[i], &at.any, address_bytes()) == 0, "bind a socket");
	}
}

/* It is undefined which socket gets a flow, but that socket gets all of it. */
static void print_flows(const char *what, const int group[2], int sockets)
{
	int came[2][FLOWS] = {{0}}, total = 0, split = 0;
	char data[ROOM];

	for (int i = 0; i < sockets; i++)
		while (recv(group[i], data, sizeof(data), MSG_DONTWAIT) > 1)
			came[i][(data[0] - 'a') % FLOWS]++;
	for (int flow = 0; flow < FLOWS; flow++) {
		total += came[0][flow] + came[1][flow];
		split += came[0][flow] && came[1][flow];
	}
	print_fact("%s: %d, of flows to both sockets %d", what, total, split);
}

static void sent_flows(int fd)
{
	static const char *const labels[FLOWS] = {"a", "b", "c"};

	for (int i = 0; i < EACH * FLOWS; i++)
		ask(fd, (struct sending){.label = labels[i % FLOWS], .count = 1, .source = i % FLOWS});
}

static void uses_a_port_together(void)
{
	int group[2];

	group_make(group);
	look(group[0]);
	look(group[1]);
	sent_flows(group[0]);
	print_flows("both", group, 2);
	sent_flows(group[0]);
	print_flows("again", group, 2);
}

static void shares_a_port_and_one_looks(void)
{
	int group[2];

	group_make(group);
	look(group[0]);
	sent_flows(group[0]);
	print_flows("both", group, 2);
	close(group[1]);
	sent_flows(group[0]);
	print_flows("one left", group, 1);
}

/* Each gets its own datagrams, independent of the others. */
static void has_many_sockets(void)
{
	struct pollfd all[MANY];
	int right = 0;
	char data[ROOM];

	for (int i = 0; i < MANY; i++)
		all[i] = (struct pollfd){.fd = looked_socket(), .events = POLLIN};
	for (int i = 0; i < MANY; i++) {
		char label[16];

		snprintf(label, sizeof(label), "%d-", i);
		sent(all[i].fd, label, 3);
	}
	print_fact("ready: %s", result_name(poll(all, MANY, 0)));
	for (int i = 0; i < MANY; i++)
		for (int j = 0; j < 3; j++) {
			char expected[16];
			long received = recv(all[i].fd, data, sizeof(data), MSG_DONTWAIT);

			snprintf(expected, sizeof(expected), "%d-%d", i, j);
			right += received == (long)strlen(expected) &&
				 memcmp(data, expected, (size_t)received) == 0;
		}
	print_fact("right: %d", right);
	print_fact("ready: %s", result_name(poll(all, MANY, 0)));
	for (int i = 0; i < MANY; i++)
		print_rest("rest", all[i].fd);
}

/* Each is read before the next is sent: the order is fixed, whichever path they take. */
static void has_many_sockets_for_a_while(void)
{
	int sockets[MANY], right = 0;
	char data[ROOM], label[16];

	for (int i = 0; i < MANY; i++)
		sockets[i] = bound_socket();
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < MANY; i++) {
			long received;

			snprintf(label, sizeof(label), "%d-%d-", round, i);
			sent(sockets[i], label, 1);
			wait_at_most(sockets[i], 2000);
			received = recv(sockets[i], data, sizeof(data), 0);
			right += received > 0 && memcmp(data, label, strlen(label)) == 0;
		}
		sleep_ms(120);
	}
	print_fact("right: %d of %d", right, MANY * ROUNDS);
	for (int i = 0; i < MANY; i++)
		print_rest("rest", sockets[i]);
}

const struct receive_case sharing_cases[] = {
	{"shares-a-port", uses_a_port_together},
	{"shares-a-port-and-one-looks", shares_a_port_and_one_looks},
	{"many-sockets", has_many_sockets},
	{"many-sockets-for-a-while", has_many_sockets_for_a_while},
	{NULL, NULL},
};
