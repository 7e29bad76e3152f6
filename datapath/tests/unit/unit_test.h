/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka, with the headers that its own needs before it, and TEST(), which defines and registers a test.
 * main() in unit_test.c runs all tests of the program in the order of the file. Included last.
 */
#ifndef KTSN_UNIT_TEST_H
#define KTSN_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct unit_test {
	struct CMUnitTest test;
	int line;
};

/* The body follows: TEST(name) { ... }. */
#define TEST(name) TEST_WITH(name, NULL, NULL)
/* Runs set_up() of the same file before the test, which fills in *state, and tear_down() after it. */
#define TEST_F(name) TEST_WITH(name, set_up, tear_down)
#define TEST_WITH(name, set_up, tear_down)                                                                   \
	static void name(void **state);                                                                      \
	static const struct unit_test name##_test = {                                                        \
		cmocka_unit_test_setup_teardown(name, set_up, tear_down), __LINE__};                         \
	static const struct unit_test *const name##_entry __attribute__((section("unit_tests"), used)) =     \
		&name##_test;                                                                                \
	static void name(void **state)

/* Runs all tests; for programs with their own main(). */
int unit_tests_run(CMFixtureFunction group_set_up, CMFixtureFunction group_tear_down);

#endif
