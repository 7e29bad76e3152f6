/* SPDX-License-Identifier: Apache-2.0 */
#include "unit_test.h"

#include <stdlib.h>
#include <string.h>

/* The bounds of the section, from the linker. */
extern const struct unit_test *const __start_unit_tests[], *const __stop_unit_tests[];

static int by_line(const void *a, const void *b)
{
	return (*(const struct unit_test *const *)a)->line - (*(const struct unit_test *const *)b)->line;
}

int unit_tests_run(CMFixtureFunction group_set_up, CMFixtureFunction group_tear_down)
{
	size_t count = (size_t)(__stop_unit_tests - __start_unit_tests);
	const struct unit_test **entries = calloc(count, sizeof(const struct unit_test *));
	struct CMUnitTest *tests = calloc(count, sizeof(*tests));
	int failed;

	if (!entries || !tests)
		abort();
	memcpy(entries, __start_unit_tests, count * sizeof(const struct unit_test *));
	/* The compiler does not keep the order of the file. */
	qsort(entries, count, sizeof(const struct unit_test *), by_line);
	for (size_t i = 0; i < count; i++)
		tests[i] = entries[i]->test;
	failed = _cmocka_run_group_tests("tests", tests, count, group_set_up, group_tear_down);
	free(entries);
	free(tests);
	return failed;
}

/* A program that has to prepare something defines its own. */
__attribute__((weak)) int main(void)
{
	return unit_tests_run(NULL, NULL);
}
