/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error queue: what stands in it, byte by byte, and how it is read.
 */
#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEADERS = 42, INVALID_TIME = 1000000000 };

static const char *yes_if(bool yes)
{
	return yes ? "yes" : "no";
}

static void say_hex(const char *what, const uint8_t *bytes, size_t count)
{
	char text[512];

	for (size_t i = 0; i < count && i < sizeof(text) / 2 - 1; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	say(what, "%s", count ? text : "");
}

/* Ethernet, IPv4 and UDP, without what the kernel chose: addresses of hardware, identification, sums. */
static void say_frame(const uint8_t *frame, size_t bytes)
{
	uint8_t copy[HEADERS];
	struct in_addr source, destination;

	say("frame bytes", "%zu", bytes);
	if (bytes < HEADERS)
		return;
	memcpy(copy, frame, HEADERS);
	memcpy(&source, copy + 26, 4);
	memcpy(&destination, copy + 30, 4);
	memset(copy, 0, 12);
	memset(copy + 18, 0, 2);
	memset(copy + 24, 0, 12);
	memset(copy + 40, 0, 2);
	memset(copy + 34, 0, 2);
	say_hex("headers", copy, HEADERS);
	say("to whom", "%s", yes_if(destination.s_addr == case_to.sin_addr.s_addr && source.s_addr != 0));
	say("payload", "%.*s", (int)(bytes - HEADERS), frame + HEADERS);
}

static void contents(void)
{
	int fd = reporting_socket();
	struct cmsghdr *header;
	struct report report;

	say_result("before", report_take(fd, &report));
	send_invalid(fd, "contents");
	if (!report_read(fd, &report)) {
		say("reported", "no");
		close(fd);
		return;
	}
	header = CMSG_FIRSTHDR(&report.message);
	say("flags", "%#x", (unsigned int)report.message.msg_flags);
	say("bytes of control", "%zu", (size_t)report.message.msg_controllen);
	say("control", "level %d, type %d, length %zu", header->cmsg_level, header->cmsg_type,
	    (size_t)header->cmsg_len);
	say_hex("control's data", CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	say_frame(report.data, (size_t)report.result);
	say_result("after", report_take(fd, &report));
	close(fd);
}

static void wait_for_report(void)
{
	sleep_ms(150);
}

static void read_narrow(int fd, const char *what, size_t data_bytes, size_t control_bytes, bool name)
{
	uint8_t data[128], control[128];
	struct sockaddr_in from = {.sin_port = 0x1234};
	struct iovec iov = {.iov_base = data, .iov_len = data_bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	long result;

	message.msg_control = control_bytes ? control : NULL;
	message.msg_controllen = control_bytes;
	if (name) {
		message.msg_name = &from;
		message.msg_namelen = sizeof(from);
	}
	send_invalid(fd, "narrow");
	wait_for_report();
	result = recvmsg(fd, &message, MSG_ERRQUEUE);
	if (result < 0) {
		say(what, "%s", error_name(errno));
		return;
	}
	say(what, "%ld bytes, flags %#x, control %zu, name %u, port kept %s", result,
	    (unsigned int)message.msg_flags, (size_t)message.msg_controllen,
	    name ? (unsigned int)message.msg_namelen : 0, yes_if(from.sin_port == 0x1234));
}

static void narrow(void)
{
	int fd = reporting_socket();

	read_narrow(fd, "whole", 128, 128, false);
	read_narrow(fd, "with a name", 128, 128, true);
	read_narrow(fd, "20 bytes of data", 20, 128, false);
	read_narrow(fd, "no data", 0, 128, false);
	read_narrow(fd, "32 bytes of control", 128, 32, false);
	read_narrow(fd, "8 bytes of control", 128, 8, false);
	read_narrow(fd, "no control", 128, 0, false);
	close(fd);
}

/* In the order in which they were dropped. */
static void several(void)
{
	enum { COUNT = 3 };
	static const char *const texts[COUNT] = {"several-1", "several-2", "several-3"};
	uint8_t data[COUNT + 1][128], control[COUNT + 1][128];
	struct iovec iov[COUNT + 1];
	struct mmsghdr messages[COUNT + 1] = {0};
	int fd = reporting_socket(), count;

	for (int i = 0; i < COUNT; i++)
		send_invalid(fd, texts[i]);
	wait_for_report();
	for (int i = 0; i <= COUNT; i++) {
		iov[i] = (struct iovec){.iov_base = data[i], .iov_len = sizeof(data[i])};
		messages[i].msg_hdr.msg_iov = &iov[i];
		messages[i].msg_hdr.msg_iovlen = 1;
		messages[i].msg_hdr.msg_control = control[i];
		messages[i].msg_hdr.msg_controllen = sizeof(control[i]);
	}
	count = recvmmsg(fd, messages, COUNT + 1, MSG_ERRQUEUE, NULL);
	say_result("recvmmsg", count);
	for (int i = 0; i < count; i++)
		say("payload", "%.*s", (int)messages[i].msg_len - HEADERS, data[i] + HEADERS);
	say_result("recvmmsg again", recvmmsg(fd, messages, 1, MSG_ERRQUEUE, NULL));
	close(fd);
}

static void not_asked_for(void)
{
	int fd = timed_socket(case_deadline ? DEADLINE_MODE : 0);
	struct report report;

	send_invalid(fd, "not-asked-for");
	wait_for_report();
	say_result("read", report_take(fd, &report));
	close(fd);
}

/* Reports are no errors of the socket itself. */
static void socket_error(void)
{
	int fd = reporting_socket(), error = -1;
	socklen_t bytes = sizeof(error);
	char byte;

	send_invalid(fd, "socket-error");
	wait_for_report();
	say_result("SO_ERROR asked", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes));
	say("SO_ERROR", "%d", error);
	say_result("recv", recv(fd, &byte, 1, MSG_DONTWAIT));
	close(fd);
}

/* What waits to be read is not lost by asking for the same again. */
static void asked_again(void)
{
	int fd = reporting_socket();
	struct txtime_option option = {CLOCK_TAI, REPORT_ERRORS | (case_deadline ? DEADLINE_MODE : 0)};
	struct report report;

	send_invalid(fd, "asked-again");
	wait_for_report();
	say_result("asked again", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &option, sizeof(option)));
	say("read", "%s", yes_if(report_take(fd, &report) > 0));
	close(fd);
}

static void two_sockets(void)
{
	int one = reporting_socket(), other = reporting_socket();
	struct report report;

	send_invalid(one, "two-sockets-1");
	wait_for_report();
	say_result("the other", report_take(other, &report));
	say("the one", "%s", yes_if(report_take(one, &report) > 0));
	close(one);
	send_invalid(other, "two-sockets-2");
	wait_for_report();
	close(other);
	one = reporting_socket();
	say_result("a third, after the others were closed", report_take(one, &report));
	close(one);
}

/* Both would leave at the same time, and the link takes one long enough for the other to miss it. */
static void missed(void)
{
	static char text[1400];
	int fd = reporting_socket();
	struct report report;
	int64_t txtime_ns = tai_ns() + 100000000;

	memset(text, 'm', sizeof(text) - 1);
	say_result("first", send_text(fd, text, txtime_ns, 0));
	say_result("second", send_text(fd, text, txtime_ns + 1, 0));
	sleep_ms(200);
	if (report_read(fd, &report)) {
		const struct extended_error *error = report_error(&report);
		int64_t said_ns = (int64_t)((uint64_t)error->data << 32 | error->info);

		say("reported", "%s, origin %u, type %u, code %u", error_name((int)error->error),
		    error->origin, error->type, error->code);
		say("its time", "%s", yes_if(said_ns == txtime_ns + 1));
		say("bytes", "%ld", report.result);
	} else {
		say("reported", "no");
	}
	say_result("after", report_take(fd, &report));
	close(fd);
}

const struct txtime_case error_cases[] = {
	{"error-contents", contents},
	{"error-narrow", narrow},
	{"error-several", several},
	{"error-not-asked-for", not_asked_for},
	{"error-socket-error", socket_error},
	{"error-asked-again", asked_again},
	{"error-two-sockets", two_sockets},
	{"error-missed", missed},
	{0},
};
