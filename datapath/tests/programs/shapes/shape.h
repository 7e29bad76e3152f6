/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-shapes: small ordinary programs, one for each way in which applications handle their sockets,
 * for tests that run them with and without libktsn.so. They know nothing of KuberneTSN.
 *
 * A shape is straight-line code: what fails is said on stderr and counted, and the count decides the exit
 * status. Each datagram says what it is (send_format() in send.c), so the receiver can tell whether it came
 * once, in time and from the right port. Built with glibc and with musl; of <linux/...> nothing is used,
 * which musl's compiler does not see.
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

/* What the command line says; constant while a shape runs. */
struct shape_arguments {
	const char *program;
	struct sockaddr_in to;
	struct sockaddr_in also_to; /* the next address, same port */
	int64_t base_tai_ns;        /* transmit times count from here, in all processes of one run */
	int fd;                     /* that a program started by a shape was given; -1: none */
};

extern struct shape_arguments arguments;

/* Ended by an entry without a name. The started programs are not listed: shapes and other tests start
 * them. */
extern const struct shape descriptor_shapes[], process_shapes[], sending_shapes[], started_programs[];

/* Sends one message for 3 s and one for 0.7 s later, then one every 100 ms for 4.5 s. */
void keep_sending(void);
/* Opens 100 sockets, one every 5 ms, and sends one message on each, in turns to the two addresses. */
void keep_opening(void);

/* Counts a failure and says errno's name for it; any thread, and safe in a child. Returns whether ok. */
bool check(bool ok, const char *what);
int failure_count(void);

/* Sockets; -1 and a failure when they cannot be made. */
int udp_socket(void);
void ask_for_txtime(int fd);
void check_asked_for_txtime(int fd);
void connect_to(int fd, const struct sockaddr_in *to);
int timed_socket(void);   /* asks for SO_TXTIME on CLOCK_TAI, then connects */
int untimed_socket(void); /* connected */

/* Sends a datagram with the transmit time base + offset, or without one. to NULL: the socket is connected. */
void send_at(int fd, const char *label, int offset_ms);
void send_at_to(int fd, const char *label, int offset_ms, const struct sockaddr_in *to);
void send_now(int fd, const char *label);
/* Three datagrams LABEL1 to LABEL3 whose times are not in the order of the calls. */
void send_three(int fd, const char *label);
/* One call of sendmmsg for four datagrams: timed, untimed, timed, untimed. */
void send_mixed(int fd);
/* A transmit time on a socket that never asked for it is refused with EINVAL. */
void check_time_refused(int fd);

/* Until base + offset. */
void sleep_until(int offset_ms);

/* Processes. */
void wait_for(pid_t child);
/* argv of this program as the shape NAME with the descriptor fd, for exec; valid until the next call. */
char **started_as(const char *name, int fd);

/* One descriptor over a unix socket. */
void fd_pass(int unix_fd, int fd);
int fd_receive(int unix_fd);

#endif
