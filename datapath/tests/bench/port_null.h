/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port that only counts, so that only the path to it is measured. Buffers are reused last in, first out.
 */
#ifndef KTSN_BENCH_PORT_NULL_H
#define KTSN_BENCH_PORT_NULL_H

#include "port.h"

/* Written by the sending thread; others may read them after `finished` is set. */
struct port_null_counts {
	uint64_t frames;
	uint64_t sends;
	int64_t begin_ns; /* processor time of the sending thread when it came to the port... */
	int64_t last_ns;  /* ...and when all frames had arrived */
};

struct ktsn_port *port_null_create(uint32_t buffers, uint32_t buffer_bytes);

/* Expects this many frames from now on. No frame may be under way. */
void port_null_expect(struct ktsn_port *port, uint64_t frames);

/* Returns true when they have arrived; *counts is then valid. Any thread. */
int port_null_finished(struct ktsn_port *port, struct port_null_counts *counts);

#endif
