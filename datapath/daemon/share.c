/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include "clock.h"

#include <stdlib.h>

/* What may come at once, and still be within the rate. */
enum { BURST_NS = 10000000 };

static struct share_rate rate_of(uint32_t per_second)
{
	if (!per_second)
		return (struct share_rate){0};
	return (struct share_rate){.interval_ns = NS_PER_SECOND / per_second, .burst_ns = BURST_NS};
}

struct share *share_create(const struct share_limits *limits)
{
	struct share *share = calloc(1, sizeof(*share));

	if (!share)
		return NULL;
	share->limits = *limits;
	share->users = 1;
	share->messages = rate_of(limits->message_rate);
	share->doorbells = rate_of(limits->doorbell_rate);
	return share;
}

void share_get(struct share *share)
{
	share->users++;
}

void share_put(struct share *share)
{
	if (share && --share->users == 0)
		free(share);
}
