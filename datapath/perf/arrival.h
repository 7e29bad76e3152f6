/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that arrived: those of the talker at a listener, and replies to them at the talker. One thread.
 */
#ifndef KTSN_PERF_ARRIVAL_H
#define KTSN_PERF_ARRIVAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "parse.h"

/* One message that arrived. */
struct listener_record {
	int64_t txtime_ns;  /* from the message; 0 when it is not one of tsnperf's */
	int64_t arrival_ns; /* on the message's own clock */
	uint32_t sequence;
	uint32_t run_id;
	uint32_t payload_bytes; /* received */
	struct in6_addr source; /* IPv4 as IPv4-mapped */
	uint16_t source_port;
	bool decoded; /* it is one of tsnperf's */
	bool valid;   /* magic, version, clock, length and pattern are valid */
};

/*
 * Takes a datagram if one has arrived. Returns its bytes and fills in *source and *record; -EAGAIN or other
 * -errno leave *record unchanged.
 */
ssize_t arrival_receive(int fd, uint8_t *payload, size_t capacity_bytes, union parse_endpoint *source,
			struct listener_record *record);

/* Like csv_write(). */
int arrival_write(FILE *csv, const char *path, const struct listener_record *records, size_t count);

#endif
