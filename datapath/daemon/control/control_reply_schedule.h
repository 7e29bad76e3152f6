/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply "schedule" of the control socket (docs/control-protocol.md): from structures to JSON text. Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_REPLY_SCHEDULE_H
#define KTSN_DAEMON_CONTROL_REPLY_SCHEDULE_H

#include "schedule.h"

/* The last schedule that was requested, and the one in force. They may be the same. */
struct control_schedule {
	const struct ktsn_schedule *admin;
	const struct ktsn_schedule *oper; /* its list is omitted without gate_enabled: it is not executed */
	uint8_t oper_gate_states;         /* at current_time_tai_ns */
	bool config_pending;              /* `admin` comes into force at config_change_time_tai_ns */
	int64_t config_change_time_tai_ns;
	uint64_t config_change_error;
	int64_t current_time_tai_ns;
	uint64_t transmission_overrun[KTSN_CLASSES];
	int64_t link_speed_bps;
	int64_t guard_band_ns;
};

/* Returns the reply, which the caller frees; NULL when there is no memory. */
char *control_reply_schedule(const struct control_schedule *schedule);

#endif
