/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-hostile: a pod that is hostile in one of several ways, for tests that other pods are not
 * affected.
 */
#include "modes.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct mode {
	const char *name;
	int (*run)(const struct target *target);
	const char *help;
} modes[] = {
	{"scribble", mode_scribble, "writes random bytes over its ring"},
	{"lie", mode_lie, "publishes slots whose fields are wrong"},
	{"race", mode_race, "changes fields while they are read"},
	{"flood", mode_flood, "sends as many messages as fit, due at once"},
	{"distant", mode_distant, "sends as many messages as fit, due in 1.9 s"},
	{"punch", mode_punch, "takes pages away from its ring"},
	{"collapse", mode_collapse, "moves the pages of its ring"},
	{"keep", mode_keep, "hangs up and keeps the ring, again and again"},
	{"sparse", mode_sparse, "hands back large memory of its own in which nothing is"},
	{"stall", mode_stall, "asks and reads no replies, or stops half-way"},
	{"many", mode_many, "opens as many connections, rings and sockets as it can"},
	{"bell", mode_bell, "rings its doorbell without end, and makes it block"},
	{"churn", mode_churn, "connects, sends and closes, over and over"},
	{"linger", mode_linger, "passes sockets whose close would wait"},
	{"notifier", mode_notifier,
	 "queues sockets whose close would wait on the notifier that it handed over"},
	{"locked", mode_locked, "passes a socket whose lock it holds"},
	{"unread", mode_unread, "leaves such sockets in connections that nobody has read"},
	{"ask", mode_ask, "asks politely, and says how long the longest answer took"},
	{"watchers", mode_watchers, "watches its doorbell COUNT times, and rings it"},
	{"watchers-close", mode_watchers_close, "the same, and has ktsnd close it"},
	{"sleepers", mode_sleepers, "has COUNT threads and watchers wait for space"},
	{"pollers", mode_pollers, "has COUNT sockets wait for each slot that becomes free"},
	{"receivers", mode_receivers, "receives with COUNT sockets on one port, members if ADDR is a group"},
	{"receivers-filter", mode_receivers_filter, "the same, each with an expensive filter"},
	{"steady", mode_steady, "sends to the target every COUNT us"},
	{"group", mode_group, "sends to a group, once a millisecond"},
	{"handback", mode_handback, "hands rings back again and again"},
	{"netlink", mode_netlink, "sends forged netlink to ktsnd's sockets (CAP_NET_ADMIN)"},
	{"foreign", mode_foreign, "hands over a socket of the network namespace that it runs in"},
	{"receive", mode_receive, "opens COUNT receive rings, and reads none"},
	{"receive-churn", mode_receive_churn, "opens receive rings and gives them back, over and over"},
	{"audience", mode_audience, "watches its connection COUNT times, and asks"},
	{"folder", mode_folder, "watches the folder of its socket COUNT times (dnotify, inotify)"},
	{"immortal", mode_immortal, "has ktsnd close what waits for what ktsnd has yet to read"},
	{"immortal2", mode_immortal2, "the same, with all the rings that it can get behind it"},
	{"fuse", mode_fuse, "the same with a file of FUSE and its server, which no signal interrupts"},
	{"fuse-ring", mode_fuse_ring, "the same with the file as a ring that is handed back"},
	{"faulted", mode_faulted, "passes a socket whose lock a page fault holds (userfaultfd)"},
	{"ends", mode_ends, "puts the ends of COUNT connections into each other"},
	{"refill", mode_refill, "sends lingering sockets into its connections, also when it is removed"},
	{"returns", mode_returns, "passes what ktsnd gave it, as everything that can be passed"},
	{"register", mode_register, "registers its socket anew, over and over"},
	{"arp", mode_arp, "answers ARP for all pods (this and the following: CAP_NET_RAW, on tsn0)"},
	{"nd", mode_nd, "does the same by neighbour discovery of IPv6"},
	{"fdb", mode_fdb, "sends from the hardware addresses of other pods"},
	{"fragments", mode_fragments, "sends overlapping fragments of IPv4 as any pod"},
	{"extensions", mode_extensions, "sends chains of IPv6 extension headers"},
	{"membership", mode_membership, "joins any number of groups, as any pod, and asks for members"},
	{"neighbours", mode_neighbours, "has others answer to any number of addresses"},
	{"vxlan", mode_vxlan, "sends packets of a tunnel inside the tunnel"},
	{"bridge", mode_bridge, "speaks to bridges: spanning tree, pause, aggregation, LLDP"},
};

enum { MODES = sizeof(modes) / sizeof(modes[0]) };

void result_print(const char *name, long number)
{
	printf("%s %ld\n", name, number);
	fflush(stdout);
}

int complain(const char *label, int err)
{
	fprintf(stderr, "ktsn-test-hostile: cannot %s: %s\n", label, strerror(-err));
	return -1;
}

static int usage(void)
{
	fprintf(stderr, "Usage: ktsn-test-hostile MODE SOCKET ADDR PORT SECONDS [COUNT]\n\nMODE is one of\n");
	for (int i = 0; i < MODES; i++)
		fprintf(stderr, "  %-14s %s\n", modes[i].name, modes[i].help);
	return 2;
}

int main(int argc, char **argv)
{
	struct target target = {.to = {.sin_family = AF_INET}};

	if ((argc != 6 && argc != 7) || inet_pton(AF_INET, argv[3], &target.to.sin_addr) != 1)
		return usage();
	target.path = argv[2];
	target.to.sin_port = htons((uint16_t)atoi(argv[4]));
	target.count = argc == 7 ? atol(argv[6]) : 0;
	target.length_ns = (int64_t)(atof(argv[5]) * 1e9);
	for (int i = 0; i < MODES; i++)
		if (strcmp(argv[1], modes[i].name) == 0)
			return modes[i].run(&target) ? 1 : 0;
	return usage();
}
