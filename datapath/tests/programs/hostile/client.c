/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include "../../fd_message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* CLOCK_MONOTONIC. */
static int64_t begun_ns;
static pthread_once_t begun = PTHREAD_ONCE_INIT;

static void begin(void)
{
	begun_ns = now_ns(CLOCK_MONOTONIC);
	fprintf(stderr, "begun\n");
}

bool time_left(const struct target *target)
{
	pthread_once(&begun, begin);
	return now_ns(CLOCK_MONOTONIC) - begun_ns < target->length_ns;
}

int client_connect(struct client *client, const struct target *target)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	*client = (struct client){.ring_fd = -1, .bell_fd = -1, .receive_fds = {-1, -1}};
	if (strlen(target->path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, target->path);
	client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		return -errno;
	if (connect(client->fd, (struct sockaddr *)&address, sizeof(address))) {
		int err = -errno;

		close(client->fd);
		return err;
	}
	return 0;
}

struct ktsn_app_request client_request(enum ktsn_app_type type)
{
	return (struct ktsn_app_request){.magic = KTSN_APP_MAGIC,
					 .version = KTSN_APP_VERSION,
					 .type = (uint16_t)type,
					 .flow = KTSN_APP_NONE,
					 .clock = KTSN_CLOCK_TAI,
					 .destination = KTSN_APP_NONE};
}

int client_send(struct client *client, const void *request, size_t bytes, int passed_fd)
{
	ssize_t sent = fd_message_send(client->fd, request, bytes, &passed_fd, passed_fd >= 0, MSG_DONTWAIT);

	return sent < 0 ? -errno : 0;
}

static void descriptors_keep(struct client *client, const struct ktsn_app_reply *reply, const int *fds,
			     size_t count)
{
	if (reply->type == KTSN_APP_HELLO && count == 2) {
		client->ring_fd = fds[0];
		client->bell_fd = fds[1];
	} else if (reply->type == KTSN_APP_RECEIVE_OPEN && count == 2) {
		memcpy(client->receive_fds, fds, sizeof(client->receive_fds));
	} else if (count) {
		client->bell_fd = fds[0];
	}
}

int client_receive(struct client *client, struct ktsn_app_reply *reply)
{
	struct pollfd readable = {.fd = client->fd, .events = POLLIN};
	size_t count;
	int fds[2];
	ssize_t bytes;

	if (poll(&readable, 1, CALL_TIMEOUT_MS) <= 0)
		return -ETIMEDOUT;
	bytes = fd_message_receive(client->fd, reply, sizeof(*reply), fds, 2, &count, MSG_CMSG_CLOEXEC);
	if (bytes <= 0)
		return bytes < 0 ? -errno : -ECONNRESET;
	descriptors_keep(client, reply, fds, count);
	return bytes == sizeof(*reply) ? 0 : -EPROTO;
}

int client_call(struct client *client, const struct ktsn_app_request *request, int passed_fd,
		struct ktsn_app_reply *reply)
{
	int err = client_send(client, request, sizeof(*request), passed_fd);

	if (!err)
		err = client_receive(client, reply);
	return err ? err : reply->status;
}

static int client_map(struct client *client, uint64_t bytes)
{
	client->bytes = (size_t)bytes;
	client->ring = mmap(NULL, client->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, client->ring_fd, 0);
	if (client->ring == MAP_FAILED) {
		client->ring = NULL;
		return -errno;
	}
	client->slot_count = client->ring->slot_count;
	client->slot_bytes = client->ring->slot_bytes;
	return 0;
}

int client_hello(struct client *client)
{
	struct ktsn_app_request request = client_request(KTSN_APP_HELLO);
	struct ktsn_app_reply reply;
	int err = client_call(client, &request, -1, &reply);

	return err ? err : client_map(client, reply.ring_bytes);
}

int client_flow_open(struct client *client, int socket_fd)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_OPEN);
	struct ktsn_app_reply reply;
	int err = client_call(client, &request, socket_fd, &reply);

	if (err)
		return err;
	client->flow = reply.flow;
	client->destination = reply.destination;
	return 0;
}

int client_open(struct client *client, const struct target *target)
{
	int socket_fd, err = client_connect(client, target);

	if (err)
		return err;
	err = client_hello(client);
	if (!err) {
		socket_fd = socket_to(target);
		err = socket_fd < 0 ? socket_fd : client_flow_open(client, socket_fd);
		if (socket_fd >= 0)
			close(socket_fd);
	}
	if (err)
		client_close(client);
	return err;
}

void client_close(struct client *client)
{
	if (client->ring)
		munmap(client->ring, client->bytes);
	client->ring = NULL;
	if (client->ring_fd >= 0)
		close(client->ring_fd);
	if (client->bell_fd >= 0)
		close(client->bell_fd);
	if (client->fd >= 0)
		close(client->fd);
	client->fd = client->ring_fd = client->bell_fd = -1;
}

int socket_to(const struct target *target)
{
	int on = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* The target may be a broadcast address. */
	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&target->to, sizeof(target->to))) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd < 0 ? -errno : fd;
}

struct ktsn_ring_slot *client_slot(const struct client *client, uint32_t slot)
{
	return ktsn_ring_slot_at(client->ring, sizeof(*client->ring), client->slot_bytes, slot);
}

static void ready_set(const struct client *client, uint32_t slot)
{
	atomic_fetch_or(&client->ring->ready[slot / KTSN_RING_WORD_BITS],
			UINT64_C(1) << slot % KTSN_RING_WORD_BITS);
	atomic_fetch_or(&client->ring->ready_summary, UINT64_C(1) << slot / KTSN_RING_WORD_BITS);
}

void client_publish(const struct client *client, uint32_t slot, int64_t txtime_ns, uint32_t payload_bytes)
{
	struct ktsn_ring_slot *at = client_slot(client, slot);

	at->flow = client->flow;
	at->destination = client->destination;
	at->payload_bytes = payload_bytes;
	at->txtime_ns = txtime_ns;
	at->sequence = atomic_fetch_add(&client->ring->next_sequence, 1);
	atomic_store_explicit(&at->state, KTSN_SLOT_READY, memory_order_release);
	ready_set(client, slot);
}

void client_all_ready(const struct client *client)
{
	uint32_t words = client->slot_count / KTSN_RING_WORD_BITS;

	for (uint32_t w = 0; w < words; w++)
		atomic_store(&client->ring->ready[w], UINT64_MAX);
	atomic_store(&client->ring->ready_summary, UINT64_MAX);
}

void client_ring(const struct client *client)
{
	uint64_t increment = 1;

	(void)fcntl(client->bell_fd, F_SETFL, O_NONBLOCK);
	(void)!write(client->bell_fd, &increment, sizeof(increment));
}
