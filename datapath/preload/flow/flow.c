/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include "socket_options.h"

#include <linux/net_tstamp.h>
#include <time.h>

static const clockid_t clockids[KTSN_CLOCKS] = {
	[KTSN_CLOCK_REALTIME] = CLOCK_REALTIME,
	[KTSN_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
	[KTSN_CLOCK_TAI] = CLOCK_TAI,
};

int flow_clockid_of(enum ktsn_clock clock)
{
	return clockids[clock];
}

int flow_clock_of(int clockid, enum ktsn_clock *clock)
{
	for (int i = 0; i < KTSN_CLOCKS; i++)
		if (clockids[i] == clockid) {
			*clock = (enum ktsn_clock)i;
			return 0;
		}
	return -EINVAL;
}

static uint8_t flags_of(uint32_t txtime_flags)
{
	return (uint8_t)((txtime_flags & SOF_TXTIME_DEADLINE_MODE ? KTSN_APP_DEADLINE : 0) |
			 (txtime_flags & SOF_TXTIME_REPORT_ERRORS ? KTSN_APP_REPORT_ERRORS : 0));
}

struct ktsn_app_request flow_request(enum ktsn_app_type type, const struct flow *flow)
{
	return (struct ktsn_app_request){
		.magic = KTSN_APP_MAGIC,
		.type = (uint16_t)type,
		.flow = flow->number,
		.clock = (uint8_t)flow->clock,
		.flags = flags_of(flow->txtime_flags),
		.destination = KTSN_APP_NONE,
		.interface = type == KTSN_APP_DESTINATION ? 0 : flow->multicast_interface,
	};
}

void flow_send_buffer_read(struct flow *flow, int fd)
{
	int limit = 0;

	(void)socket_option_read(fd, SOL_SOCKET, SO_SNDBUF, &limit);
	atomic_store_explicit(&flow->send_buffer_bytes, (uint32_t)limit, memory_order_relaxed);
}
