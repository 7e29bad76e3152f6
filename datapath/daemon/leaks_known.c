/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests only: suppressions of LeakSanitizer. ktsnd does not close DPDK's device for Open vSwitch at its
 * end (main.c). The device refers to heap memory from memory that DPDK has mapped, which LeakSanitizer does
 * not search.
 */

/* NOLINTBEGIN(bugprone-reserved-identifier): the names are LeakSanitizer's */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_options(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:librte_net_virtio\n";
}

/* The tests would take the list of suppressions for a finding. */
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
/* NOLINTEND(bugprone-reserved-identifier) */
