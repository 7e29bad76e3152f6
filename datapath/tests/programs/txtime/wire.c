/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that change the headers of datagrams: checksum, don't fragment, identification. The receiver
 * records the headers; each datagram has left before the next is sent.
 */
#include "cases.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef SO_NO_CHECK
#define SO_NO_CHECK 11
#endif

/* <linux/udp.h> */
enum { NO_CHECK6_TX = 101 };

/* <linux/in.h> */
enum { DISCOVER_DONT, DISCOVER_WANT, DISCOVER_DO, DISCOVER_PROBE, DISCOVER_INTERFACE, DISCOVER_OMIT };

enum { LEAD_NS = 5 * 1000 * 1000, SETTLE_MS = 15 };

static int number_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

/* Twice, to show which identifications follow. */
static void send_twice(int fd, const char *text)
{
	for (int i = 0; i < 2; i++) {
		print_result(text, send_text(fd, text, tai_ns() + LEAD_NS, 0));
		sleep_ms(SETTLE_MS);
	}
}

static void no_checksum_set(int fd, const char *label, int level, int option, int value)
{
	print_result(label, number_set(fd, level, option, value));
	send_twice(fd, label);
}

/* Each option belongs to one family and does not affect the other. */
static void no_checksum(void)
{
	int fd = timed_socket(0);

	send_twice(fd, "as it is");
	no_checksum_set(fd, "SO_NO_CHECK", SOL_SOCKET, SO_NO_CHECK, 1);
	no_checksum_set(fd, "SO_NO_CHECK off", SOL_SOCKET, SO_NO_CHECK, 0);
	no_checksum_set(fd, "UDP_NO_CHECK6_TX", SOL_UDP, NO_CHECK6_TX, 1);
	no_checksum_set(fd, "both", SOL_SOCKET, SO_NO_CHECK, 1);
	no_checksum_set(fd, "UDP_NO_CHECK6_TX off", SOL_UDP, NO_CHECK6_TX, 0);
	close(fd);
}

static void discover_all(int fd)
{
	static const struct {
		int value;
		const char *name;
	} rows[] = {
		{DISCOVER_DONT, "dont"},   {DISCOVER_WANT, "want"},           {DISCOVER_DO, "do"},
		{DISCOVER_PROBE, "probe"}, {DISCOVER_INTERFACE, "interface"}, {DISCOVER_OMIT, "omit"},
		{6, "one that is none"},   {DISCOVER_DONT, "dont again"},
	};

	send_twice(fd, "as it is");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		print_result(rows[i].name, number_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, rows[i].value));
		send_twice(fd, rows[i].name);
	}
}

static void discover(void)
{
	int fd = timed_socket(0);

	discover_all(fd);
	close(fd);
}

/* IPv6 has its own options for this, which change no header. */
static void discover_ipv6(void)
{
	int fd = timed_socket(0);

	if (case_to.any.sa_family == AF_INET6) {
		print_result("IPV6_MTU_DISCOVER",
			     number_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, DISCOVER_DONT));
		send_twice(fd, "IPV6_MTU_DISCOVER");
		print_result("IPV6_DONTFRAG", number_set(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1));
		send_twice(fd, "IPV6_DONTFRAG");
	}
	close(fd);
}

/* Options that were set before the socket requested SO_TXTIME. */
static void set_before(void)
{
	struct txtime_option txtime = {.clockid = 11 /* CLOCK_TAI */};
	int fd = plain_socket();

	print_result("dont", number_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, DISCOVER_DONT));
	print_result("SO_NO_CHECK", number_set(fd, SOL_SOCKET, SO_NO_CHECK, 1));
	print_result("UDP_NO_CHECK6_TX", number_set(fd, SOL_UDP, NO_CHECK6_TX, 1));
	print_result("SO_TXTIME", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)));
	send_twice(fd, "both");
	close(fd);
}

const struct txtime_case wire_cases[] = {
	{"wire-no-checksum", no_checksum},
	{"wire-discover", discover},
	{"wire-discover-ipv6", discover_ipv6},
	{"wire-set-before", set_before},
	{NULL, NULL},
};
