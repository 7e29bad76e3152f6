/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The field "schedule" of the request schedule-set: from JSON to a schedule. Clients parse and explain the
 * schedules of users (internal/shared/schedule); ktsnd refuses only values that it cannot execute. Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_SCHEDULE_H
#define KTSN_DAEMON_CONTROL_SCHEDULE_H

#include "log.h"
#include "schedule.h"

#include <jansson.h>

/*
 * Reads fields and types. ktsn_schedule_check() checks the values, which depend on the link. Returns 0, or
 * -EINVAL with *refusal filled in and *schedule in no particular state.
 */
int control_schedule_read(const json_t *value, struct ktsn_schedule *schedule, struct refusal *refusal);

/* Fills in the refusal for a fault that ktsn_schedule_check() found. Returns -EINVAL. */
int control_schedule_refuse(const struct ktsn_schedule_fault *fault, struct refusal *refusal);

#endif
