/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of sockets in the maps of the program at the uplink (receive/receive.bpf.c). The agent loads the
 * program and pins its maps, and may replace them at any time: they are opened again for each use.
 *
 *   sockets    socket -> its cookie, as long as the socket exists; 0: it must never have a ring
 *   rings      cookie -> ring
 *   controls   cookie -> control page (ring/receive_layout.h)
 *
 * Entering or removing a ring waits some milliseconds for programs that use the maps (RCU), so the pod's
 * thread does it. It needs no privilege, because the maps are open. The other functions are for the control
 * thread.
 */
#ifndef KTSN_DAEMON_RECEIVE_MAPS_H
#define KTSN_DAEMON_RECEIVE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each node of the machine has a folder in it (node/receiving.h). */
#define RECEIVE_MAPS_FOLDER "/sys/fs/bpf/ktsn/receive"

struct receive_maps {
	int rings, controls, sockets;
};

#define RECEIVE_MAPS_CLOSED ((struct receive_maps){-1, -1, -1})

/* Opens all maps. 0, or -errno with all maps closed. */
int receive_maps_open(const char *folder, struct receive_maps *maps);
void receive_maps_close(struct receive_maps *maps);
/* Opens the program that counts the datagrams in a socket's queue in the kernel. Returns its descriptor, or
 * -errno. */
int receive_filter_open(const char *folder);

/* A ring with its control page. */
struct receive_ring {
	uint32_t ring_id, control_id;
	size_t bytes; /* of the records */
};
struct receive_descriptors {
	int ring, control; /* -1: not open */
};

/* Returns the memory in bytes that the kernel uses for a ring and its control page. */
size_t receive_ring_cost(size_t bytes);
/* Creates a ring. 0 or -errno. */
int receive_ring_make(size_t bytes, struct receive_ring *ring, struct receive_descriptors *fds);
/* Opens an existing ring. 0 or -errno. */
int receive_ring_open(const struct receive_ring *ring, struct receive_descriptors *fds);
/* Finds and opens the ring of a cookie. 0, or -errno if there is none that ktsnd could have created. */
int receive_ring_find(const struct receive_maps *maps, uint64_t cookie, struct receive_ring *ring,
		      struct receive_descriptors *fds);
void receive_descriptors_close(struct receive_descriptors *fds);

/* Maps the control page, until receive_rings_remove() or receive_control_unmap(). NULL on failure. */
struct ktsn_receive_control *receive_control_map(int control);
void receive_control_unmap(struct ktsn_receive_control *control);

/* Enters a socket and its ring, unless they are entered already, and clears the mark of an earlier end in the
 * control page (NULL: not mapped). 0, or -errno with nothing entered. */
int receive_ring_enter(const struct receive_maps *maps, int socket_fd, uint64_t cookie,
		       const struct receive_descriptors *fds, struct ktsn_receive_control *control);

struct receive_entry {
	uint64_t cookie;
	struct ktsn_receive_control *control; /* NULL: it is looked up; only in the control thread */
};
/* Removes rings: no more datagrams arrive in them, and their readers see that they have ended. */
void receive_rings_remove(const struct receive_maps *maps, const struct receive_entry *entries, size_t count);

bool receive_socket_entered(const struct receive_maps *maps, int socket_fd, uint64_t cookie);
/* Leaves a socket to the kernel for its whole life, for any ktsnd; and returns whether it is. */
void receive_socket_exclude(const struct receive_maps *maps, int socket_fd);
bool receive_socket_excluded(const struct receive_maps *maps, int socket_fd);
void receive_socket_leave(const struct receive_maps *maps, int socket_fd);

/* Lists the cookies that have a ring, at most max_count. Returns their number. */
size_t receive_cookies(const struct receive_maps *maps, uint64_t *cookies, size_t max_count);

struct receive_counts {
	uint64_t received, dropped, kernel;
};
/* Adds the counters of the control page. The application can write them, so each is limited. NULL is
 * harmless. */
void receive_counts_add(const struct ktsn_receive_control *control, struct receive_counts *sum);
/* Returns why the program leaves the socket's datagrams to the kernel, below KTSN_RECEIVE_LEFTS whatever the
 * application has written; 0: it does not. */
uint32_t receive_left(const struct ktsn_receive_control *control);

#endif
