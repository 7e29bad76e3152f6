/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's filter of system calls as it is shipped. Not tested in builds with sanitizers, which have none.
 */
#include "sandbox.h"

#include "unit_test.h"

#include "sandbox_calls.h"

static int run(bool (*holds)(void))
{
	return sandbox_enter() ? NOT_ENTERED : holds() ? YES : NO;
}

TEST(calls_are_sandboxed)
{
	assert_calls_sandboxed(run);
}
