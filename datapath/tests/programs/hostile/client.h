/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that speaks to ktsnd itself, without libktsn and without its manners: the application
 * socket, and a mapping of the ring in which nothing stops it.
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
	int receive_fds[2];            /* of the last receive ring that came; -1: none */
	struct ktsn_ring_header *ring; /* NULL: none */
	size_t bytes;
	/* As the ring had them when it came. */
	uint32_t slot_count;
	uint32_t slot_bytes;
	uint32_t flow;
	uint32_t destination;
};

/* What the command line says. */
struct target {
	const char *path;      /* of the application socket */
	struct sockaddr_in to; /* where messages go */
	int64_t length_ns;     /* from its beginning, when all is prepared */
	long count;            /* how many of what the mode makes; 0: as it likes */
};

enum { CALL_TIMEOUT_MS = 2000 };

/* All of them: 0 or -errno. */
int client_connect(struct client *client, const struct target *target);
/* A request as ktsnd expects it, to be changed at will. */
struct ktsn_app_request client_request(enum ktsn_app_type type);
/* passed_fd -1: none. */
int client_send(struct client *client, const void *request, size_t bytes, int passed_fd);
/* Replies bring the ring and its doorbell. -ECONNRESET: ktsnd has closed the connection. */
int client_receive(struct client *client, struct ktsn_app_reply *reply);
/* Both; what ktsnd answers is the result. */
int client_call(struct client *client, const struct ktsn_app_request *request, int passed_fd,
		struct ktsn_app_reply *reply);
int client_hello(struct client *client);
int client_flow_open(struct client *client, int socket_fd);
/* connect, hello and a flow to the target; undone when one fails. */
int client_open(struct client *client, const struct target *target);
void client_close(struct client *client);

/* A UDP socket connected to the target, or -errno. */
int socket_to(const struct target *target);

int64_t now_ns(clockid_t clock);
/* The first call begins, and says so on stderr. */
bool time_left(const struct target *target);

struct ktsn_ring_slot *client_slot(const struct client *client, uint32_t slot);
/* Fills a slot like a well-behaved producer, whether it is free or not. */
void client_publish(const struct client *client, uint32_t slot, int64_t txtime_ns, uint32_t payload_bytes);
/* Sets the ready bits of all slots. */
void client_all_ready(const struct client *client);
void client_ring(const struct client *client);

#endif
