/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the node's clock as the agent has sent it, the requirements of networks, and steps. Control
 * thread; clocks.h changes it.
 */
#ifndef KTSN_DAEMON_CLOCK_STATE_H
#define KTSN_DAEMON_CLOCK_STATE_H

#include "events.h"

#include <stdbool.h>
#include <stdint.h>

enum node_clock_state {
	NODE_CLOCK_UNKNOWN, /* also before the agent has sent a state */
	NODE_CLOCK_SYNCHRONIZED,
	NODE_CLOCK_HOLDOVER,
	NODE_CLOCK_UNSYNCHRONIZED,
	NODE_CLOCK_STATES,
};

/* The state of the node's clock, as reported by the agent. */
struct node_clock {
	enum node_clock_state state;
	int64_t error_bound_ns; /* at reported_ns; -1: not known */
	int64_t drift_ppb;      /* growth of the bound since then */
	int64_t reported_ns;    /* CLOCK_MONOTONIC; 0: never */
};

enum on_clock_loss { ON_LOSS_CONTINUE, ON_LOSS_HOLD, ON_LOSS_REFUSE, ON_LOSSES };

enum { CLOCK_REASON_MAX = 512, NETWORKS_WITH_CLOCKS_MAX = 4096 };

/* The requirements of a network, and whether the clock is good enough for the agent. */
struct clock_need {
	int64_t max_error_ns;
	enum on_clock_loss on_loss;
	bool good;
	char reason[CLOCK_REASON_MAX + 1]; /* why the clock is not good; may be empty */
};

struct network_clock {
	uint32_t vni;
	struct clock_need need;
	bool lost; /* the clock is not good, or its error bound exceeds max_error_ns */
	struct network_clock *next;
};

/* Steps of CLOCK_TAI. */
struct clock_steps {
	struct event_source set; /* readable when CLOCK_REALTIME is set; fd -1: it is not watched */
	bool known;
	int64_t monotonic_to_tai_ns; /* at the last check */
	uint64_t count;
	int64_t last_ns; /* size of the last step; negative: the clock was set back */
};

struct node_clocks {
	struct node_clock reported;
	struct network_clock *networks;
	uint32_t network_count;
	struct clock_steps steps;
};

#endif
