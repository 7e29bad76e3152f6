/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive rings of processes' sockets. The program at the uplink writes datagrams for a socket to its ring,
 * and libktsn reads them there. A socket has one ring, however many processes of the pod have opened it; the
 * ring is removed from the program's maps with the last of them.
 *
 *   pod's thread:   reads the socket, attaches the filter
 *   control thread: makes the ring
 *   pod's thread:   enters ring and socket, closes the socket, detaches the filter if there is no ring
 *   control thread: replies
 *
 * Rings that exist when ktsnd starts are those of a previous ktsnd. A process that opens such a socket gets
 * the same ring; rings that no process has opened after ten seconds are removed.
 *
 * The pod's thread also removes rings, all of a process at once.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_RECEIVING_H
#define KTSN_DAEMON_RECEIVING_H

#include "process.h"
#include "receive_layout.h"
#include "receive_maps.h"
#include "requests.h"

/* An eighth of the size of the program's maps (receive/receive.bpf.c), regardless of the pod's limit. */
enum { RECEIVE_POD_SOCKETS_MAX = 2048 };

/* A socket with a ring. */
struct receive_socket {
	uint64_t cookie;
	struct receive_ring ring;
	struct ktsn_receive_control *control;
	struct ring_charge *charge;
	uint32_t users;
	struct receive_socket *next; /* of its pod */
};

/* A process that has opened a socket. */
struct receive_user {
	struct receive_socket *socket;
	struct receive_user *next; /* of its process */
};

/* Serve requests of a process and fill in the reply, including its status and descriptors. */
void receive_open_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);
void receive_close_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);

/* Completes an open request after the pod's thread has entered the ring, or failed to. */
void receive_open_finish(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);

/* Removes the process from the users of all sockets. */
void receiving_end(struct process *process);
/* receiving_end() for all processes of the pod, which opens the maps only once. */
void receiving_end_all(struct pod *pod);
/* Takes over a socket that the process had opened at another ktsnd. 0 or -errno. */
int receiving_take_over(struct process *process, uint64_t cookie, const struct receive_ring *ring);
/* Returns the counters of all sockets of the pod, including ended ones. */
struct receive_counts receiving_counts(const struct pod *pod);
/* Counts the pod's sockets with a ring by the reason why the program leaves their datagrams to the kernel. */
void receiving_lefts(const struct pod *pod, uint32_t lefts[KTSN_RECEIVE_LEFTS]);

/* Sets the folder of the program's maps and finds the rings of a previous ktsnd. The node has a folder of its
 * own in `folder`, because several nodes of one machine may share that one. */
void receiving_begin(struct node *node, const char *folder);
/* Removes unused rings of a previous ktsnd when due. Returns ms until it must be called again, or -1. */
int receiving_tick(struct node *node);
void receiving_fini(struct node *node);

#endif
