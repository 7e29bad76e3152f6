/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-shapes: small ordinary programs, one for each way in which applications handle their sockets, for
 * tests that run them with and without libktsn.so. They know nothing of KuberneTSN.
 *
 * A shape is straight-line code: failures are printed on stderr and counted, and their count decides the exit
 * status. Each datagram describes itself (send_format() in send.c), so the receiver can check whether it
 * arrived once, in time and from the right port. Built with glibc and with musl; it includes no <linux/...>
 * header because musl's compiler has none.
 */
#ifndef KTSN_TEST_SHAPE_H
#define KTSN_TEST_SHAPE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct shape {
	const char *name;
	void (*run)(void);
};

/* The command line; constant while a shape runs. */
struct shape_arguments {
	const char *program;
	struct sockaddr_in to;
	struct sockaddr_in also_to; /* the next address, with the same port */
	int64_t base_tai_ns;        /* transmit times count from here, in all processes of one run */
	int fd;                     /* passed to a program that a shape started; -1: none */
};

extern struct shape_arguments arguments;

/* Ended by an entry without a name. Programs that shapes and other tests start are not listed. */
extern const struct shape descriptor_shapes[], process_shapes[], sending_shapes[], started_programs[];

/* Sends one message for 3 s and one for 0.7 s later, then one every 100 ms for 4.5 s. */
void keep_sending(void);
/* Opens 100 sockets, one every 5 ms, and sends one message on each, alternating between the two addresses. */
void keep_opening(void);

/* Counts a failure and prints errno's name for it. Any thread, and safe in a child. Returns ok. */
bool check(bool ok, const char *what);
int failure_count(void);

/* Create sockets; -1 and a failure on error. */
int udp_socket(void);
void ask_for_txtime(int fd);
void check_asked_for_txtime(int fd);
void connect_to(int fd, const struct sockaddr_in *to);
int timed_socket(void);   /* requests SO_TXTIME on CLOCK_TAI, then connects */
int untimed_socket(void); /* connected */

/* Sends a datagram with the transmit time base + offset, or without one. `to` may be NULL on a connected
 * socket. */
void send_at(int fd, const char *label, int offset_ms);
void send_at_to(int fd, const char *label, int offset_ms, const struct sockaddr_in *to);
void send_now(int fd, const char *label);
/* Sends three datagrams LABEL1 to LABEL3 whose times are not in the order of the calls. */
void send_three(int fd, const char *label);
/* Sends four datagrams by one call of sendmmsg: timed, untimed, timed, untimed. */
void send_mixed(int fd);
/* Checks that a transmit time on a socket without SO_TXTIME is refused with EINVAL. */
void check_time_refused(int fd);

/* Sleeps until base + offset. */
void sleep_until(int offset_ms);

/* Processes. */
void wait_for(pid_t child);
/* Returns the argv that runs the shape NAME of this program with the descriptor fd, for exec; valid until
 * the next call. */
char **started_as(const char *name, int fd);

/* Pass one descriptor over a unix socket. */
void fd_pass(int unix_fd, int fd);
int fd_receive(int unix_fd);

#endif
