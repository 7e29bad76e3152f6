/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of a process. The application passes the socket itself, and ktsnd reads its type, addresses and
 * namespace from the kernel.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_FLOWS_H
#define KTSN_DAEMON_FLOWS_H

#include "flow.h"
#include "requests.h"

/* Serve requests of a process and fill in the reply, including its status. */
void flow_open(struct process *process, const struct app_request *from, struct ktsn_app_reply *reply);
void flow_close_request(struct process *process, const struct ktsn_app_request *request,
			struct ktsn_app_reply *reply);
void flow_destination_request(struct process *process, const struct ktsn_app_request *request,
			      struct ktsn_app_reply *reply);
void flow_destination_close_request(struct process *process, const struct ktsn_app_request *request,
				    struct ktsn_app_reply *reply);
void flow_notifier_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);

/* Restores a flow and its destinations from another ktsnd, with their numbers. 0 or -errno. */
struct flow_description {
	uint32_t index;
	struct txtime_mode mode;
	bool frames;
	uint64_t cookie;
	uint64_t netns_cookie;
	struct socket_attributes attributes;
	bool ended;
};
struct destination_description {
	uint32_t index;
	uint32_t flow;
	struct ktsn_app_key key;
	bool connected; /* destination of a connected socket */
	bool ended;
};
int flow_take_over(struct process *process, const struct flow_description *description);
int flow_destination_take_over(struct process *process, const struct destination_description *description);
/* Closes restored flows that had ended. */
void flows_taken_close(struct process *process);
void flow_free(struct flow *flow);

/*
 * Sockets with SO_TXTIME that may outlive the process that set it, or be used by another: over exec, after
 * fork, passed by SCM_RIGHTS. They are identified by the kernel's cookie.
 */

/* Remembers the socket of a flow that ends, because another process may still have it. */
void timed_socket_remember(struct pod *pod, const struct flow *flow);
/* Takes over a socket that another ktsnd remembered. */
void timed_socket_take_over(struct pod *pod, const struct timed_socket *socket);

#endif
