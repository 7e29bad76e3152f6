/* SPDX-License-Identifier: Apache-2.0 */
#include "control_clock.h"

#include "clock.h"
#include "clocks.h"
#include "control_json.h"

#include <errno.h>
#include <string.h>

/* The largest values that are accepted: an error of an hour, and a drift of a second in each second. */
#define ERROR_MAX_NS (3600 * NS_PER_SECOND)
enum { DRIFT_MAX_PPB = 1000000000 };

/* Looks up the name in a place; the message lists the permitted names in `all`. */
static int name_read(const struct control_place *place, const char *const *names, int count, const char *all,
		     int *number, struct refusal *refusal)
{
	for (*number = 0; json_is_string(place->value) && *number < count; (*number)++)
		if (strcmp(names[*number], json_string_value(place->value)) == 0)
			return 0;
	*number = 0;
	return control_refuse_value(refusal, place, "%s", all);
}

int control_clock_read(const json_t *value, struct node_clock *clock, struct refusal *refusal)
{
	const struct control_place place = {.name = "clock", .value = value};
	struct control_place state;
	int number = 0;
	int err = control_object_check(&place, "state, error-bound-ns, drift-ppb", refusal);

	if (!err)
		err = control_member(&place, "state", &state, refusal);
	if (!err)
		err = name_read(&state, node_clock_state_names, NODE_CLOCK_STATES,
				"synchronized, holdover, unsynchronized or unknown", &number, refusal);
	if (!err)
		err = control_member_integer(&place, "error-bound-ns", -1, ERROR_MAX_NS,
					     &clock->error_bound_ns, refusal);
	if (!err)
		err = control_member_integer(&place, "drift-ppb", 0, DRIFT_MAX_PPB, &clock->drift_ppb,
					     refusal);
	clock->state = (enum node_clock_state)number;
	return err;
}

/* The value may be empty. */
static int reason_read(const struct control_place *place, char reason[CLOCK_REASON_MAX + 1],
		       struct refusal *refusal)
{
	size_t bytes = json_string_length(place->value);

	if (!json_is_string(place->value) || bytes > CLOCK_REASON_MAX ||
	    strlen(json_string_value(place->value)) != bytes)
		return control_refuse_value(refusal, place, "a sentence of at most %d bytes, without a NUL",
					    CLOCK_REASON_MAX);
	memcpy(reason, json_string_value(place->value), bytes + 1);
	return 0;
}

static int need_members_read(const struct control_place *place, struct clock_need *need,
			     struct refusal *refusal)
{
	struct control_place on_loss, good, reason;
	int number = 0;
	int err =
		control_member_integer(place, "max-error-ns", 1, ERROR_MAX_NS, &need->max_error_ns, refusal);

	if (!err)
		err = control_member(place, "on-loss", &on_loss, refusal);
	if (!err)
		err = name_read(&on_loss, on_clock_loss_names, ON_LOSSES, "continue, hold or refuse", &number,
				refusal);
	need->on_loss = (enum on_clock_loss)number;
	if (!err)
		err = control_member(place, "good", &good, refusal);
	if (!err)
		err = control_boolean(&good, &need->good, refusal);
	if (!err)
		err = control_member(place, "reason", &reason, refusal);
	return err ? err : reason_read(&reason, need->reason, refusal);
}

int control_clock_need_read(const json_t *value, struct clock_need *need, bool *given,
			    struct refusal *refusal)
{
	const struct control_place place = {.name = "clock", .value = value};
	int err = control_object_check(&place, "max-error-ns, on-loss, good, reason", refusal);

	*given = !err && json_object_size(value) > 0;
	return *given ? need_members_read(&place, need, refusal) : err;
}

json_t *control_network_clock_json(const struct network_clock *network)
{
	json_t *object = json_object();
	const struct clock_need *need = &network->need;

	reply_int(object, "vni", network->vni);
	reply_int(object, "max-error-ns", need->max_error_ns);
	reply_string(object, "on-loss", on_clock_loss_names[need->on_loss]);
	reply_bool(object, "good", need->good);
	reply_bool(object, "lost", network->lost);
	reply_string(object, "reason", need->reason);
	return object;
}
