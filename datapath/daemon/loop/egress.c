/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The earliest departure over all egresses.
 */
#include "egress.h"

#include "loop_state.h"

static int64_t departure_next(const struct egress *egress, int64_t now_tai_ns)
{
	int64_t due_tai_ns = ktsn_shaper_next(egress->shaper, now_tai_ns);

	return due_tai_ns > egress->retry_tai_ns ? due_tai_ns : egress->retry_tai_ns;
}

int64_t egress_departure_next(const struct loop *loop, int64_t now_tai_ns)
{
	int64_t uplink_tai_ns = departure_next(&loop->egress[EGRESS_UPLINK], now_tai_ns);
	int64_t bridge_tai_ns = departure_next(&loop->egress[EGRESS_BRIDGE], now_tai_ns);

	return uplink_tai_ns < bridge_tai_ns ? uplink_tai_ns : bridge_tai_ns;
}
