/* SPDX-License-Identifier: Apache-2.0 */
#include "attachments.h"

#include "commands.h"

#include <stdlib.h>

/* Includes attachments that only destinations still use: libraries of the pod have their bits. */
static uint64_t bits_taken(const struct routing *routing, const struct endpoint_set *set)
{
	uint64_t taken = 0;

	for (const struct attachment *attachment = routing->attachments; attachment;
	     attachment = attachment->next)
		if (attachment->set == set)
			taken |= attachment_bit(attachment);
	return taken;
}

static uint32_t number_find(const struct routing *routing, const struct endpoint_set *set, uint32_t wanted)
{
	uint64_t taken = bits_taken(routing, set);

	if (wanted == NETWORK_NUMBER_NONE || !~taken)
		return 0;
	if (wanted && wanted <= ATTACHMENT_NUMBERS && !(taken & UINT64_C(1) << (wanted - 1)))
		return wanted;
	return (uint32_t)__builtin_ctzll(~taken) + 1;
}

struct attachment *attachment_get(struct routing *routing, const struct endpoint_set *set, uint32_t vni,
				  uint32_t number_wanted)
{
	struct attachment *attachment;

	for (const struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next) {
		if (endpoint->vni != vni || !endpoint->attachment)
			continue;
		endpoint->attachment->users++;
		return endpoint->attachment;
	}
	attachment = calloc(1, sizeof(*attachment));
	if (!attachment)
		return NULL;
	attachment->loop.object = (struct loop_object){.kind = LOOP_ATTACHMENT, .owner = attachment};
	attachment->vni = vni;
	attachment->set = set;
	attachment->number = number_find(routing, set, number_wanted);
	attachment->users = 1;
	attachment->next = routing->attachments;
	routing->attachments = attachment;
	return attachment;
}

void attachment_use(struct attachment *attachment)
{
	attachment->users++;
	attachment->known = true;
}

void attachment_put(struct routing *routing, struct attachment *attachment)
{
	struct attachment **at = &routing->attachments;

	if (!attachment || --attachment->users)
		return;
	while (*at != attachment)
		at = &(*at)->next;
	*at = attachment->next;
	if (attachment->known)
		loop_command(routing->loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOSE,
								   .attachment = &attachment->loop});
	else
		free(attachment);
}

uint64_t attachment_bit(const struct attachment *attachment)
{
	return attachment && attachment->number ? UINT64_C(1) << (attachment->number - 1) : 0;
}

uint64_t attachments_refused(const struct endpoint_set *set)
{
	uint64_t refused = 0;

	for (const struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
		if (endpoint->attachment && endpoint->attachment->clock == LOOP_CLOCK_REFUSE)
			refused |= attachment_bit(endpoint->attachment);
	return refused;
}

void attachment_clock_send(const struct routing *routing, struct attachment *attachment)
{
	attachment->known = true;
	loop_command(routing->loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
							   .attachment = &attachment->loop,
							   .clock = attachment->clock});
}
