/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that are expensive to receive: the kernel does the receiver's work in the context of the sender, and
 * every socket and filter adds to it. None of this needs a capability.
 */
#include "modes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	RECEIVERS = 1000,
	/* The length of the longest filter that fits into the default memory for socket options. */
	DIVISIONS = 2698,
	STEADY_EVERY_US = 1000,
	PAYLOAD_BYTES = 64,
};

/* Divides the largest number repeatedly and lets the datagram pass. */
static int filter_attach(int fd)
{
	static struct sock_filter filter[DIVISIONS + 2];
	const struct sock_fprog program = {.len = DIVISIONS + 2, .filter = filter};

	filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, UINT32_MAX);
	for (int i = 1; i <= DIVISIONS; i++)
		filter[i] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 1);
	filter[DIVISIONS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

/* Opens one of many sockets on the same port; joins the target if that is a group. */
static int receiver_open(const struct target *target, bool filtered)
{
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = target->to.sin_port};
	const struct ip_mreq group = {.imr_multiaddr = target->to.sin_addr};
	int on = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	err = bind(fd, (const struct sockaddr *)&any, sizeof(any)) ? -errno : 0;
	if (!err && IN_MULTICAST(ntohl(target->to.sin_addr.s_addr)) &&
	    setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)))
		err = -errno;
	if (!err && filtered)
		err = filter_attach(fd);
	if (err)
		close(fd);
	return err ? err : fd;
}

/* Opens as many as this process may have. Returns the number, or -errno. */
static long receivers_open(const struct target *target, bool filtered, long count)
{
	long opened = 0;

	for (; opened < count; opened++) {
		int fd = receiver_open(target, filtered);

		if (fd == -EMFILE && opened)
			break;
		if (fd < 0)
			return fd;
	}
	return opened;
}

/* Opens the rest in child processes, which end with this one. Returns when all are open. */
static int receivers_spread(const struct target *target, bool filtered, long count)
{
	long opened = receivers_open(target, filtered, count);
	char done;
	int ready[2];

	if (opened < 0)
		return complain("open a receiving socket", (int)opened);
	if (opened == count)
		return 0;
	/* From here on no descriptor is left for a pipe except those of the input and output. */
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	if (pipe(ready))
		return complain("make a pipe", -errno);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Its inherited copies would prevent it from opening any. */
		for (int fd = STDERR_FILENO + 1; fd < STDERR_FILENO + 1 + opened; fd++)
			close(fd);
		if (receivers_spread(target, filtered, count - opened))
			_exit(1);
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	return read(ready[0], &done, 1) == 1 ? 0 : -1;
}

static int receivers_run(const struct target *target, bool filtered)
{
	const long count = target->count ? target->count : RECEIVERS;
	struct rlimit descriptors;

	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
		descriptors.rlim_cur = descriptors.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &descriptors);
	}
	result_print("sockets", count);
	if (receivers_spread(target, filtered, count))
		return -1;
	while (time_left(target))
		usleep(10000);
	return 0;
}

static int mode_receivers(const struct target *target)
{
	return receivers_run(target, false);
}

static int mode_receivers_filter(const struct target *target)
{
	return receivers_run(target, true);
}

/* To the target: a pod, a group, or the broadcast address. */
static int mode_steady(const struct target *target)
{
	const long every_us = target->count ? target->count : STEADY_EVERY_US;
	struct client client;
	long messages = 0;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	for (; time_left(target); messages++) {
		client_publish(&client, (uint32_t)messages % client.slot_count, now_ns(CLOCK_TAI) + 300000,
			       PAYLOAD_BYTES);
		client_ring(&client);
		usleep((useconds_t)every_us);
	}
	result_print("messages", messages);
	client_close(&client);
	return 0;
}

const struct mode receiver_modes[] = {
	{"receivers", mode_receivers, "receives with COUNT sockets on one port, members if ADDR is a group"},
	{"receivers-filter", mode_receivers_filter, "the same, each with an expensive filter"},
	{"steady", mode_steady, "sends to the target every COUNT us"},
	{0},
};
