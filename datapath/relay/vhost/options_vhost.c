/* SPDX-License-Identifier: Apache-2.0 */
#include "options_vhost.h"

#include "option_table.h"
#include "version.h"

#include <sys/un.h>

/* The socket is created under a name that is longer by this suffix. */
enum { PATH_BYTES_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(".new") };

static const struct option_word classes[] = {
	{"record", CLASS_BY_RECORD}, {"pcp", CLASS_BY_PCP}, {"queue", CLASS_BY_QUEUE}, {NULL, 0}};

#define FIELD(member) OPTION_FIELD(struct vhost_options, member)

static const struct option_spec specs[] = {
	{"vhost-socket", "PATH",
	 "the socket of vhost-user at which it listens; a socket that its predecessor left is replaced",
	 OPTION_PATH, FIELD(vhost_socket), .required = true, .maximum = PATH_BYTES_MAX},
	{"connect", NULL, "connect to that socket instead: the front end listens", OPTION_SET,
	 FIELD(connects)},
	{"class", "HOW",
	 "source of a frame's priority: the record in front of it (record, the default), its 802.1Q tag "
	 "(pcp), or the queue pair in which it comes (queue)",
	 OPTION_WORD, FIELD(class_by), .words = classes},
	{"records", NULL,
	 "frames may have a record with a transmit time in front; without this option, they are dropped",
	 OPTION_SET, FIELD(records)},
	{"packet-fd", "N",
	 "a packet socket that is bound to the endpoint's interface, by which ktsnd knows that interface",
	 OPTION_FD, FIELD(packet_fd), .required = true},
	{"link-fd", "N",
	 "another, bound with ETH_P_ALL: it receives the frames for the virtual machine, and sends frames "
	 "that are not for ktsnd, unless there is --past-fd",
	 OPTION_FD, FIELD(link_fd), .required = true},
	{"past-fd", "N", "a tap with a header of virtio, which sends frames that are not for ktsnd",
	 OPTION_FD, FIELD(past_fd)},
	{"socket-dir-fd", "N", "the folder of the pod's application socket", OPTION_FD, FIELD(socket_dir_fd),
	 .required = true},
	{"socket-name", "NAME", "that socket's name in the folder", OPTION_FILE_NAME, FIELD(socket_name),
	 .required = true},
	{"counters-fd", "N", "a file in memory for its counters", OPTION_FD, FIELD(counters_fd),
	 .required = true},
};

static const struct option_table table = {
	.program = "ktsn-relay-vhost",
	.version = "ktsn-relay-vhost " KTSN_VERSION_TEXT,
	.usage = "--vhost-socket PATH [--connect] [--class record|pcp|queue] [--records]\n"
		 "                        --packet-fd N --link-fd N [--past-fd N] --socket-dir-fd N\n"
		 "                        --socket-name NAME --counters-fd N",
	.about = "Passes the frames that a virtual machine sends to ktsnd, which sends them at their times, "
		 "and frames for the virtual machine to it. It is the back end of vhost-user.",
	.notes = "ktsn-relay-vhost runs until SIGTERM or SIGINT.",
	.specs = specs,
	.spec_count = sizeof(specs) / sizeof(specs[0]),
};

int vhost_options_parse(int argc, char **argv, struct vhost_options *options)
{
	*options = (struct vhost_options){
		.packet_fd = -1, .link_fd = -1, .past_fd = -1, .socket_dir_fd = -1, .counters_fd = -1};
	return option_table_read(&table, argc, argv, options);
}
