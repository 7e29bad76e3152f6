/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of an application on its way through ktsnd, one for each connection at a time.
 *
 *   control thread: the connection is readable
 *   pod's thread:   receives, looks at the descriptor that comes with it, closes what is not kept
 *   control thread: serves (process_requests.h); of a socket that is kept until then, has the pod's thread
 *   close it, and serves the rest
 *   pod's thread:   replies
 *   control thread: waits for the next
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
	struct process *process; /* the control thread's; NULL: its connection was closed meanwhile */
	void (*serve)(struct process *process);
	bool busy;     /* likewise: between the connection and the reply */
	bool has_ring; /* as the request begins: then it can make none */
	int connection_fd;
	/* Result of the pod's thread. */
	int got; /* 1: a request, 0: none after all, -errno: the connection is to be closed */
	struct ktsn_app_request message;
	int passed_err;                  /* why what came with it is of no use; 0: it is */
	struct socket_identity identity; /* FLOW_OPEN, FLOW_ADOPT */
	struct notifier *notifier;       /* FLOW_WAKE; the server's to take */
	int memory_fd;                   /* HAND_BACK; -1: none. Likewise */
	struct doorbells *doorbells;
	int doorbell_fd, doorbell_set_fd; /* HELLO, HAND_BACK; -1 or -errno: none. Likewise */
	/* RECEIVE_OPEN, RECEIVE_CLOSE: the socket stays open until the request is finished. */
	int filter_fd; /* of the pod's sockets; -1: it gets none */
	int socket_fd;
	struct receive_state receive;
	struct receive_maps entering; /* where the pod's thread enters socket and reply_fds; -1: nowhere */
	/* The ring's page; the pod's thread, which unmaps it, has it. NULL: none. */
	struct ktsn_receive_control *control;
	int enter_err;
	bool opens; /* the process had not opened the socket before */
	bool filter_goes;
	bool finishing;
	bool replying;
	int reply_fds[2]; /* what goes with the reply; -1: nothing */
	struct ktsn_app_reply reply;
	int sent_err; /* of sending it */
};

/* Whether there are descriptors for another connection or request of a pod if every pending request takes the
 * maximum, including requests that wait in a pod's thread. */
bool app_requests_descriptors_suffice(void);
/* For a process that has a connection; `serve` is called with each request that was read. NULL when out of
 * memory. */
struct app_request *app_request_create(struct process *process, void (*serve)(struct process *process));
/* The connection is readable, and is not looked at again before this was served. */
void app_request_begin(struct app_request *request);
/* The pod's thread closes the socket that came with the request, and it is served once more, with
 * `finishing`. */
void app_request_finish(struct app_request *request);
/* The pod's thread sends the reply, and it is served once more, with `replying`. */
void app_request_reply(struct app_request *request);
/* It ends when it can. */
void app_request_abandon(struct app_request *request);
/* Its descriptors, as far as they were not taken. */
void app_request_clear(struct app_request *request);

#endif
