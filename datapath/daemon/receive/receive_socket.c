/* SPDX-License-Identifier: Apache-2.0 */
#include "receive_socket.h"

#include <errno.h>
#include <sys/socket.h>

#ifndef SO_ATTACH_BPF
#define SO_ATTACH_BPF 50
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

/* <linux/udp.h> */
enum { ENCAPSULATION = 100, GRO = 104 };

/* Twice the queue's: a datagram of some hundred bytes takes a record of 2 KiB (receive/receive.bpf.c). */
size_t receive_ring_bytes(int buffer_bytes)
{
	size_t bytes = RECEIVE_RING_MIN_BYTES;

	while (bytes < RECEIVE_RING_MAX_BYTES && buffer_bytes > 0 && bytes / 2 < (size_t)buffer_bytes)
		bytes *= 2;
	return bytes;
}

/* An option that a kernel does not know is not set. */
static bool is_set(int fd, int level, int option)
{
	int value = 0;
	socklen_t bytes = sizeof(value);

	return getsockopt(fd, level, option, &value, &bytes) == 0 && value != 0;
}

/* Of the old kind; *has_filter: there is one of the new kind, which the kernel does not show. */
static bool has_classic_filter(int fd, bool *has_filter)
{
	socklen_t instructions = 0;
	int err = getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &instructions) ? errno : 0;

	*has_filter = err == EACCES;
	return err ? err != EACCES : instructions > 0;
}

static enum receive_refusal options_judge(int fd, struct receive_state *state)
{
	if (is_set(fd, SOL_UDP, GRO))
		return RECEIVE_GRO;
	if (is_set(fd, SOL_UDP, ENCAPSULATION))
		return RECEIVE_ENCAPSULATION;
	if (is_set(fd, SOL_SOCKET, SO_BINDTOIFINDEX))
		return RECEIVE_DEVICE;
	return has_classic_filter(fd, &state->has_filter) ? RECEIVE_FILTER : RECEIVE_SERVED;
}

void receive_socket_attach(int fd, int filter, struct receive_state *state)
{
	int buffer_bytes = 0;
	socklen_t bytes = sizeof(buffer_bytes);

	*state = (struct receive_state){.refusal = RECEIVE_NO_PROGRAM};
	if (filter < 0)
		return;
	state->refusal = options_judge(fd, state);
	if (state->refusal)
		return;
	(void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, &bytes);
	state->ring_bytes = receive_ring_bytes(buffer_bytes);
	if (state->has_filter)
		return;
	state->attached = setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &filter, sizeof(filter)) == 0;
	if (!state->attached)
		state->refusal = RECEIVE_FILTER; /* SO_LOCK_FILTER */
}

void receive_socket_detach(int fd)
{
	bool has_filter;
	int unused = 0;

	(void)has_classic_filter(fd, &has_filter);
	if (has_filter)
		(void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}
