/* SPDX-License-Identifier: Apache-2.0 */
#include "modes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	CONNECTIONS_MAX = 4096,
	SOCKETS_MAX = 4096,
	STALLED = 8,
	PIPELINED = 16,
	PAYLOAD_BYTES = 64,
	NAP_US = 1000,
};

/* One connection sends requests and reads no reply; another never finishes a request; others are silent. */
static long stalled_ask(struct client *clients, const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_RESUME);
	long closed = 0;

	for (int i = 0; i < STALLED; i++) {
		int err = 0;

		for (int k = 0; k < PIPELINED && !err && i % 2 == 0; k++)
			err = client_send(&clients[i], &request, sizeof(request), -1);
		if (i == 1)
			err = client_send(&clients[i], &request, sizeof(request) / 2, -1);
		if (!err || err == -EAGAIN)
			continue;
		closed++;
		client_close(&clients[i]);
		(void)client_connect(&clients[i], target);
	}
	return closed;
}

static int mode_stall(const struct target *target)
{
	struct client clients[STALLED];
	long closed = 0;
	int err = 0;

	for (int i = 0; i < STALLED && !err; i++)
		err = client_connect(&clients[i], target);
	if (err)
		return complain("connect", err);
	while (time_left(target))
		closed += stalled_ask(clients, target);
	result_print("closed", closed);
	return 0;
}

/* Opens flows until one is refused. Returns their number and the error. */
static int flows_open(struct client *client, const struct target *target, long *count)
{
	int err = 0;

	while (!err && *count < SOCKETS_MAX && time_left(target)) {
		int socket_fd = socket_to(target);

		err = socket_fd < 0 ? socket_fd : client_flow_open(client, socket_fd);
		if (socket_fd >= 0)
			close(socket_fd);
		*count += !err;
	}
	return err;
}

/* Exhausts connections, rings and sockets, and prints their numbers and the errors at the limits. */
static int mode_many(const struct target *target)
{
	static struct client clients[CONNECTIONS_MAX];
	const struct rlimit descriptors = {3 * CONNECTIONS_MAX, 3 * CONNECTIONS_MAX};
	long count = 0, rings = 0, sockets = 0, err_connection = 0, err_ring = 0, err_socket = 0;

	(void)setrlimit(RLIMIT_NOFILE, &descriptors);
	while (count < CONNECTIONS_MAX && !err_connection && time_left(target)) {
		int err = client_connect(&clients[count], target);
		int hello = err ? err : client_hello(&clients[count]);

		rings += !hello;
		if (err || hello == -ECONNRESET || hello == -EPIPE)
			err_connection = err ? err : hello;
		else if (hello)
			err_ring = hello;
		count += !err_connection;
	}
	for (long i = 0; i < count && time_left(target); i++)
		if (clients[i].ring) {
			int err = flows_open(&clients[i], target, &sockets);

			err_socket = err ? err : err_socket;
		}
	result_print("connections", count);
	result_print("rings", rings);
	result_print("sockets", sockets);
	result_print("connection-errno", -err_connection);
	result_print("ring-errno", -err_ring);
	result_print("socket-errno", -err_socket);
	while (time_left(target))
		usleep(NAP_US);
	return 0;
}

/* The open file is shared: its flags apply to ktsnd as well. */
static int mode_bell(const struct target *target)
{
	const uint64_t increment = 1, full = UINT64_MAX - 1;
	struct client client;
	uint64_t count;
	long rings = 0;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	for (; time_left(target); rings++) {
		bool block = rings & 64;

		(void)fcntl(client.bell_fd, F_SETFL, block ? 0 : O_NONBLOCK);
		(void)!write(client.bell_fd, &increment, sizeof(increment));
		/* Never more than fits, or this end would block. */
		if (rings % 4 == 0)
			(void)!read(client.bell_fd, &count, sizeof(count));
		(void)fcntl(client.bell_fd, F_SETFL, O_NONBLOCK);
		if (rings % 1024 == 0)
			(void)!write(client.bell_fd, &full, sizeof(full));
		if (rings % 256 == 0)
			client_publish(&client, (uint32_t)rings / 256 % client.slot_count, now_ns(CLOCK_TAI),
				       PAYLOAD_BYTES);
	}
	result_print("rings", rings);
	client_close(&client);
	return 0;
}

/* Connects, sends and disconnects, alternately after and within a message. */
static int mode_churn(const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_CLOSE);
	long rounds = 0, refused = 0;

	for (; time_left(target); rounds++) {
		struct client client;

		if (client_open(&client, target)) {
			refused++;
			usleep(NAP_US);
			continue;
		}
		for (uint32_t slot = 0; slot < 8; slot++)
			client_publish(&client, slot, now_ns(CLOCK_TAI) + slot * 100000, PAYLOAD_BYTES);
		if (rounds % 2)
			client_ring(&client);
		request.flow = client.flow;
		if (rounds % 3)
			(void)client_send(&client, &request, sizeof(request), -1);
		client_close(&client);
	}
	result_print("rounds", rounds);
	result_print("refused", refused);
	return 0;
}

/* Registers one socket repeatedly with messages under way, so that destinations come and go as fast as
 * ktsnd answers. */
static int mode_register(const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_OPEN);
	struct client client;
	long registered = 0;
	int socket_fd = socket_to(target), err = client_open(&client, target);

	if (err || socket_fd < 0)
		return complain("get a ring and a flow", err ? err : socket_fd);
	request.flow = client.flow;
	while (time_left(target) && !err) {
		int asked = 0;

		while (asked < PIPELINED && client_send(&client, &request, sizeof(request), socket_fd) == 0)
			asked++;
		for (int i = 0; i < asked && !err; i++, registered++) {
			struct ktsn_app_reply reply;

			err = client_receive(&client, &reply);
			if (!err && !reply.status)
				client.destination = reply.destination;
			client_publish(&client, (uint32_t)registered % client.slot_count,
				       now_ns(CLOCK_TAI) + 1000000, PAYLOAD_BYTES);
		}
		client_ring(&client);
	}
	result_print("registered", registered);
	client_close(&client);
	return err ? complain("have an answer", err) : 0;
}

/* Run in another network namespace than the pod's. */
static int mode_foreign(const struct target *target)
{
	struct client client;
	int err = client_connect(&client, target), socket_fd = socket_to(target);

	if (!err)
		err = client_hello(&client);
	if (err || socket_fd < 0)
		return complain("get a ring", err ? err : socket_fd);
	err = client_flow_open(&client, socket_fd);
	result_print("refused", err != 0);
	result_print("errno", -err);
	close(socket_fd);
	client_close(&client);
	return 0;
}

const struct mode socket_modes[] = {
	{"stall", mode_stall, "sends requests and reads no reply, or stops half-way"},
	{"many", mode_many, "opens as many connections, rings and sockets as it can"},
	{"bell", mode_bell, "rings its doorbell continuously, and makes it block"},
	{"churn", mode_churn, "connects, sends and closes, repeatedly"},
	{"foreign", mode_foreign, "hands over a socket of the network namespace that it runs in"},
	{"register", mode_register, "registers its socket repeatedly"},
	{0},
};
