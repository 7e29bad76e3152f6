/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests only: what LeakSanitizer is not to report. A ktsnd that ends leaves DPDK's device for Open
 * vSwitch as it is (main.c). The device refers to memory of the heap from memory that DPDK has mapped,
 * through which the search does not look.
 */

/* NOLINTBEGIN(bugprone-reserved-identifier): the names are LeakSanitizer's */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_options(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:librte_net_virtio\n";
}

/* A report of what was left out would be taken for a finding. */
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
/* NOLINTEND(bugprone-reserved-identifier) */
