/* SPDX-License-Identifier: Apache-2.0 */
#include "departures.h"

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
