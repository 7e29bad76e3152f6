/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When an instance of ktsnd started, and which of two is older.
 */
#include "instance.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

static char folder[] = "/tmp/ktsn-instance-XXXXXX";
static char born[sizeof(folder) + 8];
static char last_line[512];

static void line_keep(enum log_level level, const char *line)
{
	snprintf(last_line, sizeof(last_line), "%s", line);
}

/* Disables the rate limit of the log. */
static int64_t now_ns(void)
{
	static int64_t seconds;

	return ++seconds * 1000000000;
}

static int folder_make(void **state)
{
	static const struct log_output output = {.write = line_keep, .now_ns = now_ns};

	log_output_set(&output);
	if (!mkdtemp(folder))
		return -1;
	snprintf(born, sizeof(born), "%s/born", folder);
	return 0;
}

static int folder_remove(void **state)
{
	unlink(born);
	return rmdir(folder);
}

static void born_write(const char *text)
{
	FILE *file = fopen(born, "we");

	assert_non_null(file);
	assert_int_equal(fputs(text, file) < 0, 0);
	fclose(file);
}

TEST(instance_age_is_that_of_its_folder)
{
	struct instance first = {.name = ""}, second = {.name = ""};

	assert_int_equal(instance_born(&first, folder), 0);
	assert_true(first.born_ns > 0);
	assert_true(instance_boot_id_valid(first.boot_id));
	assert_int_equal(instance_born(&second, folder), 0);
	assert_string_equal(second.boot_id, first.boot_id);
	assert_int_equal(second.born_ns, first.born_ns);
	unlink(born);
	assert_int_equal(instance_born(&second, folder), 0);
	assert_true(instance_is_older(&first, &second));
	assert_int_equal(instance_renew(&first, folder), 0);
	assert_true(instance_is_older(&second, &first));
	assert_int_equal(instance_born(&second, folder), 0);
	assert_int_equal(second.born_ns, first.born_ns);
}

/* As a file system may leave it after a power failure. */
TEST(empty_file_is_no_instance)
{
	struct instance first = {.name = ""}, second = {.name = ""};

	born_write("");
	assert_int_equal(instance_born(&first, folder), 0);
	assert_true(first.born_ns > 0);
	assert_int_equal(instance_born(&second, folder), 0);
	assert_int_equal(second.born_ns, first.born_ns);
}

TEST(foreign_file_is_refused)
{
	static const char *const texts[] = {
		"\n",
		"3f1c7b6d 12",
		"3f1c7b6d\n",
		"3f1c7b6d 0\n",
		"3f1c7b6d -5\n",
		"3f1c7b6d 12 13\n",
		"3f1c_7b6d 12\n",
		"3f1c7b6d-4a0e-4d0c-9f53-5b1f9c1e0a3f0 12\n",
	};
	struct instance instance = {.name = ""};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		born_write(texts[i]);
		last_line[0] = '\0';
		assert_int_equal(instance_born(&instance, folder), -EINVAL);
		assert_non_null(strstr(last_line, "/born: does not contain what ktsnd writes there"));
	}
	assert_int_equal(instance_born(&instance, "/nowhere"), -ENOENT);
	assert_non_null(strstr(last_line, "the folder does not exist"));
}

TEST(later_instance_is_younger)
{
	struct instance now = {.name = ""};
	struct instance before, earlier, unknown = {.name = ""};

	unlink(born);
	assert_int_equal(instance_born(&now, folder), 0);
	before = now;
	before.born_ns--;
	earlier = now;
	earlier.born_ns += 5;
	memset(earlier.boot_id, '0', strlen(earlier.boot_id));
	assert_true(instance_is_older(&before, &now));
	assert_false(instance_is_older(&now, &before));
	assert_false(instance_is_older(&now, &now));
	/* Whatever the clock showed in another boot. */
	assert_true(instance_is_older(&earlier, &now));
	assert_false(instance_is_older(&now, &earlier));
	assert_false(instance_is_older(&unknown, &now));
	assert_false(instance_is_older(&now, &unknown));
}

int main(void)
{
	return unit_tests_run(folder_make, folder_remove);
}
