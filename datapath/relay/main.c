/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-relay hands captured frames of a pod to ktsnd, as an application of the pod.
 */
#include "log.h"
#include "options.h"
#include "relay.h"
#include "sandbox.h"
#include "source_tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Its size is that of the frames that may wait. Unused pages take no memory. */
static struct relay relay;
static struct source_tap tap;

static int failed(const char *operation, int err, const char *advice)
{
	fprintf(stderr, "ktsn-relay: %s: %s; %s\n", operation, strerror(-err), advice);
	return err;
}

/* Makes the source non-blocking. */
static int source_prepare(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

static int counters_prepare(int fd)
{
	int err = relay_counters_open(fd, &relay.counters);

	if (err == -EPROTO)
		return failed("--counters-fd", err,
			      "it is another file, or of another release; pass a new one");
	return err ? failed("--counters-fd", err, "pass a file in memory, open for reading and writing") : 0;
}

/* Makes the folder of the socket the current one, so that the socket needs no path. */
static int prepare(const struct relay_options *options)
{
	int err = source_prepare(options->source_fd);

	if (err)
		return failed("--source-fd", err, "pass a tap, open for reading");
	if (fchdir(options->socket_dir_fd))
		return failed("--socket-dir-fd", -errno, "pass the folder of the pod's application socket");
	err = counters_prepare(options->counters_fd);
	if (!err && options->all) {
		err = relay_heartbeat_map(options->heartbeat_fd, &relay.heartbeat);
		if (err)
			return failed("--heartbeat-fd", err, "pass the map \"heartbeat\" of the capture");
	}
	return err;
}

static int begin(const struct relay_options *options)
{
	int err = prepare(options);

	if (err)
		return err;
	relay.all = options->all;
	relay.bypass.fd = -1;
	source_tap_init(&tap, options->source_fd);
	relay.source = &tap.source;
	relay.setup = (struct session_setup){
		.socket_name = options->socket_name,
		.packet_fd = options->packet_fd,
		.counters = relay.counters,
		.version_oldest = KTSN_APP_VERSION_OLDEST,
		.version_newest = KTSN_APP_VERSION,
	};
	err = relay_init(&relay);
	if (err)
		return failed("cannot begin", err, "see the limits of open files and memory");
	err = sandbox_enter();
	return err ? failed("cannot limit itself", err, "the kernel needs CONFIG_SECCOMP_FILTER") : 0;
}

int main(int argc, char **argv)
{
	struct relay_options options;
	int err;

	/* A program that is started by a descriptor is named after the descriptor's number. */
	(void)prctl(PR_SET_NAME, relay_program, 0, 0, 0);
	err = relay_options_parse(argc, argv, &options);
	if (err)
		return err > 0 ? 0 : 2;
	if (begin(&options))
		return 1;
	err = relay_run(&relay);
	if (err)
		failed("reading frames", err, "the tap is gone");
	return err ? 1 : 0;
}
