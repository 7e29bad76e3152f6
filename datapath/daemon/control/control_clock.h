/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object `clock` of the control socket (docs/control-protocol.md). Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_CLOCK_H
#define KTSN_DAEMON_CONTROL_CLOCK_H

#include "clock_state.h"
#include "log.h"

#include <jansson.h>

/* Reads the clock of clock-set, except its time of arrival. Returns 0, or -EINVAL with *refusal filled in. */
int control_clock_read(const json_t *value, struct node_clock *clock, struct refusal *refusal);
/* Reads the clock of network-clock-set; *given is false for an empty object. Returns as above. */
int control_clock_need_read(const json_t *value, struct clock_need *need, bool *given,
			    struct refusal *refusal);

json_t *control_network_clock_json(const struct network_clock *network);

#endif
