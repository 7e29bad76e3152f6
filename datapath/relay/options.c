/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "option_table.h"
#include "version.h"

#include <errno.h>
#include <stdio.h>

#define FIELD(member) OPTION_FIELD(struct relay_options, member)

static const struct option_spec specs[] = {
	{"source-fd", "N", "the tap from which it reads frames, each after a struct virtio_net_hdr",
	 OPTION_FD, FIELD(source_fd), .required = true},
	{"packet-fd", "N",
	 "a packet socket that is bound to the pod's interface, by which ktsnd knows that interface",
	 OPTION_FD, FIELD(packet_fd), .required = true},
	{"socket-dir-fd", "N", "the folder of the pod's application socket", OPTION_FD, FIELD(socket_dir_fd),
	 .required = true},
	{"socket-name", "NAME", "that socket's name in the folder", OPTION_FILE_NAME, FIELD(socket_name),
	 .required = true},
	{"counters-fd", "N", "a file in memory for its counters", OPTION_FD, FIELD(counters_fd),
	 .required = true},
	{"all", NULL, "pass on frames without a transmit time, too, and renew the heartbeat", OPTION_SET,
	 FIELD(all)},
	{"heartbeat-fd", "N", "with --all: the map of the capture that holds the heartbeat", OPTION_FD,
	 FIELD(heartbeat_fd)},
};

static const struct option_table table = {
	.program = "ktsn-relay",
	.version = "ktsn-relay " KTSN_VERSION_TEXT,
	.usage = "--source-fd N --packet-fd N --socket-dir-fd N --socket-name NAME\n"
		 "                  --counters-fd N [--all --heartbeat-fd N]",
	.about = "Passes frames that were captured on a pod's interface to ktsnd, which sends them at their "
		 "times. ktsn-agent or `ktsn node relay` starts it with open file descriptors for everything "
		 "that it needs; it opens nothing itself.",
	.notes = "ktsn-relay runs until SIGTERM or SIGINT.",
	.specs = specs,
	.spec_count = sizeof(specs) / sizeof(specs[0]),
};

int relay_options_parse(int argc, char **argv, struct relay_options *options)
{
	int result;

	*options = (struct relay_options){
		.source_fd = -1, .packet_fd = -1, .socket_dir_fd = -1, .heartbeat_fd = -1, .counters_fd = -1};
	result = option_table_read(&table, argc, argv, options);
	if (result || !options->all || options->heartbeat_fd >= 0)
		return result;
	fprintf(stderr, "ktsn-relay: --heartbeat-fd is missing; see ktsn-relay --help\n");
	return -EINVAL;
}
