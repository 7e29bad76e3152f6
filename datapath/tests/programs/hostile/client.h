/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that talks to ktsnd directly, without libktsn and its rules: the application socket, and an
 * unrestricted mapping of the ring.
 */
#ifndef KTSN_TEST_HOSTILE_CLIENT_H
#define KTSN_TEST_HOSTILE_CLIENT_H

#include "app_protocol.h"
#include "layout.h"

#include <netinet/in.h>
#include <stdbool.h>

struct client {
	int fd;
	int ring_fd;
	int bell_fd;
	int receive_fds[2];            /* of the last receive ring; -1: none */
	struct ktsn_ring_header *ring; /* NULL: none */
	size_t bytes;
	/* The ring's geometry when it arrived. */
	uint32_t slot_count;
	uint32_t slot_bytes;
	uint32_t flow;
	uint32_t destination;
};

/* The command line. */
struct target {
	const char *path;      /* of the application socket */
	struct sockaddr_in to; /* destination of the messages */
	int64_t length_ns;     /* when all is prepared, from the start of the program */
	long count;            /* the number of objects that the mode creates; 0: the mode's default */
};

enum { CALL_TIMEOUT_MS = 2000 };

/* All return 0 or -errno. */
int client_connect(struct client *client, const struct target *target);
/* Fills in a valid request, for callers to change. */
struct ktsn_app_request client_request(enum ktsn_app_type type);
/* passed_fd -1: none. */
int client_send(struct client *client, const void *request, size_t bytes, int passed_fd);
/* Replies bring the ring and its doorbell. -ECONNRESET: ktsnd has closed the connection. */
int client_receive(struct client *client, struct ktsn_app_reply *reply);
/* Sends and receives; returns ktsnd's result. */
int client_call(struct client *client, const struct ktsn_app_request *request, int passed_fd,
		struct ktsn_app_reply *reply);
int client_hello(struct client *client);
int client_flow_open(struct client *client, int socket_fd);
/* Connects, sends HELLO and opens a flow to the target; undone on failure. */
int client_open(struct client *client, const struct target *target);
void client_close(struct client *client);

/* Returns a UDP socket connected to the target, or -errno. */
int socket_to(const struct target *target);

int64_t now_ns(clockid_t clock);
/* Announces the first call on stderr when it begins. */
bool time_left(const struct target *target);

struct ktsn_ring_slot *client_slot(const struct client *client, uint32_t slot);
/* Fills a slot like a well-behaved producer, but even if the slot is not free. */
void client_publish(const struct client *client, uint32_t slot, int64_t txtime_ns, uint32_t payload_bytes);
/* Sets the ready bits of all slots. */
void client_all_ready(const struct client *client);
void client_ring(const struct client *client);

#endif
