/* SPDX-License-Identifier: Apache-2.0 */
#include "receive_socket.h"

#include "receive_layout.h"

#include <errno.h>
#include <sys/socket.h>

/* ---- refusals ---- */

const char *receive_refusal_text(enum receive_refusal refusal)
{
	static const char *const texts[RECEIVE_REFUSALS] = {
		[RECEIVE_SERVED] = "",
		[RECEIVE_NOT_ASKED] = "no endpoint of the pod asks for receive rings",
		[RECEIVE_NO_PROGRAM] = "no program for receive rings is at the uplink",
		[RECEIVE_KIND] = "it is no UDP socket",
		[RECEIVE_FILTER] = "it has a filter of its own",
		[RECEIVE_GRO] = "it wants datagrams joined (UDP_GRO)",
		[RECEIVE_ENCAPSULATION] = "it is the end of a tunnel (UDP_ENCAP)",
		[RECEIVE_DEVICE] = "it is bound to an interface (SO_BINDTODEVICE)",
		[RECEIVE_SOCKETS] = "the pod has reached its limit of sockets",
		[RECEIVE_MEMORY] = "the rings of the pod or the node have reached their limit of memory",
		[RECEIVE_RATE] = "the pod opens too many receive rings a second",
		[RECEIVE_KERNEL] = "the kernel refused its ring",
		[RECEIVE_OPTION] =
			"it asked for a socket option that only the kernel serves, such as SO_TIMESTAMPING",
		[RECEIVE_SHARED] = "it was passed to another process, which may have no libktsn (SCM_RIGHTS)",
		[RECEIVE_IO_URING] = "its process has an io_uring, as event loops of libuv have",
		[RECEIVE_ENCRYPTED] = "its network is encrypted, and only the kernel decrypts",
	};

	return texts[refusal];
}

const char *receive_left_text(uint32_t left)
{
	static const char *const texts[KTSN_RECEIVE_LEFTS] = {
		[KTSN_RECEIVE_LEFT_NOT] = "",
		[KTSN_RECEIVE_LEFT_PACKET_FILTER] = "the pod has packet filters",
		[KTSN_RECEIVE_LEFT_POLICY] = "the pod has policies of IPsec",
		[KTSN_RECEIVE_LEFT_CGROUP_PROGRAM] = "its cgroup has BPF programs",
		[KTSN_RECEIVE_LEFT_REUSEPORT_PROGRAM] = "a program chooses among sockets at its port",
	};

	return texts[left];
}

/* ---- sockets ---- */

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

/* At least twice the queue's size: a datagram of some hundred bytes takes a record of 2 KiB
 * (receive/receive.bpf.c). */
size_t receive_ring_bytes(int buffer_bytes)
{
	size_t bytes = RECEIVE_RING_MIN_BYTES;

	while (bytes < RECEIVE_RING_MAX_BYTES && buffer_bytes > 0 && bytes / 2 < (size_t)buffer_bytes)
		bytes *= 2;
	return bytes;
}

/* Returns false for an option that the kernel does not know. */
static bool is_set(int fd, int level, int option)
{
	int value = 0;
	socklen_t bytes = sizeof(value);

	return getsockopt(fd, level, option, &value, &bytes) == 0 && value != 0;
}

/* Whether the socket has a classic BPF filter. *has_filter: it has an eBPF filter, which the kernel does not
 * show. */
static bool has_classic_filter(int fd, bool *has_filter)
{
	socklen_t instructions = 0;
	int err = getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &instructions) ? errno : 0;

	*has_filter = err == EACCES;
	return err ? err != EACCES : instructions > 0;
}

static enum receive_refusal options_check(int fd, struct receive_state *state)
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
	state->refusal = options_check(fd, state);
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
