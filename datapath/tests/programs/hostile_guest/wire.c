/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <linux/vhost_types.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { VERSION = 1, REPLY_BYTES_MAX = 64 };

/* The address of the memory that the front end claims; the back end translates it. */
#define USER_ADDRESS UINT64_C(0x7f0000000000)

#define FEATURE_VERSION_1         (UINT64_C(1) << 32)
#define FEATURE_PROTOCOL_FEATURES (UINT64_C(1) << 30)
#define FEATURE_INDIRECT          (UINT64_C(1) << 28)

struct header {
	uint32_t request, flags, size;
};

static void must(int holds, const char *operation)
{
	if (!holds) {
		perror(operation);
		exit(1);
	}
}

void wire_send(const struct wire *wire, uint32_t request, const void *payload, uint32_t bytes, int fd_to_pass)
{
	struct header header = {.request = request, .flags = VERSION, .size = bytes};
	struct iovec parts[2] = {{&header, sizeof(header)}, {(void *)payload, bytes}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};

	if (fd_to_pass >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd_to_pass, sizeof(int));
	}
	/* The back end may have closed the connection. */
	(void)sendmsg(wire->fd, &message, MSG_NOSIGNAL);
}

static void number_send(const struct wire *wire, uint32_t request, uint64_t number, int fd_to_pass)
{
	wire_send(wire, request, &number, sizeof(number), fd_to_pass);
}

static uint64_t number_ask(const struct wire *wire, uint32_t request)
{
	struct {
		struct header header;
		uint64_t number;
	} __attribute__((packed)) reply = {0};

	wire_send(wire, request, NULL, 0, -1);
	must(recv(wire->fd, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply), "reply");
	return reply.number;
}

int wire_is_served(const struct wire *wire)
{
	char reply[sizeof(struct header) + sizeof(uint64_t)];

	wire_send(wire, GET_FEATURES, NULL, 0, -1);
	return recv(wire->fd, reply, sizeof(reply), MSG_WAITALL) == sizeof(reply);
}

void wire_memory_pass(const struct wire *wire, int fd, uint64_t bytes)
{
	const struct {
		uint32_t regions, padding;
		uint64_t guest_address, bytes, user_address, offset;
	} table = {.regions = 1, .bytes = bytes, .user_address = USER_ADDRESS};

	wire_send(wire, SET_MEM_TABLE, &table, sizeof(table), fd);
}

static void memory_share(struct wire *wire)
{
	wire->memory_fd = memfd_create("guest", MFD_CLOEXEC);
	must(wire->memory_fd >= 0 && ftruncate(wire->memory_fd, MEMORY_BYTES) == 0, "memory");
	wire->memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, wire->memory_fd, 0);
	must(wire->memory != MAP_FAILED, "mmap");
	wire_memory_pass(wire, wire->memory_fd, MEMORY_BYTES);
}

static void ring_begin(struct wire *wire, uint32_t index)
{
	const struct vhost_vring_state size = {index, RING_SIZE}, base = {index, 0}, on = {index, 1};
	const uint64_t at = USER_ADDRESS + index * AT_RING;
	const struct vhost_vring_addr address = {.index = index,
						 .desc_user_addr = at + AT_DESCRIPTORS,
						 .avail_user_addr = at + AT_AVAILABLE,
						 .used_user_addr = at + AT_USED};
	int kick = eventfd(0, EFD_CLOEXEC), call = eventfd(0, EFD_CLOEXEC);

	wire_send(wire, SET_VRING_NUM, &size, sizeof(size), -1);
	wire_send(wire, SET_VRING_BASE, &base, sizeof(base), -1);
	wire_send(wire, SET_VRING_ADDR, &address, sizeof(address), -1);
	number_send(wire, SET_VRING_KICK, index, kick);
	number_send(wire, SET_VRING_CALL, index, call);
	wire_send(wire, SET_VRING_ENABLE, &on, sizeof(on), -1);
	wire->kick_fd = kick;
}

void wire_connect(struct wire *wire, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	wire->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(wire->fd >= 0 && connect(wire->fd, (const struct sockaddr *)&address, sizeof(address)) == 0,
	     path);
}

void wire_begin(struct wire *wire, const char *path)
{
	const uint64_t wanted = FEATURE_VERSION_1 | FEATURE_PROTOCOL_FEATURES | FEATURE_INDIRECT;

	wire_connect(wire, path);
	wire_send(wire, SET_OWNER, NULL, 0, -1);
	must((number_ask(wire, GET_FEATURES) & wanted) == wanted, "features");
	(void)number_ask(wire, GET_PROTOCOL_FEATURES);
	number_send(wire, SET_PROTOCOL_FEATURES, 0, -1);
	number_send(wire, SET_FEATURES, wanted, -1);
	memory_share(wire);
	ring_begin(wire, 0);
	ring_begin(wire, 1);
	/* Everything before it has been served. */
	(void)number_ask(wire, GET_FEATURES);
}

static void ring_stop(struct wire *wire, uint32_t index)
{
	const struct vhost_vring_state state = {index, 0};
	struct {
		struct header header;
		struct vhost_vring_state state;
	} __attribute__((packed)) reply;

	wire_send(wire, GET_VRING_BASE, &state, sizeof(state), -1);
	must(recv(wire->fd, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply), "stop");
}

void wire_restart(struct wire *wire)
{
	ring_stop(wire, 0);
	ring_stop(wire, 1);
	memset(wire->memory, 0, AT_BUFFERS);
	ring_begin(wire, 0);
	ring_begin(wire, 1);
	(void)number_ask(wire, GET_FEATURES);
}

struct vring_desc *wire_descriptors(const struct wire *wire)
{
	return (struct vring_desc *)(wire->memory + AT_RING + AT_DESCRIPTORS);
}

struct vring_avail *wire_available(const struct wire *wire)
{
	return (struct vring_avail *)(wire->memory + AT_RING + AT_AVAILABLE);
}

void wire_offer(const struct wire *wire, uint16_t first, uint16_t count)
{
	struct vring_avail *available = wire_available(wire);
	const uint64_t increment = 1;

	for (uint16_t i = 0; i < count; i++)
		available->ring[(available->idx + i) % RING_SIZE] = (uint16_t)(first + i);
	atomic_thread_fence(memory_order_release);
	available->idx = (uint16_t)(available->idx + count);
	must(write(wire->kick_fd, &increment, sizeof(increment)) == sizeof(increment), "kick");
}
