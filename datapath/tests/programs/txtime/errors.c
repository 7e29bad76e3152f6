/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error queue: its content byte by byte, and how it is read.
 */
#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INVALID_TIME = 1000000000, HEADERS_MAX = 62 };

static const char *yes_if(bool yes)
{
	return yes ? "yes" : "no";
}

static void print_hex(const char *label, const uint8_t *bytes, size_t count)
{
	char text[512];

	for (size_t i = 0; i < count && i < sizeof(text) / 2 - 1; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	print_fact(label, "%s", count ? text : "");
}

/* Masks values in a frame's headers that the kernel chose: hardware addresses, identification, flow label,
 * checksums, the port; and the addresses. */
struct shape {
	size_t bytes;
	size_t source_at, destination_at, address_bytes;
	struct {
		size_t at, bytes;
	} chosen[5];
};

static const struct shape ipv4 = {42, 26, 30, 4, {{0, 12}, {18, 2}, {24, 12}, {40, 2}}};
static const struct shape ipv6 = {62, 22, 38, 16, {{0, 12}, {15, 3}, {22, 34}, {60, 2}}};
static const struct shape packet = {14, 6, 0, 6, {{6, 6}}};

static const struct shape *shape(void)
{
	switch (case_to.any.sa_family) {
	case AF_PACKET:
		return &packet;
	case AF_INET6:
		return IN6_IS_ADDR_V4MAPPED(&case_to.in6.sin6_addr) ? &ipv4 : &ipv6;
	default:
		return &ipv4;
	}
}

static const void *destination(void)
{
	switch (case_to.any.sa_family) {
	case AF_PACKET:
		return case_to.packet.address;
	case AF_INET6:
		return case_to.in6.sin6_addr.s6_addr + 16 - shape()->address_bytes;
	default:
		return &case_to.in.sin_addr;
	}
}

static bool any_set(const uint8_t *bytes, size_t count)
{
	while (count && !*bytes)
		bytes++, count--;
	return count > 0;
}

static void print_frame(const uint8_t *frame, size_t bytes)
{
	const struct shape *its = shape();
	uint8_t copy[HEADERS_MAX];

	print_fact("frame bytes", "%zu", bytes);
	if (bytes < its->bytes)
		return;
	memcpy(copy, frame, its->bytes);
	for (size_t i = 0; its->chosen[i].bytes; i++)
		memset(copy + its->chosen[i].at, 0, its->chosen[i].bytes);
	print_hex("headers", copy, its->bytes);
	print_fact("to whom", "%s",
		   yes_if(memcmp(frame + its->destination_at, destination(), its->address_bytes) == 0 &&
			  any_set(frame + its->source_at, its->address_bytes)));
	print_fact("payload", "%.*s", (int)(bytes - its->bytes), frame + its->bytes);
}

/* The address after the error: IPv6 sockets have their own, others none. */
static void print_offender(const uint8_t *address, size_t bytes, const uint8_t *frame)
{
	const struct shape *its = shape();
	struct sockaddr_in6 in6 = {0};

	if (!any_set(address, bytes)) {
		print_fact("offender", "%zu bytes, zero", bytes);
		return;
	}
	memcpy(&in6, address, bytes < sizeof(in6) ? bytes : sizeof(in6));
	print_fact("offender", "%zu bytes, family %d, port %d, flow %u, scope %u, mapped %s, its own %s",
		   bytes, in6.sin6_family, in6.sin6_port, in6.sin6_flowinfo, in6.sin6_scope_id,
		   yes_if(IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)),
		   yes_if(memcmp(in6.sin6_addr.s6_addr + 16 - its->address_bytes, frame + its->source_at,
				 its->address_bytes) == 0));
}

static void contents(void)
{
	int fd = reporting_socket();
	struct cmsghdr *header;
	struct report report;

	print_result("before", report_take(fd, &report));
	send_invalid(fd, "contents");
	if (!report_read(fd, &report)) {
		print_fact("reported", "no");
		close(fd);
		return;
	}
	header = CMSG_FIRSTHDR(&report.message);
	print_fact("flags", "%#x", (unsigned int)report.message.msg_flags);
	print_fact("bytes of control", "%zu", (size_t)report.message.msg_controllen);
	print_fact("control", "level %d, type %d, length %zu", header->cmsg_level, header->cmsg_type,
		   (size_t)header->cmsg_len);
	print_hex("error", CMSG_DATA(header), sizeof(struct extended_error));
	print_offender(CMSG_DATA(header) + sizeof(struct extended_error),
		       header->cmsg_len - CMSG_LEN(sizeof(struct extended_error)), report.data);
	print_frame(report.data, (size_t)report.result);
	print_result("after", report_take(fd, &report));
	close(fd);
}

static void wait_for_report(void)
{
	sleep_ms(150);
}

static void read_narrow(int fd, const char *label, size_t data_bytes, size_t control_bytes, bool name)
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
		print_fact(label, "%s", error_name(errno));
		return;
	}
	print_fact(label, "%ld bytes, flags %#x, control %zu, name %u, port kept %s", result,
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

/* Without control messages, and therefore without the reason of the error. */
static void received(void)
{
	int fd = reporting_socket();
	uint8_t data[128];
	union case_address from = {.in = {.sin_port = 0x1234}};
	socklen_t from_bytes = sizeof(from);

	print_result("recv, nothing there", recv(fd, data, sizeof(data), MSG_ERRQUEUE));
	send_invalid(fd, "received");
	send_invalid(fd, "received");
	send_invalid(fd, "received");
	wait_for_report();
	print_result("recv", recv(fd, data, sizeof(data), MSG_ERRQUEUE));
	print_fact("payload", "%.8s", data + shape()->bytes);
	print_result("recv of 20 bytes", recv(fd, data, 20, MSG_ERRQUEUE));
	print_result("recvfrom", recvfrom(fd, data, sizeof(data), MSG_ERRQUEUE, &from.any, &from_bytes));
	print_fact("name", "%u bytes, port kept %s", from_bytes, yes_if(from.in.sin_port == 0x1234));
	print_result("after", recvfrom(fd, data, sizeof(data), MSG_ERRQUEUE, NULL, NULL));
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
	print_result("recvmmsg", count);
	for (int i = 0; i < count; i++)
		print_fact("payload", "%.*s", (int)(messages[i].msg_len - shape()->bytes),
			   data[i] + shape()->bytes);
	print_result("recvmmsg again", recvmmsg(fd, messages, 1, MSG_ERRQUEUE, NULL));
	close(fd);
}

static void not_asked_for(void)
{
	int fd = timed_socket(case_deadline ? DEADLINE_MODE : 0);
	struct report report;

	send_invalid(fd, "not-asked-for");
	wait_for_report();
	print_result("read", report_take(fd, &report));
	close(fd);
}

/* Reports are not errors of the socket itself. */
static void socket_error(void)
{
	int fd = reporting_socket(), error = -1;
	socklen_t bytes = sizeof(error);
	char byte;

	send_invalid(fd, "socket-error");
	wait_for_report();
	print_result("SO_ERROR asked", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes));
	print_fact("SO_ERROR", "%d", error);
	print_result("recv", recv(fd, &byte, 1, MSG_DONTWAIT));
	close(fd);
}

/* Setting the same option again does not lose pending reports. */
static void asked_again(void)
{
	int fd = reporting_socket();
	struct txtime_option option = {CLOCK_TAI, REPORT_ERRORS | (case_deadline ? DEADLINE_MODE : 0)};
	struct report report;

	send_invalid(fd, "asked-again");
	wait_for_report();
	print_result("asked again", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &option, sizeof(option)));
	print_fact("read", "%s", yes_if(report_take(fd, &report) > 0));
	close(fd);
}

static void two_sockets(void)
{
	int first = reporting_socket(), second = reporting_socket();
	struct report report;

	send_invalid(first, "two-sockets-1");
	wait_for_report();
	print_result("the other", report_take(second, &report));
	print_fact("the one", "%s", yes_if(report_take(first, &report) > 0));
	close(first);
	send_invalid(second, "two-sockets-2");
	wait_for_report();
	close(second);
	first = reporting_socket();
	print_result("a third, after the others were closed", report_take(first, &report));
	close(first);
}

/* Both are due at the same time, and the link takes one long enough for the other to miss it. */
static void missed(void)
{
	static char text[1400];
	int fd = reporting_socket();
	struct report report;
	int64_t txtime_ns = tai_ns() + 100000000;

	memset(text, 'm', sizeof(text) - 1);
	print_result("first", send_text(fd, text, txtime_ns, 0));
	print_result("second", send_text(fd, text, txtime_ns + 1, 0));
	sleep_ms(200);
	if (report_read(fd, &report)) {
		const struct extended_error *error = report_error(&report);
		int64_t reported_ns = (int64_t)((uint64_t)error->data << 32 | error->info);

		print_fact("reported", "%s, origin %u, type %u, code %u", error_name((int)error->error),
			   error->origin, error->type, error->code);
		print_fact("its time", "%s", yes_if(reported_ns == txtime_ns + 1));
		print_fact("bytes", "%ld", report.result);
	} else {
		print_fact("reported", "no");
	}
	print_result("after", report_take(fd, &report));
	close(fd);
}

const struct txtime_case error_cases[] = {
	{"error-contents", contents},
	{"error-narrow", narrow},
	{"error-received", received},
	{"error-several", several},
	{"error-not-asked-for", not_asked_for},
	{"error-socket-error", socket_error},
	{"error-asked-again", asked_again},
	{"error-two-sockets", two_sockets},
	{"error-missed", missed},
	{0},
};
