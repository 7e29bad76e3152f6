/* SPDX-License-Identifier: Apache-2.0 */
#include "modes.h"
#include "receive_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	CONTROL_FD = 1, /* of the two descriptors of a reply */
	SOCKETS_MAX = 4096,
	/* The receive buffer of each socket: the smallest ring. */
	BUFFER_BYTES = 4096,
	NAP_US = 1000,
};

/* Binds to a port of any address; 0: a free one. Returns the socket or -errno. */
static int receiver(in_port_t port_be)
{
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = port_be};
	const int bytes = BUFFER_BYTES;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(fd, (const struct sockaddr *)&any, sizeof(any)) == 0)
		return fd;
	close(fd);
	return -EADDRINUSE;
}

/* Keeps the ring's descriptors open if there is one. */
static int ring_ask(struct client *client, enum ktsn_app_type type, int fd)
{
	struct ktsn_app_request request = client_request(type);
	struct ktsn_app_reply reply;

	return client_call(client, &request, fd, &reply);
}

/* Marks the last ring as read. */
static int ring_claim(const struct client *client)
{
	const long bytes = sysconf(_SC_PAGESIZE);
	struct ktsn_receive_control *control = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
						    client->receive_fds[CONTROL_FD], 0);

	if (control == MAP_FAILED)
		return -errno;
	control->readers = 1;
	munmap(control, (size_t)bytes);
	return 0;
}

/* Opens rings for as many sockets as allowed, the first at the target's port, and reads none of them
 * although it claims to. */
static int mode_receive(const struct target *target)
{
	const struct rlimit descriptors = {4 * SOCKETS_MAX, 4 * SOCKETS_MAX};
	const long most = target->count ? target->count : SOCKETS_MAX;
	long opened = 0, refused = 0, last = 0;
	struct client client;
	int err = client_connect(&client, target);

	if (err)
		return complain("connect", err);
	(void)setrlimit(RLIMIT_NOFILE, &descriptors);
	for (long i = 0; i < most && time_left(target); i++) {
		int fd = receiver(i ? 0 : target->to.sin_port);

		err = fd < 0 ? fd : ring_ask(&client, KTSN_APP_RECEIVE_OPEN, fd);
		if (!err)
			err = ring_claim(&client);
		opened += !err;
		refused += err != 0;
		last = err ? -err : last;
	}
	result_print("opened", opened);
	result_print("refused", refused);
	result_print("errno", last);
	while (time_left(target))
		usleep(NAP_US);
	client_close(&client);
	return 0;
}

/* Closes the descriptors of the last reply's ring. */
static void ring_forget(struct client *client)
{
	for (int i = 0; i < 2; i++) {
		if (client->receive_fds[i] >= 0)
			close(client->receive_fds[i]);
		client->receive_fds[i] = -1;
	}
}

/* Opens the ring of one socket repeatedly; opens and gives back those of others. */
static int mode_receive_churn(const struct target *target)
{
	int fd = receiver(target->to.sin_port), err;
	long requested = 0, opened = 0;
	struct client client;

	err = fd < 0 ? fd : client_connect(&client, target);
	if (err)
		return complain("connect", err);
	for (; time_left(target) && err != -ECONNRESET; requested++) {
		int other = requested % 2 ? receiver(0) : fd;

		err = ring_ask(&client, KTSN_APP_RECEIVE_OPEN, other);
		opened += !err;
		ring_forget(&client);
		if (other == fd)
			continue;
		(void)ring_ask(&client, KTSN_APP_RECEIVE_CLOSE, other);
		close(other);
	}
	result_print("asked", requested);
	result_print("opened", opened);
	client_close(&client);
	close(fd);
	return 0;
}

const struct mode receive_modes[] = {
	{"receive", mode_receive, "opens COUNT receive rings, and reads none"},
	{"receive-churn", mode_receive_churn, "opens and returns receive rings, repeatedly"},
	{0},
};
