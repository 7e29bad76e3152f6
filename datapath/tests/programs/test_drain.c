/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-drain SOCKET
 *
 * A ktsnd that accepts everything and discards frames, to measure senders. It listens at SOCKET, prints
 * "ready", and at the end of its standard input prints how many messages it took.
 */
#include "../fd_message.h"
#include "app_protocol.h"
#include "ring_consumer.h"
#include "ring_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	CLIENTS_MAX = 8,
	SLOTS = 4096,
	PAYLOAD_BYTES = 1600,
	MTU_BYTES = 1500,
	TAKEN_AT_ONCE = 4096,
	/* With fewer messages it sleeps: the sender may share its processor. */
	MANY = 1024,
	IDLE_US = 20
};

struct client {
	int fd;
	bool has_ring;
	struct ktsn_ring_memory memory;
	struct ktsn_ring_consumer ring;
};

static struct client clients[CLIENTS_MAX];
static int client_count;
static uint64_t taken_count;

static int ring_make(struct client *client)
{
	if (ktsn_ring_memory_create(&client->memory, ktsn_ring_geometry_make(SLOTS, PAYLOAD_BYTES)))
		return -1;
	ktsn_ring_consumer_init(&client->ring, client->memory.address, client->memory.geometry.slot_count,
				client->memory.geometry.slot_bytes);
	client->has_ring = true;
	return 0;
}

static void request_serve(struct client *client)
{
	struct ktsn_app_request request;
	struct ktsn_app_reply reply;
	int passed_fd;
	size_t count;

	if (fd_message_receive(client->fd, &request, sizeof(request), &passed_fd, 1, &count,
			       MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(request))
		return;
	if (count)
		close(passed_fd);
	reply = (struct ktsn_app_reply){
		.magic = KTSN_APP_MAGIC,
		.version = KTSN_APP_VERSION,
		.type = request.type,
		.number = request.number,
		.flow = 1,
		.destination = 1,
		.route = KTSN_APP_ROUTE_TSN,
		.payload_max_bytes = MTU_BYTES,
	};
	if (request.type == KTSN_APP_HELLO && ring_make(client) == 0) {
		const int fds[2] = {client->memory.fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

		reply.ring_bytes = client->memory.bytes;
		(void)fd_message_send(client->fd, &reply, sizeof(reply), fds, 2, 0);
		close(fds[1]);
	} else {
		(void)fd_message_send(client->fd, &reply, sizeof(reply), NULL, 0, 0);
	}
}

/* Returns whether there were many. -EAGAIN: it searched for the oldest and continues at the next call. */
static bool ring_drain(struct client *client)
{
	struct ktsn_ring_taken taken;
	int got = -EAGAIN, count = 0;

	for (; client->has_ring && got && count < TAKEN_AT_ONCE; count += got == 1) {
		got = ktsn_ring_take(&client->ring, &taken);
		if (got == 1 || got == -EBADMSG)
			ktsn_ring_release(&client->ring, taken.slot);
	}
	taken_count += (uint64_t)count;
	return count >= MANY;
}

static void client_accept(int listener)
{
	int fd = client_count < CLIENTS_MAX ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;

	if (fd >= 0)
		clients[client_count++].fd = fd;
}

/* Returns false at the end of the input. */
static bool serve(int listener, bool wait)
{
	struct pollfd ready[CLIENTS_MAX + 2] = {{.fd = listener, .events = POLLIN},
						{.fd = STDIN_FILENO, .events = POLLIN}};

	for (int i = 0; i < client_count; i++)
		ready[i + 2] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
	if (poll(ready, (nfds_t)client_count + 2, 0) == 0 && wait)
		usleep(IDLE_US);
	for (int i = 0; i < client_count; i++)
		if (ready[i + 2].revents)
			request_serve(&clients[i]);
	if (ready[0].revents)
		client_accept(listener);
	return !ready[1].revents;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	return fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
			       listen(fd, CLIENTS_MAX)
		       ? -1
		       : fd;
}

int main(int argc, char **argv)
{
	int listener = argc == 2 ? listen_at(argv[1]) : -1;
	bool many = false;

	if (listener < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	while (serve(listener, !many)) {
		many = false;
		for (int i = 0; i < client_count; i++)
			many |= ring_drain(&clients[i]);
	}
	printf("%" PRIu64 "\n", taken_count);
	return 0;
}
