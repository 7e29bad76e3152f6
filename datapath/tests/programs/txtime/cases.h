/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-txtime: the behaviour of SO_TXTIME that an application can observe, case by case, to be compared
 * between the kernel and libktsn. It knows nothing of KuberneTSN.
 *
 * A case is straight-line code that prints its results, one per line: "CASE: WHAT = VALUE". Times, numbers
 * that the kernel chose, and addresses do not appear. Built with glibc and with musl, and statically for a
 * virtual machine; it includes no <linux/...> header because musl's compiler has none.
 */
#ifndef KTSN_TEST_TXTIME_CASES_H
#define KTSN_TEST_TXTIME_CASES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif
#ifndef SCM_TXTIME
#define SCM_TXTIME SO_TXTIME
#endif

enum { DEADLINE_MODE = 1, REPORT_ERRORS = 2 }; /* SOF_TXTIME_... */

/* struct sock_txtime of <linux/net_tstamp.h> */
struct txtime_option {
	int32_t clockid;
	uint32_t flags;
};

/* struct sock_extended_err of <linux/errqueue.h> */
struct extended_error {
	uint32_t error;
	uint8_t origin, type, code, pad;
	uint32_t info, data;
};

struct txtime_case {
	const char *name;
	void (*run)(void);
};

/* Ended by an entry without a name. */
extern const struct txtime_case option_cases[], sending_cases[], error_cases[], waiting_cases[],
	datagram_cases[], wire_cases[];

/* The destination; its family decides which sockets the cases use. */
union case_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct case_packet_address { /* struct sockaddr_ll of <linux/if_packet.h> */
		uint16_t family;
		uint16_t protocol_be;
		int32_t interface;
		uint16_t hardware;
		uint8_t kind, address_bytes, address[8];
	} packet;
};

enum { ETHERNET_HEADER_BYTES = 14 };

/* Constant while a case runs. */
extern union case_address case_to;
extern socklen_t case_to_bytes;
extern int case_socket_type; /* for packet sockets: SOCK_RAW or SOCK_DGRAM */
extern uint8_t case_ethernet_header[ETHERNET_HEADER_BYTES];
extern bool case_deadline; /* times are deadlines, for etf with deadline_mode */

/* Prints one line. Any thread. */
void print_fact(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns "0", a count, or the name of errno. */
void print_result(const char *label, long result);
const char *error_name(int error);

int64_t tai_ns(void);
void sleep_ms(int ms);

/* Creates a socket connected to case_to, or a packet socket bound to its interface, with SO_TXTIME on
 * CLOCK_TAI and these flags. */
int plain_socket(void);
int timed_socket(uint32_t flags);
/* Adds DEADLINE_MODE to the flags if this run uses deadlines. */
int reporting_socket(void);
void nonblocking(int fd);

/* Sends a text with control messages; returns the result of sendmsg. */
long send_control(int fd, const char *text, void *control, size_t control_bytes, int flags);
/* The same with a transmit time. */
long send_text(int fd, const char *text, int64_t txtime_ns, int flags);
/* Sends a message whose time is long past: etf drops it. */
void send_invalid(int fd, const char *text);

/* Reads the error queue until it has a report, at most two seconds; returns false when there is none. */
struct report {
	long result;
	uint8_t data[2048];
	uint8_t control[256];
	struct msghdr message;
};
bool report_read(int fd, struct report *report);
/* Does not wait: returns -1 with errno if there is none. */
long report_take(int fd, struct report *report);
/* Returns its extended error, or NULL. */
const struct extended_error *report_error(struct report *report);

#endif
