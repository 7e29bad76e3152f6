/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-relay-vhost: hands the frames of a virtual machine to ktsnd, as an application of the pod's, and gives
 * it those that come for it. A program of its own, because librte_vhost makes threads and needs system calls
 * that the relay of captured frames (../main.c) is denied.
 */
#include "backend.h"
#include "eal.h"
#include "log.h"
#include "options_vhost.h"
#include "relay.h"
#include "sandbox_vhost.h"
#include "source_vhost.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Its size is what the frames that may wait take; pages that are not used are not there. */
static struct relay relay;
static struct source_vhost source;

static int failed(const char *what, int err, const char *advice)
{
	fprintf(stderr, "ktsn-relay-vhost: %s: %s; %s\n", what, strerror(-err), advice);
	return err;
}

/* The front end has made its memory shorter while it was read. There is no way to go on, and no harm in
 * ending: whoever started this process starts another. */
static void memory_gone(int signal)
{
	static const char sentence[] =
		"ktsn-relay-vhost: the guest's memory is gone under a frame; the relay ends\n";

	(void)signal;
	(void)!write(STDERR_FILENO, sentence, sizeof(sentence) - 1);
	_exit(1);
}

static int own_address_get(int packet_fd, uint8_t own[ETH_ALEN])
{
	struct sockaddr_ll bound = {0};
	socklen_t bytes = sizeof(bound);

	if (getsockname(packet_fd, (struct sockaddr *)&bound, &bytes))
		return -errno;
	if (bound.sll_family != AF_PACKET || bound.sll_halen != ETH_ALEN)
		return -EINVAL;
	memcpy(own, bound.sll_addr, ETH_ALEN);
	return 0;
}

/* The folder is the current one from here on, so that no path leads to the socket. */
static int descriptors_prepare(const struct vhost_options *options, struct source_vhost_setup *setup)
{
	int err = own_address_get(options->packet_fd, setup->own);

	if (err)
		return failed("--packet-fd", err, "pass a packet socket that is bound to an interface");
	err = deliver_prepare(options->link_fd);
	if (err)
		return failed("--link-fd", err, "pass a packet socket that is bound to the interface");
	if (options->past_fd >= 0 && fcntl(options->past_fd, F_SETFL, O_NONBLOCK))
		return failed("--past-fd", -errno, "pass a tap, open for writing");
	if (fchdir(options->socket_dir_fd))
		return failed("--socket-dir-fd", -errno, "pass the folder of the pod's application socket");
	err = relay_counters_open(options->counters_fd, &relay.counters);
	return err ? failed("--counters-fd", err, "pass a new file in memory, open for reading and writing")
		   : 0;
}

/* Capabilities go before there are other threads, which would keep theirs. */
static int guest_prepare(const struct vhost_options *options, struct source_vhost_setup *setup)
{
	const struct sigaction gone = {.sa_handler = memory_gone};
	int err = sandbox_vhost_prepare();

	if (!err && sigaction(SIGBUS, &gone, NULL))
		err = -errno;
	if (!err)
		err = relay_signals_block();
	if (err)
		return failed("cannot limit itself", err, "see its user and limits");
	err = eal_begin(&setup->pool);
	if (err)
		return failed("cannot start DPDK", err, "see the limits of memory");
	err = backend_begin(options->vhost_socket, options->connects);
	if (err)
		return failed(options->vhost_socket, err, "its folder must be writable for this user");
	err = source_vhost_init(&source, setup);
	return err ? failed("cannot begin", err, "see the limits of open files") : 0;
}

static int begin(const struct vhost_options *options)
{
	struct source_vhost_setup setup = {
		.class_by = options->class_by, .records = options->records, .link_fd = options->link_fd};
	int err = descriptors_prepare(options, &setup);

	if (!err)
		err = guest_prepare(options, &setup);
	if (err)
		return err;
	relay.all = true;
	relay.source = &source.source;
	relay.bypass.fd = options->past_fd >= 0 ? options->past_fd : options->link_fd;
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
	err = sandbox_vhost_enter();
	return err ? failed("cannot limit itself", err, "the kernel needs CONFIG_SECCOMP_FILTER") : 0;
}

int main(int argc, char **argv)
{
	struct vhost_options options;
	int err;

	relay_program = "ktsn-relay-vhost";
	/* The number of a descriptor, if it was started by one. */
	(void)prctl(PR_SET_NAME, relay_program, 0, 0, 0);
	err = vhost_options_parse(argc, argv, &options);
	if (err)
		return err > 0 ? 0 : 2;
	if (begin(&options))
		return 1;
	err = relay_run(&relay);
	/* Not by exit(): librte_vhost's threads go on until the end. */
	_exit(err ? 1 : 0);
}
