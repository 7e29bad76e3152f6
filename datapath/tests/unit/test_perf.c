/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of tsnperf on which its results depend: the message that the listener checks, the parsers and the
 * table of options, and the percentiles of the summary.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>

/* Uses macros from the headers above. */

#include "message.h"
#include "option_table.h"
#include "parse.h"
#include "samples.h"
#include "timing.h"

#include "unit_test.h"

static const struct message_header example = {
	.version = MESSAGE_VERSION,
	.clock = CLOCK_TAI,
	.run_id = 0x01020304,
	.sequence = 0x05060708,
	.txtime_ns = 0x1112131415161718,
	.payload_bytes = 64,
};

/* --- message --- */

TEST(message_round_trip)
{
	uint8_t payload[64];
	struct message_header header;

	message_encode(payload, &example);
	assert_int_equal(message_decode(payload, sizeof(payload), &header), 0);
	assert_int_equal(header.version, example.version);
	assert_int_equal(header.clock, example.clock);
	assert_int_equal(header.run_id, example.run_id);
	assert_int_equal(header.sequence, example.sequence);
	assert_int_equal(header.txtime_ns, example.txtime_ns);
	assert_int_equal(header.payload_bytes, example.payload_bytes);
	assert_int_equal(message_verify(payload, sizeof(payload), &header), 0);
}

TEST(header_is_in_network_byte_order)
{
	static const uint8_t golden[MESSAGE_HEADER_BYTES] = {
		'T', 'S', 'N',  'P',  1,    11,   0,    0,    1,    2,    3, 4, 5, 6,
		7,   8,   0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0, 0, 0, 64,
	};
	uint8_t payload[64];

	message_encode(payload, &example);
	assert_memory_equal(payload, golden, sizeof(golden));
}

TEST(negative_transmit_time_round_trip)
{
	struct message_header sent = example, received;
	uint8_t payload[64];

	sent.txtime_ns = INT64_MIN;
	message_encode(payload, &sent);
	assert_int_equal(message_decode(payload, sizeof(payload), &received), 0);
	assert_true(received.txtime_ns == INT64_MIN);
}

static int receive(const uint8_t *payload, size_t received_bytes)
{
	struct message_header header;
	int error = message_decode(payload, received_bytes, &header);

	return error ? error : message_verify(payload, received_bytes, &header);
}

TEST(changed_pattern_bits_are_detected)
{
	uint8_t payload[64];

	message_encode(payload, &example);
	for (size_t bit = 8 * MESSAGE_HEADER_BYTES; bit < 8 * sizeof(payload); bit++) {
		payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(receive(payload, sizeof(payload)), -EILSEQ);
		payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(receive(payload, sizeof(payload)), 0);
}

TEST(pattern_depends_on_run_and_sequence)
{
	uint8_t payload[64];

	message_encode(payload, &example);
	payload[11]++;
	assert_int_equal(receive(payload, sizeof(payload)), -EILSEQ);
	payload[11]--;
	payload[15]++;
	assert_int_equal(receive(payload, sizeof(payload)), -EILSEQ);
}

TEST(swapped_pattern_parts_are_detected)
{
	static uint8_t payload[4096];
	struct message_header header = example;
	uint8_t part[256];

	header.payload_bytes = sizeof(payload);
	message_encode(payload, &header);
	memcpy(part, payload + 1024, sizeof(part));
	memcpy(payload + 1024, payload + 2048, sizeof(part));
	memcpy(payload + 2048, part, sizeof(part));
	assert_int_equal(receive(payload, sizeof(payload)), -EILSEQ);
}

TEST(wrong_headers_are_distinguished)
{
	uint8_t payload[64];

	message_encode(payload, &example);
	payload[0] ^= 1;
	assert_int_equal(receive(payload, sizeof(payload)), -EBADMSG);
	payload[0] ^= 1;
	payload[4]++;
	assert_int_equal(receive(payload, sizeof(payload)), -EPROTO);
	payload[4]--;
	payload[5] = 200;
	assert_int_equal(receive(payload, sizeof(payload)), -EPROTO);
}

TEST(wrong_length_is_detected)
{
	uint8_t payload[65] = {0};

	message_encode(payload, &example);
	assert_int_equal(receive(payload, 63), -EMSGSIZE);
	assert_int_equal(receive(payload, 65), -EMSGSIZE);
	assert_int_equal(receive(payload, MESSAGE_HEADER_BYTES), -EMSGSIZE);
	assert_int_equal(receive(payload, MESSAGE_HEADER_BYTES - 1), -EBADMSG);
	assert_int_equal(receive(payload, 0), -EBADMSG);
}

TEST(short_message_round_trip)
{
	static const uint8_t clocks[] = {CLOCK_TAI, CLOCK_REALTIME, CLOCK_MONOTONIC};

	for (uint32_t bytes = MESSAGE_MIN_BYTES; bytes < MESSAGE_LONG_BYTES; bytes++) {
		uint8_t payload[MESSAGE_LONG_BYTES];
		struct message_header sent = example, header;

		sent.payload_bytes = bytes;
		sent.run_id = MESSAGE_SHORT_RUN_ID_MAX;
		sent.sequence = MESSAGE_SHORT_SEQUENCE_MAX;
		sent.clock = clocks[bytes % 3];
		message_encode(payload, &sent);
		assert_int_equal(message_decode(payload, bytes, &header), 0);
		assert_int_equal(header.run_id, sent.run_id);
		assert_int_equal(header.sequence, sent.sequence);
		assert_int_equal(header.txtime_ns, sent.txtime_ns);
		assert_int_equal(header.clock, sent.clock);
		assert_int_equal(header.payload_bytes, bytes);
		assert_int_equal(message_verify(payload, bytes, &header), 0);
	}
}

/* A header without a pattern is checked by its checksum; one in 256 changes of several bytes may pass. */
TEST(changed_short_messages_are_detected)
{
	enum { BYTES = 20 };
	uint8_t payload[BYTES];
	struct message_header sent = example;
	int passed = 0;

	sent.payload_bytes = BYTES;
	sent.run_id &= MESSAGE_SHORT_RUN_ID_MAX;
	sent.sequence &= MESSAGE_SHORT_SEQUENCE_MAX;
	message_encode(payload, &sent);
	assert_int_equal(receive(payload, BYTES), 0);
	for (size_t i = 0; i < BYTES; i++) {
		for (int change = 1; change < 256; change++) {
			payload[i] ^= (uint8_t)change;
			passed += !receive(payload, BYTES);
			payload[i] ^= (uint8_t)change;
		}
	}
	/* 5100 changes. */
	assert_true(passed < 40);
	assert_true(receive(payload, BYTES - 1) != 0);
}

TEST(invalid_message_gives_an_empty_header)
{
	static const struct message_header empty;
	struct message_header header;
	uint8_t payload[64];

	memset(payload, 0xff, sizeof(payload));
	memset(&header, 0xff, sizeof(header));
	assert_int_equal(message_decode(payload, sizeof(payload), &header), -EBADMSG);
	assert_memory_equal(&header, &empty, sizeof(header));
}

TEST(largest_message_round_trip)
{
	static uint8_t payload[MESSAGE_MAX_BYTES];
	struct message_header header = example;

	header.payload_bytes = sizeof(payload);
	message_encode(payload, &header);
	assert_int_equal(receive(payload, sizeof(payload)), 0);
	payload[sizeof(payload) - 1] ^= 0x80;
	assert_int_equal(receive(payload, sizeof(payload)), -EILSEQ);
}

/* --- parsers --- */

TEST(numbers_are_digits_only)
{
	static const char *const refused[] = {"", "-1", "+1", " 1", "1 ", "0x10", "ten", "1.5"};
	int64_t number = 42;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(parse_number(refused[i], &number), -EINVAL);
	assert_int_equal(parse_number("9223372036854775808", &number), -ERANGE);
	assert_int_equal(number, 42);
	assert_int_equal(parse_number("9223372036854775807", &number), 0);
	assert_true(number == INT64_MAX);
	assert_int_equal(parse_number("010", &number), 0);
	assert_int_equal(number, 10);
}

TEST(durations_have_units)
{
	static const struct {
		const char *text;
		int64_t duration_ns;
	} accepted[] = {
		{"0", 0},
		{"7", 7},
		{"7ns", 7},
		{"300us", 300000},
		{"1ms", 1000000},
		{"2s", 2000000000},
		{"9223372036s", INT64_C(9223372036000000000)},
	};
	int64_t duration_ns;

	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		assert_int_equal(parse_duration(accepted[i].text, &duration_ns), 0);
		assert_true(duration_ns == accepted[i].duration_ns);
	}
}

TEST(invalid_durations_are_refused)
{
	static const char *const refused[] = {"", "ms", "-1ms", "1 ms", "1m", "1sec", "1.5ms", "1MS"};
	int64_t duration_ns = 42;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(parse_duration(refused[i], &duration_ns), -EINVAL);
	assert_int_equal(parse_duration("9223372037s", &duration_ns), -ERANGE);
	assert_int_equal(duration_ns, 42);
}

TEST(endpoints_have_address_and_port)
{
	union parse_endpoint endpoint;

	assert_int_equal(parse_endpoint("10.1.2.3:7000", true, &endpoint), 0);
	assert_int_equal(endpoint.ipv4.sin_family, AF_INET);
	assert_int_equal(ntohl(endpoint.ipv4.sin_addr.s_addr), 0x0a010203);
	assert_int_equal(ntohs(endpoint.ipv4.sin_port), 7000);
	assert_int_equal(parse_endpoint("255.255.255.255:65535", true, &endpoint), 0);
	assert_int_equal(parse_endpoint("10.1.2.3", false, &endpoint), 0);
	assert_int_equal(endpoint.ipv4.sin_port, 0);
	assert_int_equal(parse_endpoint("[fd00:42::7]:7000", true, &endpoint), 0);
	assert_int_equal(endpoint.family, AF_INET6);
	assert_int_equal(endpoint.ipv6.sin6_addr.s6_addr[15], 7);
	assert_int_equal(ntohs(endpoint.ipv6.sin6_port), 7000);
	assert_int_equal(parse_endpoint("[fe80::1%lo]", false, &endpoint), 0);
	assert_int_equal(endpoint.ipv6.sin6_scope_id, if_nametoindex("lo"));
	assert_int_equal(endpoint.ipv6.sin6_port, 0);
}

TEST(invalid_endpoints_are_refused)
{
	static const char *const refused[] = {
		"",
		":7000",
		"10.1.2.3",
		"10.1.2.3:",
		"10.1.2.3:x",
		"1:2",
		"10.1.2:700",
		"10.1.2.256:700",
		"localhost:7000",
		"::",
		"10.1.2.3:-",
		"10.1.2.3:7:8",
		"100.100.100.100.100:7000",
	};
	union parse_endpoint endpoint;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(parse_endpoint(refused[i], true, &endpoint), -EINVAL);
	assert_int_equal(parse_endpoint("10.1.2.3:65536", true, &endpoint), -ERANGE);
	assert_int_equal(parse_endpoint("10.1.2.3:", false, &endpoint), -EINVAL);
	assert_int_equal(parse_endpoint("[fd00::1]:", false, &endpoint), -EINVAL);
	assert_int_equal(parse_endpoint("[fd00::1]7000", false, &endpoint), -EINVAL);
	assert_int_equal(parse_endpoint("[fd00::1", false, &endpoint), -EINVAL);
	assert_int_equal(parse_endpoint("fd00::1", false, &endpoint), -EINVAL);
	assert_int_equal(parse_endpoint("[10.1.2.3]:7000", true, &endpoint), -EINVAL);
	assert_int_equal(parse_endpoint("[fe80::1%no-such-link]:7000", true, &endpoint), -EINVAL);
}

TEST(start_is_absolute_or_relative)
{
	struct parse_start start;

	assert_int_equal(parse_start("1700000000000000000", &start), 0);
	assert_true(start.offset_ns == INT64_C(1700000000000000000));
	assert_false(start.from_now);
	assert_int_equal(parse_start("+50ms", &start), 0);
	assert_int_equal(start.offset_ns, 50000000);
	assert_true(start.from_now);
	assert_int_equal(parse_start("+", &start), -EINVAL);
	assert_int_equal(parse_start("-50ms", &start), -EINVAL);
}

/* --- the table of options --- */

struct values {
	int64_t size_bytes;
	int64_t cycle_ns;
	clockid_t clock;
	bool quiet;
	const char *csv_path;
};

static const struct option_word clocks[] = {{"tai", CLOCK_TAI}, {"realtime", CLOCK_REALTIME}, {NULL, 0}};

#define FIELD(member) OPTION_FIELD(struct values, member)

static int parse_line(struct values *values, int argc, const char **argv)
{
	static const struct option_spec specs[] = {
		{"size", "BYTES", "", OPTION_NUMBER, FIELD(size_bytes), .required = true, .minimum = 40,
		 .maximum = 100},
		{"cycle", "DURATION", "", OPTION_DURATION_NS, FIELD(cycle_ns), .minimum = 1,
		 .maximum = INT64_MAX},
		{"clock", "CLOCK", "", OPTION_WORD, FIELD(clock), .words = clocks},
		{"quiet", NULL, "", OPTION_SET, FIELD(quiet)},
		{"loud", NULL, "", OPTION_CLEAR, FIELD(quiet)},
		{"csv", "FILE", "", OPTION_TEXT, FIELD(csv_path)},
	};
	static const struct option_table table = {.program = "test",
						  .usage = "",
						  .about = "",
						  .specs = specs,
						  .spec_count = sizeof(specs) / sizeof(specs[0])};

	return option_table_read(&table, argc, (char **)(uintptr_t)argv, values);
}

#define PARSE(values, ...)                                                                                   \
	parse_line(values, sizeof((const char *[]){"test", __VA_ARGS__}) / sizeof(char *),                   \
		   (const char *[]){"test", __VA_ARGS__, NULL})

TEST(options_store_their_values)
{
	struct values values = {0};

	assert_int_equal(
		PARSE(&values, "--size", "40", "--cycle=2us", "--quiet", "--csv", "a.csv", "--clock", "tai"),
		0);
	assert_int_equal(values.clock, CLOCK_TAI);
	assert_int_equal(values.size_bytes, 40);
	assert_int_equal(values.cycle_ns, 2000);
	assert_true(values.quiet);
	assert_string_equal(values.csv_path, "a.csv");
	assert_int_equal(PARSE(&values, "--size", "100", "--quiet", "--loud"), 0);
	assert_int_equal(values.size_bytes, 100);
	assert_false(values.quiet);
}

TEST(bad_command_lines_are_refused)
{
	struct values values = {.size_bytes = 7};

	assert_int_equal(PARSE(&values, "--quiet"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "39"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "101"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "many"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size"), -EINVAL);
	assert_int_equal(values.size_bytes, 7);
	assert_int_equal(PARSE(&values, "--size", "40", "--cycle", "0"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "40", "--quiet=yes"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "40", "--unknown"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "40", "-x"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "40", "stray"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "40", "--csv", ""), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "40", "--clock", "utc"), -EINVAL);
	assert_int_equal(PARSE(&values, "--size", "40", "--clock", ""), -EINVAL);
}

/* --- timing and samples --- */

TEST(times_round_up_to_whole_steps)
{
	int64_t rounded_ns;

	assert_int_equal(timing_round_up(1, 1000, &rounded_ns), 0);
	assert_int_equal(rounded_ns, 1000);
	assert_int_equal(timing_round_up(1000, 1000, &rounded_ns), 0);
	assert_int_equal(rounded_ns, 1000);
	assert_int_equal(timing_round_up(0, 1000, &rounded_ns), 0);
	assert_int_equal(rounded_ns, 0);
	assert_int_equal(timing_round_up(INT64_MAX, 1000, &rounded_ns), -EOVERFLOW);
}

static int looks;

static bool never_stopped(void)
{
	looks++;
	return false;
}

static bool stopped_at_the_third_look(void)
{
	return ++looks == 3;
}

TEST(spinning_ends_at_its_time)
{
	int64_t until_ns = timing_now_ns(CLOCK_MONOTONIC) + 200000;

	looks = 0;
	assert_int_equal(timing_spin_until(CLOCK_MONOTONIC, until_ns, never_stopped), 0);
	assert_true(timing_now_ns(CLOCK_MONOTONIC) >= until_ns);
	assert_true(looks > 0);
	looks = 0;
	assert_int_equal(timing_spin_until(CLOCK_MONOTONIC, until_ns, never_stopped), 0);
	assert_int_equal(looks, 0);
}

TEST(spinning_ends_when_stopped)
{
	looks = 0;
	assert_int_equal(timing_spin_until(CLOCK_MONOTONIC, INT64_MAX, stopped_at_the_third_look), -EINTR);
	assert_int_equal(looks, 3);
}

TEST(percentiles_use_the_nearest_rank)
{
	int64_t samples[1000];

	for (int i = 0; i < 1000; i++)
		samples[i] = 1000 - i;
	samples_sort(samples, 1000);
	assert_int_equal(samples_percentile(samples, 1000, SAMPLES_P50), 500);
	assert_int_equal(samples_percentile(samples, 1000, SAMPLES_P90), 900);
	assert_int_equal(samples_percentile(samples, 1000, SAMPLES_P99), 990);
	assert_int_equal(samples_percentile(samples, 1000, SAMPLES_P99_9), 999);
	assert_int_equal(samples_percentile(samples, 1000, SAMPLES_MAX), 1000);
	assert_int_equal(samples_percentile(samples, 3, SAMPLES_P50), 2);
	assert_int_equal(samples_percentile(samples, 2, SAMPLES_P50), 1);
	assert_int_equal(samples_percentile(samples, 1, SAMPLES_P99_9), 1);
}
