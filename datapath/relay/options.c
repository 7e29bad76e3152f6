/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "option_values.h"
#include "version.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>

static const char help[] =
	"Usage: ktsn-relay --source-fd N --packet-fd N --socket-dir-fd N --socket-name NAME\n"
	"                  --counters-fd N [--all --heartbeat-fd N]\n"
	"\n"
	"Hands frames that were captured on a pod's interface to ktsnd, which sends them at their times. It "
	"is\n"
	"started with all that it needs as open file descriptors, by ktsn-agent or `ktsn node relay`, and "
	"opens\n"
	"nothing itself.\n"
	"\n"
	"  --source-fd N       the tap from which it reads frames, each behind a struct virtio_net_hdr\n"
	"  --packet-fd N       a packet socket that is bound to the pod's interface: for ktsnd it stands for "
	"it\n"
	"  --socket-dir-fd N   the folder of the pod's application socket\n"
	"  --socket-name NAME  that socket's name in the folder\n"
	"  --counters-fd N     a file in memory for what it counts\n"
	"  --all               hand over frames without a transmit time, too, and renew the heartbeat\n"
	"  --heartbeat-fd N    with --all: the map of the capture in which the heartbeat is\n"
	"  --help, --version\n"
	"\n"
	"ktsn-relay runs until SIGTERM or SIGINT.\n";

enum option_id {
	SOURCE_FD = 256,
	PACKET_FD,
	SOCKET_DIR_FD,
	SOCKET_NAME,
	COUNTERS_FD,
	ALL,
	HEARTBEAT_FD,
	HELP,
	VERSION,
};

static const struct option long_options[] = {
	{"source-fd", required_argument, NULL, SOURCE_FD},
	{"packet-fd", required_argument, NULL, PACKET_FD},
	{"socket-dir-fd", required_argument, NULL, SOCKET_DIR_FD},
	{"socket-name", required_argument, NULL, SOCKET_NAME},
	{"counters-fd", required_argument, NULL, COUNTERS_FD},
	{"all", no_argument, NULL, ALL},
	{"heartbeat-fd", required_argument, NULL, HEARTBEAT_FD},
	{"help", no_argument, NULL, HELP},
	{"version", no_argument, NULL, VERSION},
	{NULL, 0, NULL, 0},
};

static int option_take(enum option_id id, struct relay_options *options)
{
	switch (id) {
	case SOURCE_FD:
		return option_fd_parse("source-fd", optarg, &options->source_fd);
	case PACKET_FD:
		return option_fd_parse("packet-fd", optarg, &options->packet_fd);
	case SOCKET_DIR_FD:
		return option_fd_parse("socket-dir-fd", optarg, &options->socket_dir_fd);
	case SOCKET_NAME:
		return option_name_parse(optarg, &options->socket_name);
	case COUNTERS_FD:
		return option_fd_parse("counters-fd", optarg, &options->counters_fd);
	case HEARTBEAT_FD:
		return option_fd_parse("heartbeat-fd", optarg, &options->heartbeat_fd);
	case ALL:
		options->all = true;
		return 0;
	case HELP:
		fputs(help, stdout);
		return 1;
	case VERSION:
		puts("ktsn-relay " KTSN_VERSION_TEXT);
		return 1;
	}
	fprintf(stderr, "See ktsn-relay --help.\n");
	return -EINVAL;
}

/* The first that is missing. */
static const char *missing(const struct relay_options *options)
{
	if (options->source_fd < 0)
		return "--source-fd";
	if (options->packet_fd < 0)
		return "--packet-fd";
	if (options->socket_dir_fd < 0)
		return "--socket-dir-fd";
	if (!options->socket_name)
		return "--socket-name";
	if (options->counters_fd < 0)
		return "--counters-fd";
	return options->all && options->heartbeat_fd < 0 ? "--heartbeat-fd" : NULL;
}

static int complete(const struct relay_options *options)
{
	const char *name = missing(options);

	if (name)
		fprintf(stderr, "ktsn-relay: %s is missing; see ktsn-relay --help\n", name);
	return name ? -EINVAL : 0;
}

int relay_options_parse(int argc, char **argv, struct relay_options *options)
{
	int id, err = 0;

	*options = (struct relay_options){-1, -1, -1, -1, -1, NULL, false};
	while (!err && (id = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		err = option_take((enum option_id)id, options);
	if (!err && optind < argc) {
		fprintf(stderr, "ktsn-relay: unexpected argument \"%s\"; see ktsn-relay --help\n",
			argv[optind]);
		err = -EINVAL;
	}
	return err ? err : complete(options);
}
