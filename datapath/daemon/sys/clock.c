/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <sys/timex.h>

void clock_state_read(struct clock_state *state)
{
	/* The unit of `freq` is 2^-16 ppm, and of the errors microseconds. */
	enum { NS_PER_US = 1000, PPB_PER_PPM = 1000, FREQUENCY_ONE_PPM = 1 << 16 };
	struct timex kernel = {0};

	*state = (struct clock_state){0};
	if (adjtimex(&kernel) < 0)
		return;
	state->tai_offset_s = kernel.tai;
	state->synchronized = !(kernel.status & STA_UNSYNC);
	state->maximum_error_ns = (int64_t)kernel.maxerror * NS_PER_US;
	state->estimated_error_ns = (int64_t)kernel.esterror * NS_PER_US;
	state->frequency_ppb = (int64_t)kernel.freq * PPB_PER_PPM / FREQUENCY_ONE_PPM;
	state->tick_ns = (int64_t)kernel.tick * NS_PER_US;
}
