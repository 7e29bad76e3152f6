/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of the control socket (docs/control-protocol.md): from structures to JSON text. Pure. Every
 * result is the caller's to free(); NULL when there is no memory.
 */
#ifndef KTSN_DAEMON_CONTROL_REPLY_H
#define KTSN_DAEMON_CONTROL_REPLY_H

#include "counters.h"
#include "departures.h"
#include "node.h"

struct control_status {
	int pid;
	const char *uplink;
	const char *interface;
	uint32_t local_address_be;
	const char *strategy;
	const char *scheduler;
	int scheduler_priority;
	int cpu;
	int64_t spin_ns;
	bool keep_awake;
	uint32_t sockets, endpoints, peers, processes, flows, pending;
	const struct counters *counters;
	uint64_t kernel_path;
};

char *control_reply_ok(void);
char *control_reply_error(const struct refusal *refusal);
char *control_reply_status(const struct control_status *status);
/* The list from `offset` on, at most `limit` entries. */
char *control_reply_endpoints(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_peers(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_departures(const struct departure *records, uint32_t count, uint64_t overwritten);

#endif
