/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive rings of processes' sockets: into each the program at the uplink puts what comes for the socket,
 * and libktsn reads it there. A socket has one ring, however many processes of the pod have opened it; the
 * ring is taken out of the program's maps with the last of them.
 *
 *   pod's thread:   reads the socket, attaches the filter
 *   control thread: makes the ring
 *   pod's thread:   enters ring and socket, closes the socket, takes the filter off again where there is no
 * ring control thread: replies
 *
 * Rings that were there when ktsnd began are a former one's. Who opens such a socket gets the same ring;
 * those that nobody has opened after ten seconds are removed.
 *
 * Rings are taken out by the pod's thread as well, all of a process at once.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_RECEIVING_H
#define KTSN_DAEMON_RECEIVING_H

#include "process.h"
#include "receive_layout.h"
#include "receive_maps.h"
#include "requests.h"

/* An eighth of what the program's maps hold (receive/receive.bpf.c), whatever the pod's limit. */
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

/* That a process has opened it. */
struct receive_user {
	struct receive_socket *socket;
	struct receive_user *next; /* of its process */
};

/* Requests of a process. Fill in the reply, status included, and what goes with it. */
void receive_open_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);
void receive_close_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);

/* The pod's thread has finished one of both: what it could not enter is refused. */
void receive_open_finish(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);

/* The process ends, or has ended. */
void receiving_end(struct process *process);
/* receiving_end() for all processes of the pod, which takes the descriptors of the maps once. */
void receiving_end_all(struct pod *pod);
/* What another ktsnd knew of a socket that the process had opened. 0 or -errno. */
int receiving_take_over(struct process *process, uint64_t cookie, const struct receive_ring *ring);
/* Of all sockets of the pod, also of those that it has no more. */
struct receive_counts receiving_counts(const struct pod *pod);
/* Its sockets that have a ring, by why the program leaves their datagrams to the kernel. */
void receiving_lefts(const struct pod *pod, uint32_t lefts[KTSN_RECEIVE_LEFTS]);

/* ktsnd begins. The program's maps are pinned, or will be, in the folder that the node has in this one: nodes
 * of one machine may share it, and take each other's rings for a former ktsnd's otherwise. */
void receiving_begin(struct node *node, const char *folder);
/* Removes what a former ktsnd has left. Returns ms until it is due, -1: there is nothing. */
int receiving_tick(struct node *node);
void receiving_fini(struct node *node);

#endif
