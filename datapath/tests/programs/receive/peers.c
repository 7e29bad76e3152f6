/* SPDX-License-Identifier: Apache-2.0 */
/* Connected sockets, sockets bound to one address, and datagrams for no socket. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void sent_by(int fd, int source, const char *label)
{
	ask(fd, (struct sending){.label = label, .count = 1, .source = source});
}

static void sent_by_all(int fd)
{
	sent_by(fd, PEER, "a");
	sent_by(fd, PEER_OTHER_PORT, "b");
	sent_by(fd, PEER_OTHER_ADDRESS, "c");
}

static void tells_sources(void)
{
	int fd = looked_socket();

	sent_by_all(fd);
	print_rest("receive", fd);
}

static void is_connected(void)
{
	int fd = connected_socket(PEER);
	char data[ROOM];
	long received;

	look(fd);
	sent_by_all(fd);
	sent_by(fd, PEER, "d");
	received = read(fd, data, sizeof(data));
	print_fact("read: %s %s", result_name(received), text_of(data, received));
	print_rest("receive", fd);
}

/* Datagrams that arrived before the socket was connected stay. */
static void is_connected_later(void)
{
	int fd = looked_socket();

	sent_by_all(fd);
	connect_to(fd, PEER);
	sent_by_all(fd);
	print_rest("receive", fd);
}

/* Bound to an explicit port, which it keeps. */
static int particular_socket(void)
{
	int fd = bound_socket();
	union socket_address at = any_address(port_of(fd));

	close(fd);
	fd = unbound_socket();
	require(bind(fd, &at.any, address_bytes()) == 0, "bind a socket");
	look(fd);
	return fd;
}

static void is_connected_again(void)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = particular_socket();

	connect_to(fd, PEER);
	sent_by_all(fd);
	print_rest("connected", fd);
	connect_to(fd, PEER_OTHER_ADDRESS);
	sent_by_all(fd);
	print_rest("connected to another", fd);
	require(connect(fd, &none, sizeof(none)) == 0, "dissolve a connection");
	sent_by_all(fd);
	print_rest("dissolved", fd);
}

/* Its port is released with the connection. */
static void loses_its_port(void)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = connected_socket(PEER);
	uint16_t port;

	look(fd);
	sent_by(fd, PEER, "a");
	port = port_of(fd);
	require(connect(fd, &none, sizeof(none)) == 0, "dissolve a connection");
	print_fact("a port: %d", port_of(fd) != 0);
	ask(fd, (struct sending){.label = "b", .count = 1, .port = port});
	print_rest("dissolved", fd);
	connect_to(fd, PEER);
	sent_by(fd, PEER, "c");
	print_rest("connected", fd);
}

static void is_bound_by_a_send(void)
{
	int fd = unbound_socket();

	print_received("not bound", fd, MSG_DONTWAIT);
	send_to_peer(fd);
	look(fd);
	sent_by_all(fd);
	print_rest("receive", fd);
}

static void is_bound_after_a_read(void)
{
	union socket_address any = any_address(0);
	int fd = unbound_socket();

	print_received("not bound", fd, MSG_DONTWAIT);
	require(bind(fd, &any.any, address_bytes()) == 0, "bind a socket");
	print_received("bound", fd, MSG_DONTWAIT);
	sent(fd, "a", 2);
	print_rest("receive", fd);
}

static void is_bound_to_an_address(void)
{
	union socket_address own = own_address(0);
	int fd = unbound_socket(), any;
	union socket_address same_port;

	require(bind(fd, &own.any, address_bytes()) == 0, "bind a socket");
	look(fd);
	sent(fd, "a", 2);
	print_rest("receive", fd);
	/* The more specific socket gets it, even if it was bound later. */
	any = unbound_socket();
	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_int(any, SOL_SOCKET, SO_REUSEADDR, 1);
	same_port = any_address(port_of(fd));
	require(bind(any, &same_port.any, address_bytes()) == 0, "bind a second socket");
	look(any);
	sent(fd, "b", 2);
	print_rest("bound to the address", fd);
	print_rest("bound to any", any);
	close(fd);
	sent(any, "c", 2);
	print_rest("bound to any, alone", any);
}

static void is_connected_next_to_another(void)
{
	int any = looked_socket(), connected = unbound_socket();
	union socket_address same_port;

	set_int(any, SOL_SOCKET, SO_REUSEADDR, 1);
	set_int(connected, SOL_SOCKET, SO_REUSEADDR, 1);
	same_port = any_address(port_of(any));
	require(bind(connected, &same_port.any, address_bytes()) == 0, "bind a second socket");
	connect_to(connected, PEER);
	look(connected);
	sent_by_all(any);
	print_rest("connected", connected);
	print_rest("any", any);
	close(connected);
	sent_by_all(any);
	print_rest("any, alone", any);
}

static void is_bound_to_a_device(void)
{
	int before = bound_socket(), later = looked_socket(), elsewhere = bound_socket();

	require(setsockopt(before, SOL_SOCKET, SO_BINDTODEVICE, "tsn0", 4) == 0, "bind to a device");
	require(setsockopt(elsewhere, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2) == 0, "bind to a device");
	look(before);
	look(elsewhere);
	sent(before, "a", 2);
	sent(later, "b", 1);
	sent(elsewhere, "c", 1);
	require(setsockopt(later, SOL_SOCKET, SO_BINDTODEVICE, "tsn0", 4) == 0, "bind to a device");
	sent(later, "d", 1);
	print_rest("bound before", before);
	print_rest("bound later", later);
	print_rest("bound to another", elsewhere);
	require(setsockopt(later, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2) == 0, "bind to a device");
	sent(later, "e", 1);
	print_rest("bound to another later", later);
}

/* Order is guaranteed per source. */
static void gets_local_datagrams(void)
{
	int fd = looked_socket();
	char data[ROOM], latest[2] = {0, 0};
	int came[2] = {0}, in_order = 1;

	for (char i = 0; i < 8; i++) {
		char own[3] = {'o', (char)('0' + i), 0}, peers[3] = {'p', (char)('0' + i), 0};

		sent(fd, peers, 1);
		send_from_own(fd, own);
	}
	wait_at_most(fd, 2000);
	for (int i = 0; i < 16 && recv(fd, data, sizeof(data), 0) >= 2; i++) {
		int source = data[0] == 'o';

		in_order &= data[1] > latest[source];
		latest[source] = data[1];
		came[source]++;
	}
	print_fact("own %d, the peer's %d, in order %d", came[1], came[0], in_order);
	print_rest("rest", fd);
}

static void is_connected_to_itself(void)
{
	int fd = looked_socket();
	union socket_address own = own_address(port_of(fd));

	require(connect(fd, &own.any, address_bytes()) == 0, "connect a socket");
	require(send(fd, "to myself", 9, 0) == 9, "send");
	sent(fd, "a", 1);
	print_sorted("receive", fd, 1);
	print_rest("rest", fd);
}

const struct receive_case peer_cases[] = {
	{"sources", tells_sources},
	{"connected", is_connected},
	{"connected-later", is_connected_later},
	{"connected-anew", is_connected_again},
	{"loses-its-port", loses_its_port},
	{"bound-by-a-send", is_bound_by_a_send},
	{"bound-after-a-read", is_bound_after_a_read},
	{"bound-to-an-address", is_bound_to_an_address},
	{"connected-beside-another", is_connected_next_to_another},
	{"bound-to-a-device", is_bound_to_a_device},
	{"those-of-the-same-node-as-well", gets_local_datagrams},
	{"connected-to-itself", is_connected_to_itself},
	{NULL, NULL},
};
