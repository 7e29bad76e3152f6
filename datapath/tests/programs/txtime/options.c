/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SO_TXTIME itself and the control message: values that are refused, and their errors.
 */
#include "cases.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long option_set(int fd, int clockid, uint32_t flags, socklen_t bytes)
{
	struct {
		struct txtime_option option;
		uint64_t more;
	} value = {.option = {.clockid = clockid, .flags = flags}};

	return setsockopt(fd, SOL_SOCKET, SO_TXTIME, &value, bytes);
}

static void set_options(void)
{
	static const struct {
		const char *label;
		int clockid;
		uint32_t flags;
		socklen_t bytes;
	} rows[] = {
		{"CLOCK_MONOTONIC", CLOCK_MONOTONIC, 0, 8},
		{"CLOCK_TAI", CLOCK_TAI, 0, 8},
		{"CLOCK_REALTIME", CLOCK_REALTIME, 0, 8},
		{"CLOCK_BOOTTIME", CLOCK_BOOTTIME, 0, 8},
		{"a clock that there is not", 99, 0, 8},
		{"a negative clock", -1, 0, 8},
		{"both flags", CLOCK_TAI, DEADLINE_MODE | REPORT_ERRORS, 8},
		{"a flag that there is not", CLOCK_TAI, 4, 8},
		{"all flags", CLOCK_TAI, UINT32_MAX, 8},
		{"too short", CLOCK_TAI, 0, 7},
		{"an int", CLOCK_TAI, 0, 4},
		{"nothing", CLOCK_TAI, 0, 0},
		{"too long", CLOCK_TAI, 0, 9},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = plain_socket();

		print_result(rows[i].label, option_set(fd, rows[i].clockid, rows[i].flags, rows[i].bytes));
		close(fd);
	}
	print_result("no descriptor", option_set(-1, CLOCK_TAI, 0, 8));
}

static void option_get(int fd, const char *label, socklen_t bytes)
{
	struct {
		struct txtime_option option;
		uint64_t more;
	} value;
	long result;

	memset(&value, 0xa5, sizeof(value));
	result = getsockopt(fd, SOL_SOCKET, SO_TXTIME, &value, &bytes);
	if (result < 0)
		print_fact(label, "%s", error_name(errno));
	else
		print_fact(label, "%u bytes, clock %#x, flags %#x", bytes, (unsigned int)value.option.clockid,
			   value.option.flags);
}

static void get_options(void)
{
	int fd = plain_socket();

	option_get(fd, "before", 8);
	print_result("set", option_set(fd, CLOCK_TAI, REPORT_ERRORS, 8));
	option_get(fd, "after", 8);
	option_get(fd, "into more room", 16);
	option_get(fd, "into less room", 4);
	option_get(fd, "into no room", 0);
	print_result("set again", option_set(fd, CLOCK_MONOTONIC, DEADLINE_MODE, 8));
	option_get(fd, "after that", 8);
	print_result("set wrongly", option_set(fd, CLOCK_TAI, 8, 8));
	option_get(fd, "as before", 8);
	close(fd);
}

/* Sends a message with one control message of SOL_SOCKET. */
static long send_one(int fd, int type, size_t length, size_t offset, int64_t value)
{
	union {
		char bytes[128];
		struct cmsghdr align;
	} control = {0};
	struct cmsghdr header = {.cmsg_level = SOL_SOCKET, .cmsg_type = type};

	header.cmsg_len = length;
	memcpy(control.bytes + offset, &header, sizeof(header));
	memcpy(control.bytes + offset + CMSG_LEN(0), &value, sizeof(value));
	return send_control(fd, "text", control.bytes + offset, CMSG_SPACE(sizeof(value)), 0);
}

static void control_messages(void)
{
	int timed = timed_socket(0), plain = plain_socket();
	int64_t soon = tai_ns() + 20000000;
	const size_t whole = CMSG_LEN(sizeof(int64_t));

	print_result("a time", send_one(timed, SCM_TXTIME, whole, 0, soon));
	print_result("a time at an odd address", send_one(timed, SCM_TXTIME, whole, 3, soon));
	print_result("a time of 4 bytes", send_one(timed, SCM_TXTIME, CMSG_LEN(4), 0, soon));
	print_result("a time of no bytes", send_one(timed, SCM_TXTIME, CMSG_LEN(0), 0, soon));
	print_result("shorter than its header", send_one(timed, SCM_TXTIME, 3, 0, soon));
	print_result("longer than there is", send_one(timed, SCM_TXTIME, 4096, 0, soon));
	print_result("of a kind that there is not", send_one(timed, 250, whole, 0, soon));
	print_result("a time on a socket without SO_TXTIME", send_one(plain, SCM_TXTIME, whole, 0, soon));
	print_result("a wrong time on a socket without SO_TXTIME",
		     send_one(plain, SCM_TXTIME, CMSG_LEN(4), 0, soon));
	close(timed);
	close(plain);
}

const struct txtime_case option_cases[] = {
	{"set-options", set_options},
	{"get-options", get_options},
	{"control-messages", control_messages},
	{0},
};
