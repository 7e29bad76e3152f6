/* SPDX-License-Identifier: Apache-2.0 */
#include "journal.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "unit_test.h"

enum {
	PAGE = 1000,
	/* The oldest record may be overwritten while the newest is read. */
	READABLE = DEPARTURES_KEPT_DEFAULT - 1,
	CONCURRENT = 40 * DEPARTURES_KEPT_DEFAULT,
};

static int set_up(void **state)
{
	*state = calloc(1, sizeof(struct departures));
	return *state ? departures_init(*state, 0) : -1;
}

static int tear_down(void **state)
{
	departures_fini(*state);
	free(*state);
	return 0;
}

/* Each record's fields follow from its number, so a mixture of two records is detected. */
static void add(struct departures *departures, uint64_t sequence)
{
	departures_add(departures, sequence * 3, (int64_t)sequence * 5, (int64_t)sequence * 7,
		       sequence % 3 == 0);
}

static bool is_whole(const struct departure *record)
{
	return record->flow == record->sequence * 3 &&
	       record->requested_tai_ns == (int64_t)record->sequence * 5 &&
	       record->departed_tai_ns == (int64_t)record->sequence * 7 &&
	       record->overrun == (record->sequence % 3 == 0);
}

static void add_many(struct departures *departures, uint64_t first, uint64_t last)
{
	for (uint64_t sequence = first; sequence <= last; sequence++)
		add(departures, sequence);
}

static uint32_t read_page(struct departures *departures, uint64_t after, uint32_t limit, uint64_t first,
			  uint64_t overwritten_expected)
{
	static struct departure records[PAGE];
	uint64_t overwritten = UINT64_MAX;
	uint32_t count = departures_read(departures, after, limit, records, &overwritten);

	assert_int_equal(overwritten, overwritten_expected);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(records[i].sequence, first + i);
		assert_true(is_whole(&records[i]));
	}
	return count;
}

TEST_F(empty_journal_has_no_records)
{
	assert_int_equal(read_page(*state, 0, PAGE, 0, 0), 0);
	assert_int_equal(read_page(*state, 1000, PAGE, 0, 0), 0);
}

TEST_F(first_departure_has_number_one)
{
	add(*state, 1);
	assert_int_equal(read_page(*state, 0, PAGE, 1, 0), 1);
	assert_int_equal(read_page(*state, 1, PAGE, 0, 0), 0);
}

TEST_F(pages_are_contiguous)
{
	uint64_t after = 0;
	uint32_t count;

	add_many(*state, 1, 2500);
	do {
		count = read_page(*state, after, PAGE, after + 1, 0);
		after += count;
	} while (count == PAGE);
	assert_int_equal(after, 2500);
	assert_int_equal(read_page(*state, 2499, PAGE, 2500, 0), 1);
	assert_int_equal(read_page(*state, 10, 1, 11, 0), 1);
	assert_int_equal(read_page(*state, 10, 0, 11, 0), 0);
}

TEST_F(future_numbers_have_no_records)
{
	add_many(*state, 1, 10);
	assert_int_equal(read_page(*state, 11, PAGE, 0, 0), 0);
	assert_int_equal(read_page(*state, INT64_MAX - 1, PAGE, 0, 0), 0);
}

TEST_F(overwritten_departures_are_counted)
{
	add_many(*state, 1, READABLE);
	assert_int_equal(read_page(*state, 0, PAGE, 1, 0), PAGE);
	add(*state, READABLE + 1);
	assert_int_equal(read_page(*state, 0, PAGE, 2, 1), PAGE);
	assert_int_equal(read_page(*state, 1, PAGE, 2, 0), PAGE);
	add_many(*state, READABLE + 2, 3 * READABLE);
	assert_int_equal(read_page(*state, 0, PAGE, 2 * READABLE + 1, 2 * READABLE), PAGE);
	assert_int_equal(read_page(*state, 5, 1, 2 * READABLE + 1, 2 * READABLE - 5), 1);
	assert_int_equal(read_page(*state, 3 * READABLE - 1, PAGE, 3 * READABLE, 0), 1);
}

TEST_F(capacity_is_as_requested)
{
	struct departures more;

	/* One more than a power of two is rounded up to the next. */
	assert_int_equal(departures_init(&more, 2 * DEPARTURES_KEPT_DEFAULT + 1), 0);
	atomic_init(&more.last, 0);
	add_many(&more, 1, 4 * DEPARTURES_KEPT_DEFAULT - 1);
	assert_int_equal(read_page(&more, 0, PAGE, 1, 0), PAGE);
	add(&more, 4 * DEPARTURES_KEPT_DEFAULT);
	assert_int_equal(read_page(&more, 0, PAGE, 2, 1), PAGE);
	departures_fini(&more);
}

static void *write_many(void *departures)
{
	add_many(departures, 1, CONCURRENT);
	return NULL;
}

/* With concurrent overwriting, every record is whole, and is either read or counted as overwritten exactly
 * once. */
TEST_F(concurrent_reader_and_writer)
{
	static struct departure records[PAGE];
	uint64_t after = 0, read = 0, lost = 0;
	pthread_t writer;

	assert_int_equal(pthread_create(&writer, NULL, write_many, *state), 0);
	while (after < CONCURRENT) {
		uint64_t overwritten;
		uint32_t count = departures_read(*state, after, PAGE, records, &overwritten);

		for (uint32_t i = 0; i < count; i++) {
			assert_true(records[i].sequence == after + overwritten + i + 1);
			assert_true(is_whole(&records[i]));
		}
		read += count;
		lost += overwritten;
		after += overwritten + count;
	}
	pthread_join(writer, NULL);
	assert_int_equal(after, CONCURRENT);
	assert_int_equal(read + lost, CONCURRENT);
	print_message("# read %lu, overwritten %lu\n", (unsigned long)read, (unsigned long)lost);
}
