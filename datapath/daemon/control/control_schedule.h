/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The field "gate-parameter-table" of the request schedule-set: from JSON to a schedule. Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_SCHEDULE_H
#define KTSN_DAEMON_CONTROL_SCHEDULE_H

#include "refusal.h"
#include "schedule.h"

#include <jansson.h>

/*
 * Everything that the request decides alone: fields, types, what the types can hold, order of the entries.
 * Whether a link can execute the result is ktsn_schedule_check()'s to say. 0, or -EINVAL with *refusal filled
 * in and *schedule in no particular state.
 */
int control_schedule_read(const json_t *table, struct ktsn_schedule *schedule, struct refusal *refusal);

/* Says what ktsn_schedule_check() found, of a link of that speed. Returns -EINVAL. */
int control_schedule_refuse(const struct ktsn_schedule_fault *fault, int64_t link_speed_bps,
			    struct refusal *refusal);

#endif
