/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of an application and its steps in ktsnd. A connection has one at a time.
 *
 *   control thread: the connection is readable
 *   pod's thread:   receives it, reads its descriptor, closes the descriptor unless it is kept
 *   control thread: serves it (process_requests.h); a socket that was kept is first closed by the pod's
 * thread pod's thread:   replies control thread: waits for the next request
 */
#ifndef KTSN_DAEMON_REQUESTS_H
#define KTSN_DAEMON_REQUESTS_H

#include "app_protocol.h"
#include "pod_thread.h"
#include "process.h"
#include "receive_maps.h"
#include "receive_socket.h"
#include "socket_identity.h"

struct notifier;

struct app_request {
	struct pod_work work;
	struct pod_thread *thread;
	struct process *process; /* control thread; NULL: the connection has been closed */
	void (*serve)(struct process *process);
	bool busy;     /* a step is queued or runs in the pod's thread; control thread */
	bool has_ring; /* when the request begins: it cannot create another */
	int connection_fd;
	/* Results of the pod's thread. */
	int got; /* 1: a request; 0: none; -errno: the connection must be closed */
	struct ktsn_app_request message;
	int passed_err;                  /* why the descriptor is unusable; 0: it is usable */
	struct socket_identity identity; /* FLOW_OPEN, FLOW_ADOPT */
	struct notifier *notifier;       /* FLOW_WAKE; serving takes it */
	int memory_fd;                   /* HAND_BACK; serving takes it; -1: none */
	struct doorbells *doorbells;
	int doorbell_fd, doorbell_set_fd; /* HELLO, HAND_BACK; serving takes them; -1 or -errno: none */
	/* RECEIVE_OPEN, RECEIVE_CLOSE: the socket stays open until the request is finished. */
	int filter_fd; /* filter for sockets of the pod; -1: none */
	int socket_fd;
	struct receive_state receive;
	struct receive_maps entering; /* maps into which the pod's thread enters socket and ring; -1: none */
	/* The ring's control page, which the pod's thread unmaps. NULL: none. */
	struct ktsn_receive_control *control;
	int enter_err;
	bool opens; /* the process had not opened the socket before */
	bool filter_goes;
	bool finishing;
	bool replying;
	int reply_fds[2]; /* descriptors of the reply; -1: none */
	struct ktsn_app_reply reply;
	int sent_err; /* result of sending it */
};

/* Whether there are descriptors for another connection or request of a pod if every pending request takes the
 * maximum, including requests that wait in a pod's thread. */
bool app_requests_descriptors_suffice(void);
/* Creates the request of a process with a connection; `serve` is called after each step of the pod's thread.
 * NULL when out of memory. */
struct app_request *app_request_create(struct process *process, void (*serve)(struct process *process));
/* Begins a request when the connection is readable. The connection must not be watched until it is served. */
void app_request_begin(struct app_request *request);
/* Has the pod's thread enter the ring and close the socket. Then the request is served again, with
 * `finishing`. */
void app_request_finish(struct app_request *request);
/* Has the pod's thread send the reply. Then the request is served again, with `replying`. */
void app_request_reply(struct app_request *request);
/* Frees the request, after the pod's thread has finished its step. */
void app_request_abandon(struct app_request *request);
/* Closes the descriptors that were not taken, and prepares for the next request. */
void app_request_clear(struct app_request *request);

#endif
