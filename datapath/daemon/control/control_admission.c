/* SPDX-License-Identifier: Apache-2.0 */
#include "control_admission.h"

#include "control_json.h"
#include "control_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int mac_parse(const char *text, uint8_t mac[6])
{
	int end = 0;

	/* sscanf() alone would accept spaces and signs. */
	if (strlen(text) != CONTROL_MAC_CHARACTERS ||
	    strspn(text, "0123456789abcdefABCDEF:") != CONTROL_MAC_CHARACTERS)
		return -EINVAL;
	if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
		   &mac[5], &end) != 6)
		return -EINVAL;
	return end == CONTROL_MAC_CHARACTERS ? 0 : -EINVAL;
}

static int macs_read(const struct control_place *list, struct endpoint_admission *admission,
		     struct refusal *refusal)
{
	int err = control_list_check(list, 0, ADMISSION_MACS_MAX, refusal);

	for (size_t i = 0; !err && i < json_array_size(list->value); i++) {
		const struct control_place entry = control_entry(list, i);
		const char *text = json_string_value(entry.value);
		uint8_t *mac = admission->macs[admission->mac_count++];

		if (!text || mac_parse(text, mac) || !mac_is_unicast(mac))
			err = control_refuse_value(
				refusal, &entry,
				"a hardware address of one interface, such as 02:00:0a:2a:00:02");
	}
	return err;
}

static int addresses_read(const struct control_place *list, struct endpoint_admission *admission,
			  struct refusal *refusal)
{
	int err = control_list_check(list, 0, ADMISSION_ADDRESSES_MAX, refusal);

	for (size_t i = 0; !err && i < json_array_size(list->value); i++) {
		const struct control_place entry = control_entry(list, i);
		const char *text = json_string_value(entry.value);

		if (!text || control_subnet_parse(text, &admission->addresses[admission->address_count++]))
			err = control_refuse_value(
				refusal, &entry,
				"an IP subnet such as 10.42.1.2/32 or fd42::2/128, with no "
				"bits set behind the prefix");
	}
	return err;
}

int control_sources_read(const json_t *value, struct endpoint_admission *admission, struct refusal *refusal)
{
	const struct control_place place = {.name = "sources", .value = value};
	struct control_place macs, addresses;
	int err = control_object_check(&place, "hardware-addresses, addresses", refusal);

	if (!err)
		err = control_member(&place, "hardware-addresses", &macs, refusal);
	if (!err)
		err = control_member(&place, "addresses", &addresses, refusal);
	if (!err)
		err = macs_read(&macs, admission, refusal);
	if (!err)
		err = addresses_read(&addresses, admission, refusal);
	admission->any_address = false;
	return err;
}

int control_grants_read(const json_t *value, struct endpoint_admission *admission, struct refusal *refusal)
{
	const struct control_place place = {.name = "grants", .value = value};
	struct control_place tagged;
	int64_t priority_max = 0;
	int err = control_object_check(&place, "priority-max, priority-code-point", refusal);

	if (!err)
		err = control_member_integer(&place, "priority-max", ADMISSION_PRIORITY_DEFAULT,
					     ADMISSION_PRIORITY_MAX, &priority_max, refusal);
	if (!err)
		err = control_member(&place, "priority-code-point", &tagged, refusal);
	if (!err)
		err = control_boolean(&tagged, &admission->pcp_is_priority, refusal);
	admission->priority_max = (uint8_t)priority_max;
	return err;
}

static json_t *macs_json(const struct endpoint_admission *admission)
{
	json_t *list = json_array();
	char text[CONTROL_MAC_CHARACTERS + 1];

	for (uint32_t i = 0; i < admission->mac_count; i++)
		json_array_append_new(list, json_string(control_mac_text(admission->macs[i], text)));
	return list;
}

static json_t *addresses_json(const struct endpoint_admission *admission)
{
	char text[CONTROL_SUBNET_CHARACTERS + 1];
	json_t *list = json_array();

	if (admission->any_address) {
		json_array_append_new(list, json_string("0.0.0.0/0"));
		json_array_append_new(list, json_string("::/0"));
		return list;
	}
	for (uint32_t i = 0; i < admission->address_count; i++)
		json_array_append_new(list, json_string(control_subnet_text(&admission->addresses[i], text)));
	return list;
}

json_t *control_sources_json(const struct endpoint_admission *admission)
{
	json_t *object = json_object();

	reply_object(object, "hardware-addresses", macs_json(admission));
	reply_object(object, "addresses", addresses_json(admission));
	return object;
}

json_t *control_grants_json(const struct endpoint_admission *admission)
{
	json_t *object = json_object();

	reply_int(object, "priority-max", admission->priority_max);
	reply_bool(object, "priority-code-point", admission->pcp_is_priority);
	return object;
}
