/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers for property tests that can be repeated: each run prints its seed, and KTSN_TEST_SEED=<seed>
 * in the environment sets it.
 */
#ifndef KTSN_TEST_RANDOM_H
#define KTSN_TEST_RANDOM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct test_random {
	uint64_t state;
};

/* A comment line in the TAP output contains the seed. */
static inline struct test_random test_random_seeded(const char *test)
{
	const char *given = getenv("KTSN_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	printf("# %s: KTSN_TEST_SEED=%" PRIu64 "\n", test, seed);
	fflush(stdout);
	return (struct test_random){seed};
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t test_random_next(struct test_random *random)
{
	uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* From 0 to limit - 1. The bias of the remainder does not matter to tests. */
static inline uint64_t test_random_below(struct test_random *random, uint64_t limit)
{
	return test_random_next(random) % limit;
}

/* The number of rounds: KTSN_TEST_FACTOR=<n> multiplies it by n; slow sanitizer builds do fewer. */
static inline uint64_t test_random_rounds(uint64_t rounds)
{
	const char *factor = getenv("KTSN_TEST_FACTOR");

#ifdef __SANITIZE_ADDRESS__
	rounds /= 10;
#endif
#ifdef __SANITIZE_THREAD__
	rounds /= 20;
#endif
	return factor ? rounds * strtoull(factor, NULL, 0) : rounds;
}

#endif
