/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The privileges that ktsnd gives up, in all threads. Each test is a process of its own because they cannot
 * be regained.
 */
#include "privileges.h"

#include "test_skip.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

enum { AS_EXPECTED = 10, NOT_GIVEN_UP, TOO_MUCH, TOO_LITTLE, FAILED };

#define BIT(capability) (UINT64_C(1) << (capability))

static const uint64_t at_start = BIT(CAP_NET_RAW) | BIT(CAP_NET_ADMIN) | BIT(CAP_SYS_ADMIN) |
				 BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_NICE) | BIT(CAP_SYS_RAWIO);
static const uint64_t kept = BIT(CAP_NET_ADMIN) | BIT(CAP_SYS_ADMIN) | BIT(CAP_IPC_LOCK);

/* The privileges of the calling thread. */
static uint64_t held(void)
{
	uint64_t all = 0;
	cap_t current = cap_get_proc();

	for (cap_value_t capability = 0; current && capability <= CAP_LAST_CAP; capability++) {
		cap_flag_value_t permitted = CAP_CLEAR, effective = CAP_CLEAR;

		cap_get_flag(current, capability, CAP_PERMITTED, &permitted);
		cap_get_flag(current, capability, CAP_EFFECTIVE, &effective);
		if (permitted == CAP_SET || effective == CAP_SET)
			all |= BIT(capability);
	}
	cap_free(current);
	return all;
}

static int compare(uint64_t expected)
{
	return held() & ~expected ? TOO_MUCH : held() != expected ? TOO_LITTLE : AS_EXPECTED;
}

static int limit(void)
{
	const uint64_t before = held();

	if (privileges_limit())
		return FAILED;
	for (cap_value_t capability = 0; capability <= CAP_LAST_CAP; capability++)
		if (cap_get_bound(capability) == 1)
			return NOT_GIVEN_UP;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return NOT_GIVEN_UP;
	return compare(before & at_start);
}

static int others_pipe[2];

/* A thread like the loop's: it keeps its privileges until the signal arrives. */
static void *other_run(void *privileges)
{
	char go;

	/* The handler of the signal may or may not interrupt it. */
	while (read(others_pipe[0], &go, 1) != 1)
		;
	*(uint64_t *)privileges = held();
	return NULL;
}

static int drop(void)
{
	const uint64_t before = held();
	uint64_t privileges = UINT64_MAX;
	pthread_t other;

	if (pipe(others_pipe) || pthread_create(&other, NULL, other_run, &privileges))
		return FAILED;
	if (privileges_limit() || privileges_drop(false))
		return FAILED;
	if (write(others_pipe[1], "g", 1) != 1 || pthread_join(other, NULL))
		return FAILED;
	return privileges ? TOO_MUCH : compare(before & kept);
}

static void assert_as_expected(int (*act)(void))
{
	int status = 0;
	pid_t child;

	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(act());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), AS_EXPECTED);
}

TEST(unused_privileges_are_dropped_at_start)
{
	assert_as_expected(limit);
}

TEST(start_privileges_are_dropped_by_all_threads)
{
	assert_as_expected(drop);
}

int main(void)
{
	if (geteuid())
		return all_skipped("there are privileges to give up for root only");
	return unit_tests_run(NULL, NULL);
}
