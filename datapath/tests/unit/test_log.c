/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate limit of log messages, in virtual time.
 */
#include "log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

#define MS INT64_C(1000000)
#define S  (1000 * MS)

enum { LINES_MAX = 256, LINE_BYTES = 128 };

static int64_t now_ns;
static char lines[LINES_MAX][LINE_BYTES];
static int line_count;

static void line_keep(enum log_level level, const char *line)
{
	assert_int_equal(level, LOG_LEVEL_WARNING);
	assert_true(line_count < LINES_MAX);
	snprintf(lines[line_count++], LINE_BYTES, "%s", line);
}

static int64_t now_read(void)
{
	return now_ns;
}

/* One log site. */
static void complain(int number)
{
	log_warning("complaint %d", number);
}

static int set_up(void **state)
{
	static const struct log_output output = {line_keep, now_read};

	log_output_set(&output);
	/* Waits until all buckets are full and no summary is pending. */
	now_ns += 1000 * S;
	(void)log_tick();
	line_count = 0;
	return 0;
}

static int tear_down(void **state)
{
	log_output_set(NULL);
	return 0;
}

static void complain_often(int count)
{
	for (int i = 0; i < count; i++)
		complain(i);
}

TEST_F(first_twenty_are_written)
{
	complain_often(LOG_LIMIT_BURST);
	assert_int_equal(line_count, LOG_LIMIT_BURST);
	assert_string_equal(lines[0], "complaint 0");
	assert_string_equal(lines[LOG_LIMIT_BURST - 1], "complaint 19");
	assert_int_equal(log_tick(), -1);
}

TEST_F(suppressed_lines_are_counted)
{
	complain_often(LOG_LIMIT_BURST + 5);
	assert_int_equal(line_count, LOG_LIMIT_BURST);
	now_ns += 99 * MS;
	complain(100);
	assert_int_equal(line_count, LOG_LIMIT_BURST);
	now_ns += MS;
	complain(101);
	assert_int_equal(line_count, LOG_LIMIT_BURST + 2);
	assert_string_equal(lines[LOG_LIMIT_BURST], "6 messages suppressed, of the kind \"complaint %d\"");
	assert_string_equal(lines[LOG_LIMIT_BURST + 1], "complaint 101");
	complain(102);
	assert_int_equal(line_count, LOG_LIMIT_BURST + 2);
}

TEST_F(rate_is_ten_per_second)
{
	int complaints = 0;

	complain_often(LOG_LIMIT_BURST);
	line_count = 0;
	for (int i = 0; i < 3000; i++) {
		now_ns += MS;
		complain(i);
	}
	for (int i = 0; i < line_count; i++)
		complaints += strncmp(lines[i], "complaint", 9) == 0;
	assert_int_equal(complaints, 30);
}

TEST_F(tick_reports_suppressed_lines)
{
	complain_often(LOG_LIMIT_BURST + 3);
	assert_true(log_tick() > 0);
	now_ns += 2 * S - 1;
	assert_true(log_tick() > 0);
	assert_int_equal(line_count, LOG_LIMIT_BURST);
	now_ns++;
	assert_int_equal(log_tick(), -1);
	assert_int_equal(line_count, LOG_LIMIT_BURST + 1);
	assert_string_equal(lines[LOG_LIMIT_BURST], "3 messages suppressed, of the kind \"complaint %d\"");
	now_ns += 10 * S;
	assert_int_equal(log_tick(), -1);
	assert_int_equal(line_count, LOG_LIMIT_BURST + 1);
}

TEST_F(sites_have_separate_limits)
{
	complain_often(LOG_LIMIT_BURST + 1);
	log_warning("something else");
	assert_int_equal(line_count, LOG_LIMIT_BURST + 1);
	assert_string_equal(lines[LOG_LIMIT_BURST], "something else");
}

TEST_F(disabled_levels_use_no_tokens)
{
	log_level_set(LOG_LEVEL_ERROR);
	complain_often(1000);
	log_level_set(LOG_LEVEL_INFO);
	assert_int_equal(line_count, 0);
	complain_often(LOG_LIMIT_BURST);
	assert_int_equal(line_count, LOG_LIMIT_BURST);
}
