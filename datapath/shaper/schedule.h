/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate control list: the writable part of gate-parameter-table in the YANG module ieee802-dot1q-sched (IEEE
 * Std 802.1Q-2022 clause 12.29.1), with times in nanoseconds.
 *
 * Plain values and pure functions; safe from any thread.
 */
#ifndef KTSN_SHAPER_SCHEDULE_H
#define KTSN_SHAPER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KTSN_CLASSES = 8,
	KTSN_SCHEDULE_ENTRIES_MAX = 256, /* supported-list-max */
	/* Shortest frame on the wire: preamble and SFD 8, frame with FCS 64, gap 12 (IEEE 802.3
	   clause 4.4.2). */
	KTSN_WIRE_BYTES_MIN = 84,
	KTSN_QUEUE_MAX_SDU_MIN = 46, /* smallest MAC client data of Ethernet */
	KTSN_QUEUE_MAX_SDU_MAX = 65535,
	KTSN_TICK_GRANULARITY_TENTHS_NS = 10,
};

#define KTSN_CYCLE_TIME_MAX_NS INT64_C(3600000000000) /* supported-cycle-max */
#define KTSN_BASE_TIME_MAX_NS  INT64_C(9000000000999999999)

/* gate-control-entry with the operation set-gate-states. */
struct ktsn_gate_entry {
	uint32_t interval_ns; /* time-interval-value */
	uint8_t gate_states;  /* gate-states-value: bit c is the gate of class c, 1 is open */
};

struct ktsn_schedule {
	bool gate_enabled;   /* false: the gates stay in gate_states, the list is not executed */
	uint8_t gate_states; /* admin-gate-states: until the list is executed for the first time */
	int64_t base_time_tai_ns;
	int64_t cycle_time_ns; /* longer than the list: its last states are held; shorter: it is cut */
	uint32_t cycle_time_extension_ns;
	uint32_t entry_count;
	struct ktsn_gate_entry entries[KTSN_SCHEDULE_ENTRIES_MAX];
	uint32_t queue_max_sdu_bytes[KTSN_CLASSES]; /* MAC client data of the frame on the wire; 0: any */
};

/* The first value of a schedule that is out of its range. Names are those of the request schedule-set. */
struct ktsn_schedule_fault {
	const char *list;  /* the list that has the value; NULL: none, the schedule itself has it */
	uint32_t index;    /* of the entry in that list */
	const char *field; /* of the schedule or the entry; NULL: the entry itself is the value */
	int64_t value;
	int64_t minimum, maximum; /* inclusive */
};

/* Initialises a schedule to the defaults: gates not enabled, all open. */
void ktsn_schedule_init(struct ktsn_schedule *schedule);

/*
 * Checks whether the schedule can be executed on a link on which the smallest frame takes frame_min_ns.
 * Returns 0, or -EINVAL with *fault filled in.
 */
int ktsn_schedule_check(const struct ktsn_schedule *schedule, int64_t frame_min_ns,
			struct ktsn_schedule_fault *fault);

#endif
