/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-relay-vhost: hands the frames of a virtual machine to ktsnd, as an application of the pod, and
 * delivers frames to it. A separate program because librte_vhost creates threads and needs system calls that
 * the relay of captured frames (../main.c) is denied.
 */
#include "backend.h"
#include "captured_frame.h"
#include "log.h"
#include "options_vhost.h"
#include "relay.h"
#include "sandbox.h"
#include "source_vhost.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/if_packet.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_mbuf.h>

/* Its size is that of the frames that may wait. Unused pages take no memory. */
static struct relay relay;
static struct source_vhost source;

static int failed(const char *operation, int err, const char *advice)
{
	fprintf(stderr, "ktsn-relay-vhost: %s: %s; %s\n", operation, strerror(-err), advice);
	return err;
}

/* Ends the relay when the front end has shortened its memory while it was read. The program that started the
 * relay starts another one. */
static void memory_shortened(int signal)
{
	static const char message[] =
		"ktsn-relay-vhost: the guest's memory disappeared while a frame was read; the relay ends\n";

	(void)signal;
	(void)!write(STDERR_FILENO, message, sizeof(message) - 1);
	_exit(1);
}

/* ---- DPDK ---- */

enum {
	MEMORY_MB = 32, /* the pool, and what librte_vhost stores of a guest */
	BUFFERS = 511,  /* two bursts, and the cache of the thread */
	BUFFERS_CACHED = 128,
};

/* The last message of DPDK during its start, logged only if that fails: DPDK also reports what the relay does
 * not need, such as a folder for other processes. */
static char start_message[256];
static bool has_started;

/* Called once per message; DPDK holds a lock of the stream. */
static ssize_t log_write(void *nothing, const char *text, size_t bytes)
{
	size_t line = bytes;

	(void)nothing;
	while (line && text[line - 1] == '\n')
		line--;
	if (line && has_started)
		relay_log("DPDK: %.*s", (int)line, text);
	else if (line)
		snprintf(start_message, sizeof(start_message), "%.*s", (int)line, text);
	return (ssize_t)bytes;
}

static int log_begin(void)
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});

	return stream ? rte_openlog_stream(stream) : -ENOMEM;
}

/* Returns a processor on which the calling thread may run: DPDK pins the thread to it. */
static int processor(const cpu_set_t *allowed)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, allowed))
			return cpu;
	return 0;
}

static int eal_init(const cpu_set_t *allowed)
{
	char lcores[32], memory[16], prefix[48];
	const char *args[] = {"ktsn-relay-vhost",
			      "--no-huge",
			      "--no-pci",
			      "--no-telemetry",
			      "--no-shconf",
			      "--log-level=error",
			      lcores,
			      prefix,
			      "-m",
			      memory};

	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", processor(allowed));
	snprintf(prefix, sizeof(prefix), "--file-prefix=ktsn-relay-%d", (int)getpid());
	snprintf(memory, sizeof(memory), "%d", MEMORY_MB);
	return rte_eal_init(sizeof(args) / sizeof(args[0]), (char **)args) < 0 ? -rte_errno : 0;
}

/* Removes the folder for secondary processes, of which there are none, and the one above it if that is empty.
 */
static void runtime_dir_remove(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", rte_eal_get_runtime_dir());
	if (*path && rmdir(path) == 0)
		(void)rmdir(dirname(path));
}

/* Starts DPDK, which starts a thread of its own, with ordinary memory: no device, no hugepage, no file that
 * stays. Creates the pool, whose buffers have room for FRAME_BYTES_MAX. Messages of DPDK go to the relay's
 * log and its limits. 0 or -errno. */
static int eal_begin(struct rte_mempool **pool)
{
	cpu_set_t before;
	int err = log_begin();

	if (err)
		return err;
	/* Other arenas need system calls that the sandbox refuses. */
	(void)mallopt(M_ARENA_MAX, 1);
	CPU_ZERO(&before);
	pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
	err = eal_init(&before);
	pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	runtime_dir_remove();
	has_started = true;
	if (err) {
		relay_log("DPDK: %s", start_message);
		return err;
	}
	*pool = rte_pktmbuf_pool_create("frames", BUFFERS, BUFFERS_CACHED, 0,
					RTE_PKTMBUF_HEADROOM + FRAME_BYTES_MAX, SOCKET_ID_ANY);
	return *pool ? 0 : -rte_errno;
}

/* ---- start ---- */

static int interface_address_get(int packet_fd, uint8_t address[ETH_ALEN])
{
	struct sockaddr_ll bound = {0};
	socklen_t bytes = sizeof(bound);

	if (getsockname(packet_fd, (struct sockaddr *)&bound, &bytes))
		return -errno;
	if (bound.sll_family != AF_PACKET || bound.sll_halen != ETH_ALEN)
		return -EINVAL;
	memcpy(address, bound.sll_addr, ETH_ALEN);
	return 0;
}

/* Makes the folder of the socket the current one, so that the socket needs no path. */
static int descriptors_prepare(const struct vhost_options *options, struct source_vhost_setup *setup)
{
	int err = interface_address_get(options->packet_fd, setup->address);

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

/* Drops capabilities before there are other threads, which would keep theirs. */
static int guest_prepare(const struct vhost_options *options, struct source_vhost_setup *setup)
{
	const struct sigaction action = {.sa_handler = memory_shortened};
	int err = sandbox_vhost_prepare();

	if (!err && sigaction(SIGBUS, &action, NULL))
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
