/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_RELAY_CLOCKS_H
#define KTSN_RELAY_CLOCKS_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
