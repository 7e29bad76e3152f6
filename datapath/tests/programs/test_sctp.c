/* SPDX-License-Identifier: Apache-2.0 */

/*
 * ktsn-test-sctp: one association of SCTP (IP protocol 132) by usrsctp, which needs CAP_NET_RAW but no SCTP
 * in the kernel. The client sends messages as fast as it can; the server prints in JSON how much arrived, and
 * from which address.
 *
 * Both ends are bound to one address: otherwise SCTP would use every address of its host.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

enum {
	BUFFER_BYTES = 1 << 16,
	/* Enough for a link without delay, so that a small window does not limit the rate. */
	SOCKET_BYTES = 4 << 20,
	NS_PER_S = 1000000000,
};

static char buffer[BUFFER_BYTES];

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void fail(const char *label)
{
	fprintf(stderr, "ktsn-test-sctp: %s: %s\n", label, strerror(errno));
	exit(1);
}

static long number(const char *text, long minimum, long maximum)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value < minimum || value > maximum) {
		fprintf(stderr, "ktsn-test-sctp: %s is no number from %ld to %ld\n", text, minimum, maximum);
		exit(2);
	}
	return value;
}

static struct sockaddr_in address_of(const char *text, const char *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)number(port, 0, UINT16_MAX))};

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
		fprintf(stderr, "ktsn-test-sctp: %s is no IPv4 address\n", text);
		exit(2);
	}
	return address;
}

/* A socket of one association, bound to an address. */
static struct socket *bound(const struct sockaddr_in *at)
{
	struct sockaddr_in local = *at;
	int bytes = SOCKET_BYTES;
	struct socket *association = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);

	if (!association)
		fail("make a socket");
	if (usrsctp_setsockopt(association, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) ||
	    usrsctp_setsockopt(association, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)))
		fail("set its buffers");
	if (usrsctp_bind(association, (struct sockaddr *)&local, sizeof(local)))
		fail("bind it");
	return association;
}

/* Connects an association, retrying while the server's stack does not listen yet. */
static struct socket *connected(const struct sockaddr_in *local, struct sockaddr_in to)
{
	enum { TRIES = 100, PAUSE_US = 100000 };

	for (int i = 0; i < TRIES; i++) {
		struct socket *association = bound(local);
		if (!usrsctp_connect(association, (struct sockaddr *)&to, sizeof(to)))
			return association;
		if (errno != ECONNREFUSED)
			break;
		usrsctp_close(association);
		usleep(PAUSE_US);
	}
	fail("connect");
	return NULL;
}

/* Receives one message or a part of it; 0 at the end. Ignores the details that the library reports. */
static ssize_t receive(struct socket *association)
{
	struct sockaddr_in from;
	socklen_t length = sizeof(from);
	struct sctp_rcvinfo info;
	socklen_t info_bytes = sizeof(info);
	unsigned int info_type = 0;
	int flags = 0;

	ssize_t got = usrsctp_recvv(association, buffer, sizeof(buffer), (struct sockaddr *)&from, &length,
				    &info, &info_bytes, &info_type, &flags);
	if (got < 0)
		fail("receive");
	return got;
}

/* Counts messages that arrive more than omit_s after the first, and prints the sum. */
static int serve(struct socket *listener, long omit_s)
{
	struct sockaddr_in from;
	socklen_t length = sizeof(from);
	int64_t first = 0, begin = 0, last = 0, bytes = 0;
	ssize_t got;

	if (usrsctp_listen(listener, 1))
		fail("listen");
	struct socket *association = usrsctp_accept(listener, (struct sockaddr *)&from, &length);
	if (!association)
		fail("accept an association");
	while ((got = receive(association)) > 0) {
		last = now_ns();
		if (!first)
			first = last;
		if (begin)
			bytes += got;
		else if (last - first >= omit_s * NS_PER_S)
			begin = last; /* messages are counted from now on */
	}
	printf("{\"bytes\": %lld, \"elapsed_ns\": %lld, \"from\": \"%s\"}\n", (long long)bytes,
	       (long long)(begin ? last - begin : 0), inet_ntoa(from.sin_addr));
	usrsctp_close(association);
	return 0;
}

static int send_all(struct socket *association, long seconds, size_t bytes)
{
	int64_t end = now_ns() + seconds * NS_PER_S;
	while (now_ns() < end)
		if (usrsctp_sendv(association, buffer, bytes, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) < 0)
			fail("send");
	return 0;
}

/* Returns when nothing is under way any more, or after a few seconds. */
static void finish(struct socket *last)
{
	enum { TRIES = 50, PAUSE_US = 100000 };

	usrsctp_close(last);
	for (int i = 0; usrsctp_finish() && i < TRIES; i++)
		usleep(PAUSE_US);
}

static int server(char **arguments)
{
	struct sockaddr_in local = address_of(arguments[0], arguments[1]);
	struct socket *listener = bound(&local);
	int status = serve(listener, number(arguments[2], 0, 60));

	finish(listener);
	return status;
}

static int client(char **arguments)
{
	struct sockaddr_in local = address_of(arguments[0], "0");
	struct sockaddr_in to = address_of(arguments[1], arguments[2]);
	long seconds = number(arguments[3], 1, 3600);
	size_t bytes = (size_t)number(arguments[4], 1, BUFFER_BYTES);
	struct socket *association = connected(&local, to);
	int status = send_all(association, seconds, bytes);

	finish(association);
	return status;
}

int main(int count, char **arguments)
{
	usrsctp_init(0, NULL, NULL);
	usrsctp_sysctl_set_sctp_sendspace(SOCKET_BYTES);
	usrsctp_sysctl_set_sctp_recvspace(SOCKET_BYTES);
	if (count == 5 && !strcmp(arguments[1], "server"))
		return server(arguments + 2);
	if (count == 7 && !strcmp(arguments[1], "client"))
		return client(arguments + 2);
	fprintf(stderr, "usage: ktsn-test-sctp server ADDRESS PORT OMIT-SECONDS\n"
			"       ktsn-test-sctp client OWN-ADDRESS ADDRESS PORT SECONDS BYTES\n");
	return 2;
}
