/* SPDX-License-Identifier: Apache-2.0 */
#include "departures.h"

#include "realtime.h"

#include <errno.h>
#include <stdlib.h>

int departures_init(struct departures *departures, uint32_t kept)
{
	/* A power of two, as a journal wants it. */
	departures->kept = DEPARTURES_KEPT_MIN;
	while (departures->kept < (kept ? kept : DEPARTURES_KEPT_DEFAULT))
		departures->kept *= 2;
	departures->words =
		realtime_alloc((size_t)departures->kept * DEPARTURE_WORDS * sizeof(*departures->words));
	return departures->words ? 0 : -ENOMEM;
}

void departures_fini(struct departures *departures)
{
	free((void *)departures->words);
}

uint32_t departures_read(struct departures *departures, uint64_t after, uint32_t limit,
			 struct departure *records, uint64_t *overwritten)
{
	uint64_t words[DEPARTURES_READ_MAX][DEPARTURE_WORDS], first;
	uint32_t count = journal_read(departures_journal(departures), after,
				      limit < DEPARTURES_READ_MAX ? limit : DEPARTURES_READ_MAX, words[0],
				      &first, overwritten);

	for (uint32_t i = 0; i < count; i++)
		records[i] = (struct departure){.sequence = first + i,
						.flow = words[i][0] >> 1,
						.overrun = words[i][0] & 1,
						.requested_tai_ns = (int64_t)words[i][1],
						.departed_tai_ns = (int64_t)words[i][2]};
	return count;
}
