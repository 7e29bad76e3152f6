/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of sockets in the maps of the program at the uplink (receive/receive.bpf.c). The program is loaded,
 * and its maps are pinned, by somebody else, who may do so again at any time: they are opened each time anew.
 *
 *   sockets    the socket -> its cookie, as long as it lives; no cookie: it is never to have a ring
 *   rings      cookie -> ring
 *   controls   cookie -> control page (ring/receive_layout.h)
 *
 * Whoever enters or removes a ring waits for the programs that may be looking at the maps (RCU), some
 * milliseconds: this is for the pod's thread. It needs no privilege for that, as the maps are open. The rest
 * is for the control thread.
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

/* 0 or -errno, and they are closed. */
int receive_maps_open(const char *folder, struct receive_maps *maps);
void receive_maps_close(struct receive_maps *maps);
/* The program that counts what comes into a socket's queue in the kernel: its descriptor, or -errno. */
int receive_filter_open(const char *folder);

/* A ring with its control page. */
struct receive_ring {
	uint32_t ring_id, control_id;
	size_t bytes; /* of the records */
};
struct receive_descriptors {
	int ring, control; /* -1: not open */
};

/* What the kernel takes for both. */
size_t receive_ring_cost(size_t bytes);
/* A new one; 0 or -errno. */
int receive_ring_make(size_t bytes, struct receive_ring *ring, struct receive_descriptors *fds);
/* One that is there; 0 or -errno. */
int receive_ring_open(const struct receive_ring *ring, struct receive_descriptors *fds);
/* The one that is entered for a cookie; 0, or -errno if there is none that ktsnd could have made. */
int receive_ring_find(const struct receive_maps *maps, uint64_t cookie, struct receive_ring *ring,
		      struct receive_descriptors *fds);
void receive_descriptors_close(struct receive_descriptors *fds);

/* The control page, mapped until receive_rings_remove() or receive_control_unmap(); NULL: it could not be. */
struct ktsn_receive_control *receive_control_map(int control);
void receive_control_unmap(struct ktsn_receive_control *control);

/* Enters a socket and its ring, as far as they are not; 0, or -errno and nothing is entered. With the control
 * page, if it is mapped: a ring that was removed before has not ended any more. */
int receive_ring_enter(const struct receive_maps *maps, int socket_fd, uint64_t cookie,
		       const struct receive_descriptors *fds, struct ktsn_receive_control *control);

struct receive_entry {
	uint64_t cookie;
	struct ktsn_receive_control *control; /* NULL: it is looked for, which is for the control thread */
};
/* Nothing comes into these rings any more, and their readers see that. */
void receive_rings_remove(const struct receive_maps *maps, const struct receive_entry *entries, size_t count);

bool receive_socket_entered(const struct receive_maps *maps, int socket_fd, uint64_t cookie);
/* The socket is the kernel's as long as it lives, whatever ktsnd serves it, and whether it is. */
void receive_socket_exclude(const struct receive_maps *maps, int socket_fd);
bool receive_socket_excluded(const struct receive_maps *maps, int socket_fd);
void receive_socket_leave(const struct receive_maps *maps, int socket_fd);

/* The cookies that have a ring, at most `most`. Returns how many. */
size_t receive_cookies(const struct receive_maps *maps, uint64_t *cookies, size_t most);

struct receive_counts {
	uint64_t received, dropped, kernel;
};
/* Adds what the programs have counted. The application can write there: no number is too large to add. NULL
 * counts nothing. */
void receive_counts_add(const struct ktsn_receive_control *control, struct receive_counts *sum);
/* Why the program leaves the socket's datagrams to the kernel: less than KTSN_RECEIVE_LEFTS, whatever the
 * application has written; 0: it does not. */
uint32_t receive_left(const struct ktsn_receive_control *control);

#endif
