/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-receive: what an application can tell of UDP sockets that it reads and waits for, case by case,
 * to be compared with and without a receive ring. It knows nothing of KuberneTSN.
 *
 * A case is straight-line code that says what it saw, a line each. Times, ports and numbers that the kernel
 * chose do not appear: an address is said as whose it is. Datagrams come from another node, when the case
 * asks for them over a unix socket (ask.c). Built with glibc and with musl; of <linux/...> nothing is used,
 * which musl's compiler does not see.
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

/* Ended by an entry without a name. The started programs are not listed: cases start them. */
extern const struct receive_case call_cases[], buffer_cases[], control_cases[], option_cases[],
	waiting_cases[], epoll_cases[], peer_cases[], descriptor_cases[], sharing_cases[], process_cases[],
	program_cases[], thread_cases[], interrupt_cases[], error_cases[], started_cases[];

enum receive_family { FAMILY_IPV4, FAMILY_IPV6, FAMILY_MAPPED /* IPv4 to an IPv6 socket */ };

/* What the command line says. */
extern struct receive_arguments {
	const char *program, *family_name;
	enum receive_family family;
	int fd; /* that a started program was given; -1: none */
} arguments;

/* What a call had room for at most. */
enum { ROOM = 9000, CONTROL_ROOM = 512 };

/* One fact, a line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program where the test itself does not work. */
void require(bool ok, const char *what);
/* "3", "0", or the name of errno for a result below 0. Valid until eight later calls. */
const char *result_name(long result);
const char *error_name(int error);
/* The text of a datagram, and of a long one its beginning, its length and a sum. Valid until eight later
 * calls. */
const char *text_of(const void *data, long bytes);
/* Whose address it is: "peer", "peer's other port", "other address", "own" or "unknown". */
const char *whose(const void *address, socklen_t bytes);
/* recvfrom() into a large buffer, and all that it tells. Returns what the call did. */
long say_received(const char *what, int fd, int flags);
/* The same until nothing is there, without blocking. */
void say_rest(const char *what, int fd);
/* recvmsg(), without blocking, with so much room for control messages, and what they tell. */
void say_message(const char *what, int fd, size_t room);
/* Receives so many, waiting 2 s for each at most, and says them sorted: for those whose order nobody
 * promises. */
void say_sorted(const char *what, int fd, int count);

/* Where datagrams come from. */
enum { PEER, PEER_OTHER_PORT, PEER_OTHER_ADDRESS, SOURCES };

/* Datagrams LABEL0, LABEL1 ...; zeros mean: as usual. */
struct sending {
	const char *label;
	int count, source;
	int bytes; /* of each: filled up after the text; -1: without any */
	int tos, ttl;
	uint16_t port; /* 0: that of the socket */
	int after_ms;  /* not at once: the call returns, and they come later */
};

/* The other node sends to the socket's port. Returns when they have come to where the kernel, or whoever is
 * in its place, keeps them. */
void ask(int fd, struct sending sending);
void sent(int fd, const char *label, int count);
void sent_soon(int fd, const char *label, int count);
/* All that was asked for has come. */
void all_sent(void);

union socket_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Of the case's family. */
union socket_address source_address(int source);
union socket_address own_address(uint16_t port);
union socket_address any_address(uint16_t port);
socklen_t address_bytes(void);
uint16_t port_of(int fd);

int unbound_socket(void);
int bound_socket(void);
/* Bound and once read in vain, as by a program that looks first. */
int looked_socket(void);
int connected_socket(int source);
void look(int fd);
void connect_to(int fd, int source);
void set_int(int fd, int level, int option, int value);
/* From the socket, and from another of the same node to the socket. */
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
