/* SPDX-License-Identifier: Apache-2.0 */
#include "options_vhost.h"

#include "log.h"
#include "option_values.h"
#include "version.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static const char help[] =
	"Usage: ktsn-relay-vhost --vhost-socket PATH [--connect] [--class record|pcp|queue] [--records]\n"
	"                        --packet-fd N --link-fd N [--past-fd N] --socket-dir-fd N --socket-name "
	"NAME\n"
	"                        --counters-fd N\n"
	"\n"
	"Hands the frames that a virtual machine sends to ktsnd, which sends them at their times, and frames "
	"that\n"
	"come for it to the virtual machine. It is the back end of vhost-user.\n"
	"\n"
	"  --vhost-socket PATH  the socket of vhost-user, at which it listens; what a predecessor left is "
	"replaced\n"
	"  --connect            connect to that socket instead: the front end listens\n"
	"  --class HOW          what says the priority of a frame: the record in front of it (record, which "
	"is the\n"
	"                       default), its 802.1Q tag (pcp), or the queue pair in which it comes (queue)\n"
	"  --records            frames may have a record with a transmit time in front; without, they are "
	"dropped\n"
	"  --packet-fd N        a packet socket that is bound to the endpoint's interface: for ktsnd it "
	"stands for it\n"
	"  --link-fd N          another, bound with ETH_P_ALL: from it come the frames for the virtual "
	"machine, and\n"
	"                       by it leaves what is not for ktsnd, unless there is --past-fd\n"
	"  --past-fd N          a tap with a header of virtio, by which leaves what is not for ktsnd\n"
	"  --socket-dir-fd N    the folder of the pod's application socket\n"
	"  --socket-name NAME   that socket's name in the folder\n"
	"  --counters-fd N      a file in memory for what it counts\n"
	"  --help, --version\n"
	"\n"
	"ktsn-relay-vhost runs until SIGTERM or SIGINT.\n";

enum option_id {
	VHOST_SOCKET = 256,
	CONNECT,
	CLASS,
	RECORDS,
	PACKET_FD,
	LINK_FD,
	PAST_FD,
	SOCKET_DIR_FD,
	SOCKET_NAME,
	COUNTERS_FD,
	HELP,
	VERSION,
};

static const struct option long_options[] = {
	{"vhost-socket", required_argument, NULL, VHOST_SOCKET},
	{"connect", no_argument, NULL, CONNECT},
	{"class", required_argument, NULL, CLASS},
	{"records", no_argument, NULL, RECORDS},
	{"packet-fd", required_argument, NULL, PACKET_FD},
	{"link-fd", required_argument, NULL, LINK_FD},
	{"past-fd", required_argument, NULL, PAST_FD},
	{"socket-dir-fd", required_argument, NULL, SOCKET_DIR_FD},
	{"socket-name", required_argument, NULL, SOCKET_NAME},
	{"counters-fd", required_argument, NULL, COUNTERS_FD},
	{"help", no_argument, NULL, HELP},
	{"version", no_argument, NULL, VERSION},
	{NULL, 0, NULL, 0},
};

/* Absolute, because the current folder becomes another; with room for what is behind it at first. */
static int path_parse(const char *text, const char **path)
{
	const size_t bytes_max = sizeof(((struct sockaddr_un *)0)->sun_path) - strlen(".new");

	if (text[0] != '/' || strlen(text) >= bytes_max) {
		fprintf(stderr,
			"ktsn-relay-vhost: --vhost-socket: \"%s\" is no absolute path of less than %zu "
			"bytes\n",
			text, bytes_max);
		return -EINVAL;
	}
	*path = text;
	return 0;
}

static int class_parse(const char *text, enum class_by *by)
{
	int err = class_by_parse(text, by);

	if (err)
		fprintf(stderr, "ktsn-relay-vhost: --class: \"%s\" is none of record, pcp, queue\n", text);
	return err;
}

static int option_take(enum option_id id, struct vhost_options *options)
{
	switch (id) {
	case VHOST_SOCKET:
		return path_parse(optarg, &options->vhost_socket);
	case CONNECT:
		options->connects = true;
		return 0;
	case CLASS:
		return class_parse(optarg, &options->class_by);
	case RECORDS:
		options->records = true;
		return 0;
	case PACKET_FD:
		return option_fd_parse("packet-fd", optarg, &options->packet_fd);
	case LINK_FD:
		return option_fd_parse("link-fd", optarg, &options->link_fd);
	case PAST_FD:
		return option_fd_parse("past-fd", optarg, &options->past_fd);
	case SOCKET_DIR_FD:
		return option_fd_parse("socket-dir-fd", optarg, &options->socket_dir_fd);
	case SOCKET_NAME:
		return option_name_parse(optarg, &options->socket_name);
	case COUNTERS_FD:
		return option_fd_parse("counters-fd", optarg, &options->counters_fd);
	case HELP:
		fputs(help, stdout);
		return 1;
	case VERSION:
		puts("ktsn-relay-vhost " KTSN_VERSION_TEXT);
		return 1;
	}
	fprintf(stderr, "See ktsn-relay-vhost --help.\n");
	return -EINVAL;
}

/* The first that is missing. */
static const char *missing(const struct vhost_options *options)
{
	if (!options->vhost_socket)
		return "--vhost-socket";
	if (options->packet_fd < 0)
		return "--packet-fd";
	if (options->link_fd < 0)
		return "--link-fd";
	if (options->socket_dir_fd < 0)
		return "--socket-dir-fd";
	if (!options->socket_name)
		return "--socket-name";
	return options->counters_fd < 0 ? "--counters-fd" : NULL;
}

static int complete(const struct vhost_options *options)
{
	const char *name = missing(options);

	if (name)
		fprintf(stderr, "ktsn-relay-vhost: %s is missing; see ktsn-relay-vhost --help\n", name);
	return name ? -EINVAL : 0;
}

int vhost_options_parse(int argc, char **argv, struct vhost_options *options)
{
	int id, err = 0;

	*options = (struct vhost_options){
		.packet_fd = -1, .link_fd = -1, .past_fd = -1, .socket_dir_fd = -1, .counters_fd = -1};
	while (!err && (id = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		err = option_take((enum option_id)id, options);
	if (!err && optind < argc) {
		fprintf(stderr, "ktsn-relay-vhost: unexpected argument \"%s\"; see ktsn-relay-vhost --help\n",
			argv[optind]);
		err = -EINVAL;
	}
	return err ? err : complete(options);
}
