/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping a CPU awake. The test replaces /sys with a folder and the device with a file; another test uses the
 * machine's device if there is one.
 */
#include "keep_awake.h"

#include "test_files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

static char root[] = "/tmp/ktsn-awake-XXXXXX";
static char device[PATH_MAX];

static void file_make(const char *path, const char *text)
{
	assert_int_equal(test_file_make(root, path, text), 0);
}

static int begin(void **state)
{
	if (!mkdtemp(root))
		return -1;
	snprintf(device, sizeof(device), "%s/cpu_dma_latency", root);
	return 0;
}

static int end(void **state)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command); /* NOLINT(cert-env33-c): a folder of the test */
}

TEST(polling_cpu_holds_a_zero_limit)
{
	struct keep_awake awake;
	int32_t limit_us = -1;
	int fd;

	file_make("/sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n");
	file_make("/cpu_dma_latency", "");
	assert_int_equal(keep_awake_start(&awake, 0, device, root), 0);
	assert_int_equal(awake.by, KEEP_AWAKE_LATENCY_LIMIT);
	assert_string_equal(keep_awake_name(awake.by), "latency-limit");
	fd = open(device, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, &limit_us, sizeof(limit_us)), sizeof(limit_us));
	assert_int_equal(limit_us, 0);
	close(fd);
	/* Held until the end. */
	assert_int_not_equal(fcntl(awake.fd, F_GETFD), -1);
	fd = awake.fd;
	keep_awake_stop(&awake);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(awake.by, KEEP_AWAKE_NONE);
}

TEST(thread_spins_without_an_effective_limit)
{
	static const struct {
		const char *label, *state0, *device;
	} cases[] = {
		{"a CPU that halts whatever the limit", "C1\n", "cpu_dma_latency"},
		{"no device", "POLL\n", "nothing"},
		{"a device that may not be opened", "POLL\n", "."},
		{"a device that was not wanted", "POLL\n", NULL},
	};
	char path[PATH_MAX];

	file_make("/cpu_dma_latency", "");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct keep_awake awake;

		file_make("/sys/devices/system/cpu/cpu0/cpuidle/state0/name", cases[i].state0);
		snprintf(path, sizeof(path), "%s/%s", root, cases[i].device ? cases[i].device : "");
		assert_int_equal(keep_awake_start(&awake, 0, cases[i].device ? path : "", root), 0);
		if (awake.by != KEEP_AWAKE_THREAD)
			fail_msg("%s: by %s", cases[i].label, keep_awake_name(awake.by));
		keep_awake_stop(&awake);
	}
}

/* The device shows the limit that is in force for the machine. */
TEST(real_device_accepts_the_limit)
{
	struct keep_awake awake;
	int32_t limit_us = -1;
	int fd = open("/dev/cpu_dma_latency", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		print_message(
			"/dev/cpu_dma_latency cannot be opened: this needs root, and a kernel that has it\n");
		skip();
	}
	file_make("/sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n");
	assert_int_equal(keep_awake_start(&awake, 0, "/dev/cpu_dma_latency", root), 0);
	assert_int_equal(awake.by, KEEP_AWAKE_LATENCY_LIMIT);
	assert_int_equal(pread(fd, &limit_us, sizeof(limit_us), 0), sizeof(limit_us));
	assert_int_equal(limit_us, 0);
	keep_awake_stop(&awake);
	close(fd);
}

int main(void)
{
	return unit_tests_run(begin, end);
}
