/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-receive: the behaviour of UDP sockets that an application reads and waits for, case by case, to
 * be compared with and without a receive ring. It knows nothing of KuberneTSN.
 *
 * A case is straight-line code that prints its results, one per line. Times, ports and numbers that the
 * kernel chose do not appear; an address appears as its owner. Another node sends the datagrams when the case
 * asks for them over a unix socket (ask.c). Built with glibc and with musl; it includes no <linux/...> header
 * because musl's compiler has none.
 */
#ifndef KTSN_TEST_RECEIVE_H
#define KTSN_TEST_RECEIVE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct receive_case {
	const char *name;
	void (*run)(void);
};

/* Ended by an entry without a name. Programs that cases start are not listed. */
extern const struct receive_case call_cases[], buffer_cases[], control_cases[], option_cases[],
	waiting_cases[], epoll_cases[], uring_cases[], peer_cases[], descriptor_cases[], sharing_cases[],
	process_cases[], program_cases[], thread_cases[], interrupt_cases[], error_cases[], started_cases[];

enum receive_family { FAMILY_IPV4, FAMILY_IPV6, FAMILY_MAPPED /* IPv4 to an IPv6 socket */ };

/* The command line. */
extern struct receive_arguments {
	const char *program, *family_name;
	enum receive_family family;
	int fd; /* passed to a started program; -1: none */
} arguments;

/* The largest buffer of a call. */
enum { ROOM = 9000, CONTROL_ROOM = 512 };

/* Prints one fact as a line. */
void print_fact(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program when the test itself fails. */
void require(bool ok, const char *what);
/* Returns "3", "0", or the name of errno for a negative result. Valid until eight later calls. */
const char *result_name(long result);
const char *error_name(int error);
/* Returns the text of a datagram; for a long one its beginning, length and a sum. Valid until eight later
 * calls. */
const char *text_of(const void *data, long bytes);
/* Names the owner of an address: "peer", "peer's other port", "other address", "own" or "unknown". */
const char *whose(const void *address, socklen_t bytes);
/* Calls recvfrom() with a large buffer and prints everything that it returns. Returns the result. */
long print_received(const char *what, int fd, int flags);
/* Repeats it without blocking until the socket is empty. */
void print_rest(const char *what, int fd);
/* Calls recvmsg() without blocking, with this much room for control messages, and prints them. */
void print_message(const char *what, int fd, size_t room);
/* Receives this many, waiting 2 s for each at most, and prints them sorted: for datagrams without a
 * defined order. */
void print_sorted(const char *what, int fd, int count);

/* The source of datagrams. */
enum { PEER, PEER_OTHER_PORT, PEER_OTHER_ADDRESS, SOURCES };

/* Datagrams LABEL0, LABEL1 ...; zero fields select the defaults. */
struct sending {
	const char *label;
	int count, source;
	int bytes; /* bytes of each, padded after the text; -1: no payload */
	int tos, ttl;
	uint16_t port; /* 0: that of the socket */
	int after_ms;  /* the call returns, and they are sent this much later */
};

/* Makes the other node send to the socket's port. Returns when the datagrams have reached the kernel's
 * queue, or its replacement. */
void ask(int fd, struct sending sending);
void sent(int fd, const char *label, int count);
void sent_soon(int fd, const char *label, int count);
/* Waits until all requested datagrams have arrived. */
void all_sent(void);

union socket_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* For the family of the case. */
union socket_address source_address(int source);
union socket_address own_address(uint16_t port);
union socket_address any_address(uint16_t port);
socklen_t address_bytes(void);
uint16_t port_of(int fd);

int unbound_socket(void);
int bound_socket(void);
/* Bound, and read once without success, as by a program that checks first. */
int looked_socket(void);
int connected_socket(int source);
void look(int fd);
void connect_to(int fd, int source);
void set_int(int fd, int level, int option, int value);
/* Sends from the socket, or from another socket of the same node to it. */
void send_to_peer(int fd);
void send_from_own(int fd, const char *label);
void wait_at_most(int fd, int ms); /* SO_RCVTIMEO */

int64_t now_ms(void);
void sleep_ms(int ms);

/* Processes. */
void wait_for(pid_t child);
char **started_as(const char *name, int fd);
void fd_pass(int unix_fd, int fd);
int fd_receive(int unix_fd);

#endif
