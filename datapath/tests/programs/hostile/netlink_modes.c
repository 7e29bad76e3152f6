/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a pod with CAP_NET_ADMIN to the netlink sockets that ktsnd has in the pod's network namespace.
 */
#include "modes.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORTS_MAX = 64 };

/* Lists netlink sockets of other processes from the kernel: address, protocol, port. */
static int ports_find(uint32_t own, uint32_t ports[PORTS_MAX])
{
	FILE *file = fopen("/proc/self/net/netlink", "re");
	unsigned int protocol, port;
	char line[256];
	int count = 0;

	while (file && count < PORTS_MAX && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %u %u", &protocol, &port) == 2 && protocol == NETLINK_ROUTE && port &&
		    port != own)
			ports[count++] = port;
	if (file)
		fclose(file);
	return count;
}

/* Message types that end or continue a dump, or are notifications, with sequence numbers that may match. */
static int forge(int fd, uint32_t port, uint32_t groups, uint32_t number)
{
	static const uint16_t types[] = {NLMSG_NOOP, RTM_NEWADDR, RTM_NEWLINK,
					 NLMSG_DONE, NLMSG_ERROR, RTM_NEWNEIGH};
	struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_pid = port, .nl_groups = groups};
	struct {
		struct nlmsghdr header;
		uint8_t body[64];
	} message = {.header = {.nlmsg_len = sizeof(message),
				.nlmsg_type = types[number % (sizeof(types) / sizeof(types[0]))],
				.nlmsg_flags = NLM_F_MULTI,
				.nlmsg_seq = number / 8,
				.nlmsg_pid = port}};

	return sendto(fd, &message, sizeof(message), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) < 0
		       ? -errno
		       : 0;
}

static uint32_t own_port(int fd)
{
	struct sockaddr_nl self = {.nl_family = AF_NETLINK};
	socklen_t bytes = sizeof(self);

	if (bind(fd, (struct sockaddr *)&self, sizeof(self)) ||
	    getsockname(fd, (struct sockaddr *)&self, &bytes))
		return 0;
	return self.nl_pid;
}

static int mode_netlink(const struct target *target)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	const uint32_t groups = RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR;
	uint32_t own = own_port(fd), ports[PORTS_MAX], number = 0;
	long listed = 0, taken = 0, sockets = 0;

	while (time_left(target)) {
		int count = ports_find(own, ports);

		sockets = count > sockets ? count : sockets;
		for (int round = 0; round < 256; round++)
			for (int i = 0; i < count; i++)
				taken += forge(fd, ports[i], 0, number++) == 0;
		listed += forge(fd, 0, groups, number++) == 0;
	}
	result_print("sockets", sockets);
	result_print("tried", (long)number);
	result_print("taken", taken);
	result_print("told", listed);
	return 0;
}

const struct mode netlink_modes[] = {
	{"netlink", mode_netlink, "sends forged netlink to ktsnd's sockets (CAP_NET_ADMIN)"},
	{0},
};
