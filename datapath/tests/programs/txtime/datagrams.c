/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The datagrams that calls produce: UDP_SEGMENT cuts, UDP_CORK and MSG_MORE join. The receiver records the
 * datagrams.
 */
#include "cases.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SOL_UDP
#define SOL_UDP 17
#endif

/* <linux/udp.h> */
enum { CORK = 1, NO_CHECK6_TX = 101, SEGMENT = 103 };

enum { BYTES_MAX = 70000, LEAD_NS = 10 * 1000 * 1000, SETTLE_MS = 30 };

static uint8_t content[BYTES_MAX];

/* So that the receiver sees which arrives first. */
static void content_fill(void)
{
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 7 + i / 256);
}

struct controls {
	size_t used;
	union {
		uint8_t bytes[256];
		struct cmsghdr align;
	} room;
};

static void control_add(struct controls *controls, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr header = {.cmsg_level = level, .cmsg_type = type};

	header.cmsg_len = CMSG_LEN(bytes);
	memcpy(controls->room.bytes + controls->used, &header, sizeof(header));
	memcpy(controls->room.bytes + controls->used + CMSG_LEN(0), data, bytes);
	controls->used += CMSG_SPACE(bytes);
}

static struct controls timed(void)
{
	struct controls controls = {0};
	int64_t txtime_ns = tai_ns() + LEAD_NS;

	control_add(&controls, SOL_SOCKET, SCM_TXTIME, &txtime_ns, sizeof(txtime_ns));
	return controls;
}

/* The content from `at` on, so that the order of joined parts is visible. */
static long send_with(int fd, struct controls *controls, size_t at, size_t bytes, int flags)
{
	struct iovec iov = {.iov_base = content + at, .iov_len = bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	message.msg_control = controls->used ? controls->room.bytes : NULL;
	message.msg_controllen = controls->used;
	return sendmsg(fd, &message, flags);
}

static long send_part(int fd, size_t at, size_t bytes, int flags)
{
	struct controls controls = timed();

	return send_with(fd, &controls, at, bytes, flags);
}

static long send_segmented(int fd, size_t bytes, uint16_t segment)
{
	struct controls controls = timed();

	control_add(&controls, SOL_UDP, SEGMENT, &segment, sizeof(segment));
	return send_with(fd, &controls, 0, bytes, 0);
}

static int number_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

static int datagram_socket(void)
{
	int fd = timed_socket(0);

	content_fill();
	/* One call for each: later options do not change the kernel's treatment of the next. */
	(void)number_set(fd, SOL_SOCKET, SO_SNDBUF, 1 << 20);
	return fd;
}

static void done(int fd)
{
	sleep_ms(SETTLE_MS);
	close(fd);
}

/* --- UDP_SEGMENT
 * ------------------------------------------------------------------------------------------- */

static void segment_option(void)
{
	static const int values[] = {0, 1, 500, 65535, 65536, -1};
	int fd = datagram_socket(), value;
	socklen_t bytes = sizeof(value);

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char label[32];

		snprintf(label, sizeof(label), "set %d", values[i]);
		print_result(label, number_set(fd, SOL_UDP, SEGMENT, values[i]));
	}
	print_result("set a byte", setsockopt(fd, SOL_UDP, SEGMENT, content, 1));
	print_result("get", getsockopt(fd, SOL_UDP, SEGMENT, &value, &bytes));
	print_fact("value", "%d", value);
	done(fd);
}

static void segment_set(void)
{
	static const size_t bytes[] = {1400, 500, 501, 499, 1, 0, 1000, 4000};
	int fd = datagram_socket();

	print_result("set", number_set(fd, SOL_UDP, SEGMENT, 500));
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		char label[32];

		snprintf(label, sizeof(label), "%zu bytes", bytes[i]);
		print_result(label, send_part(fd, 0, bytes[i], 0));
		sleep_ms(SETTLE_MS);
	}
	print_result("set none", number_set(fd, SOL_UDP, SEGMENT, 0));
	print_result("whole", send_part(fd, 0, 1200, 0));
	done(fd);
}

static void segment_control(void)
{
	int fd = datagram_socket(), wide = 500;
	uint16_t segment = 500;
	struct controls controls = timed();

	print_result("500", send_segmented(fd, 1400, 500));
	sleep_ms(SETTLE_MS);
	control_add(&controls, SOL_UDP, SEGMENT, &wide, sizeof(wide));
	print_result("an int", send_with(fd, &controls, 0, 1400, 0));
	controls = timed();
	control_add(&controls, SOL_UDP, 77, &segment, sizeof(segment));
	print_result("of a kind that there is not", send_with(fd, &controls, 0, 1400, 0));
	print_result("set", number_set(fd, SOL_UDP, SEGMENT, 400));
	print_result("instead of what is set", send_segmented(fd, 1300, 600));
	sleep_ms(SETTLE_MS);
	print_result("none instead of what is set", send_segmented(fd, 1300, 0));
	sleep_ms(SETTLE_MS);
	controls = timed();
	segment = 700;
	control_add(&controls, SOL_UDP, SEGMENT, &segment, sizeof(segment));
	segment = 300;
	control_add(&controls, SOL_UDP, SEGMENT, &segment, sizeof(segment));
	print_result("twice", send_with(fd, &controls, 0, 1000, 0));
	done(fd);
}

static void segment_limits(void)
{
	static const struct {
		size_t bytes;
		uint16_t segment;
	} rows[] = {
		{64, 1},       {128, 1},      {129, 1},      {1280, 10},    {1281, 10},
		{1200, 1300},  {1200, 9000},  {1200, 65535}, {1300, 1200},  {3000, 2000},
		{3000, 65535}, {2000, 2000},  {65507, 1200}, {65528, 1200}, {65487, 1200},
		{65488, 1200}, {65535, 1200}, {65536, 1200}, {65507, 511},
	};
	int fd = datagram_socket();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char label[32];

		snprintf(label, sizeof(label), "%zu bytes by %u", rows[i].bytes, rows[i].segment);
		print_result(label, send_segmented(fd, rows[i].bytes, rows[i].segment));
		sleep_ms(SETTLE_MS);
	}
	done(fd);
}

static void no_checksum(int fd)
{
	if (case_to.any.sa_family == AF_INET)
		print_result("no checksum", number_set(fd, SOL_SOCKET, SO_NO_CHECK, 1));
	else
		print_result("no checksum", number_set(fd, SOL_UDP, NO_CHECK6_TX, 1));
}

static void segment_unchecked(void)
{
	int fd = datagram_socket();

	no_checksum(fd);
	print_result("one", send_segmented(fd, 400, 500));
	print_result("three", send_segmented(fd, 1400, 500));
	done(fd);
}

/* --- UDP_CORK and MSG_MORE
 * --------------------------------------------------------------------------------- */

static void cork_option(void)
{
	int fd = datagram_socket(), value;
	socklen_t bytes = sizeof(value);

	print_result("off before", number_set(fd, SOL_UDP, CORK, 0));
	print_result("on", number_set(fd, SOL_UDP, CORK, 1));
	print_result("first", send_part(fd, 0, 100, 0));
	print_result("second", send_part(fd, 100, 100, 0));
	sleep_ms(SETTLE_MS);
	print_result("get", getsockopt(fd, SOL_UDP, CORK, &value, &bytes));
	print_fact("value", "%d", value);
	print_result("off", number_set(fd, SOL_UDP, CORK, 0));
	sleep_ms(SETTLE_MS);
	print_result("alone", send_part(fd, 200, 100, 0));
	sleep_ms(SETTLE_MS);
	print_result("on", number_set(fd, SOL_UDP, CORK, 7));
	print_result("off without anything", number_set(fd, SOL_UDP, CORK, 0));
	done(fd);
}

static void cork_more(void)
{
	int fd = datagram_socket();

	print_result("first", send_part(fd, 0, 100, MSG_MORE));
	print_result("second", send_part(fd, 100, 50, MSG_MORE));
	print_result("last", send_part(fd, 150, 50, 0));
	sleep_ms(SETTLE_MS);
	print_result("more", send_part(fd, 200, 100, MSG_MORE));
	print_result("off", number_set(fd, SOL_UDP, CORK, 0));
	sleep_ms(SETTLE_MS);
	print_result("nothing, and more", send_part(fd, 300, 0, MSG_MORE));
	print_result("nothing", send_part(fd, 300, 0, 0));
	sleep_ms(SETTLE_MS);
	print_result("nothing, and more", send_part(fd, 300, 0, MSG_MORE));
	print_result("something", send_part(fd, 300, 30, 0));
	sleep_ms(SETTLE_MS);
	print_result("something, and more", send_part(fd, 400, 10, MSG_MORE));
	print_result("nothing", send_part(fd, 410, 0, 0));
	done(fd);
}

/* Any call may provide joined data; only the first sets the time. */
static void cork_other_calls(void)
{
	int fd = datagram_socket();
	struct controls none = {0};
	struct iovec iov[2] = {{content + 40, 5}, {content + 45, 5}};

	print_result("sendmsg", send_part(fd, 0, 10, MSG_MORE));
	print_result("sendmsg without a time", send_with(fd, &none, 10, 10, MSG_MORE));
	print_result("send", send(fd, content + 20, 10, MSG_MORE));
	print_result("sendto", sendto(fd, content + 30, 10, MSG_MORE, NULL, 0));
	print_result("writev", writev(fd, iov, 2));
	sleep_ms(SETTLE_MS);
	print_result("sendmsg", send_part(fd, 0, 10, MSG_MORE));
	print_result("write", write(fd, content + 10, 10));
	sleep_ms(SETTLE_MS);
	print_result("on", number_set(fd, SOL_UDP, CORK, 1));
	print_result("sendmsg", send_part(fd, 0, 10, 0));
	print_result("write", write(fd, content + 10, 10));
	print_result("send", send(fd, content + 20, 10, 0));
	print_result("off", number_set(fd, SOL_UDP, CORK, 0));
	done(fd);
}

/* The first part has no time: the kernel sends everything. */
static void cork_untimed_first(void)
{
	int fd = datagram_socket();
	struct controls none = {0};

	print_result("untimed", send(fd, content, 10, MSG_MORE));
	print_result("timed", send_part(fd, 10, 10, 0));
	sleep_ms(SETTLE_MS);
	print_result("untimed", send_with(fd, &none, 0, 20, MSG_MORE));
	print_result("timed, and more", send_part(fd, 20, 10, MSG_MORE));
	print_result("write", write(fd, content + 30, 10));
	sleep_ms(SETTLE_MS);
	print_result("timed again", send_part(fd, 0, 30, 0));
	done(fd);
}

/* Errors in a later part are ignored, or end the whole datagram. */
static void cork_wrong(void)
{
	int fd = datagram_socket(), short_time = 0;
	struct controls controls = {0};

	control_add(&controls, SOL_SOCKET, SCM_TXTIME, &short_time, sizeof(short_time));
	print_result("first", send_part(fd, 0, 100, MSG_MORE));
	print_result("a wrong control message", send_with(fd, &controls, 100, 10, MSG_MORE));
	print_result("MSG_OOB", send_part(fd, 110, 10, MSG_OOB | MSG_MORE));
	print_result("more than 65535 bytes", send_part(fd, 0, 65536, MSG_MORE));
	print_result("last", send_part(fd, 110, 10, 0));
	sleep_ms(SETTLE_MS);
	print_result("first", send_part(fd, 0, 100, MSG_MORE));
	print_result("more than fits", send_part(fd, 0, 65500, MSG_MORE));
	print_result("another", send_part(fd, 200, 40, 0));
	done(fd);
}

/* The destination of the first part applies although the second names no address and the socket has none. */
static void cork_unconnected(void)
{
	struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	int fd = datagram_socket();
	struct controls controls = timed();
	struct iovec iov = {.iov_base = content, .iov_len = 100};
	struct msghdr message = {
		.msg_name = &case_to, .msg_namelen = case_to_bytes, .msg_iov = &iov, .msg_iovlen = 1};

	message.msg_control = controls.room.bytes;
	message.msg_controllen = controls.used;
	print_result("part", connect(fd, &nobody, sizeof(nobody)));
	print_result("nowhere", send_part(fd, 0, 100, MSG_MORE));
	print_result("first", sendmsg(fd, &message, MSG_MORE));
	print_result("second", send_part(fd, 100, 100, 0));
	sleep_ms(SETTLE_MS);
	print_result("first", sendmsg(fd, &message, MSG_MORE));
	print_result("connect", connect(fd, &case_to.any, case_to_bytes));
	print_result("last", send_part(fd, 100, 50, 0));
	done(fd);
}

static void cork_segmented(void)
{
	int fd = datagram_socket();

	print_result("set", number_set(fd, SOL_UDP, SEGMENT, 500));
	print_result("first", send_part(fd, 0, 700, MSG_MORE));
	print_result("set otherwise", number_set(fd, SOL_UDP, SEGMENT, 300));
	print_result("second", send_part(fd, 700, 700, 0));
	sleep_ms(SETTLE_MS);
	print_result("first", send_part(fd, 0, 3000, MSG_MORE));
	print_result("second", send_part(fd, 3000, 3000, 0));
	sleep_ms(SETTLE_MS);
	print_result("set none", number_set(fd, SOL_UDP, SEGMENT, 0));
	print_result("first", send_part(fd, 0, 10, MSG_MORE));
	print_result("segments for a later part", send_segmented(fd, 400, 50));
	sleep_ms(SETTLE_MS);
	print_result("set", number_set(fd, SOL_UDP, SEGMENT, 1));
	print_result("first", send_part(fd, 0, 100, MSG_MORE));
	print_result("too many", send_part(fd, 100, 100, 0));
	print_result("set none", number_set(fd, SOL_UDP, SEGMENT, 0));
	print_result("after that", send_part(fd, 0, 60, 0));
	done(fd);
}

static void cork_closed(void)
{
	int fd = datagram_socket();

	print_result("first", send_part(fd, 0, 100, MSG_MORE));
	close(fd);
	fd = datagram_socket();
	print_result("of another", send_part(fd, 0, 50, 0));
	done(fd);
}

static void cork_shut_down(void)
{
	int fd = datagram_socket();

	print_result("first", send_part(fd, 0, 100, MSG_MORE));
	print_result("shutdown", shutdown(fd, SHUT_WR));
	print_result("second", send_part(fd, 100, 100, 0));
	print_result("off", number_set(fd, SOL_UDP, CORK, 0));
	done(fd);
}

const struct txtime_case datagram_cases[] = {
	{"segment-option", segment_option},
	{"segment-set", segment_set},
	{"segment-control", segment_control},
	{"segment-limits", segment_limits},
	{"segment-unchecked", segment_unchecked},
	{"cork-option", cork_option},
	{"cork-more", cork_more},
	{"cork-other-calls", cork_other_calls},
	{"cork-untimed-first", cork_untimed_first},
	{"cork-wrong", cork_wrong},
	{"cork-unconnected", cork_unconnected},
	{"cork-segmented", cork_segmented},
	{"cork-closed", cork_closed},
	{"cork-shut-down", cork_shut_down},
	{NULL, NULL},
};
