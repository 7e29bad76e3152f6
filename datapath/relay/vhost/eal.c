/* SPDX-License-Identifier: Apache-2.0 */
#include "eal.h"

#include "captured_frame.h"
#include "log.h"

#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_mbuf.h>

enum {
	MEMORY_MB = 32, /* the pool, and what librte_vhost notes of a guest */
	BUFFERS = 511,  /* two bursts, and what may lie in the cache of the thread */
	BUFFERS_CACHED = 128,
};

/* What DPDK said last while it began. It complains of what the relay has no use for, such as a folder for
 * other processes, so that only the end of it is logged, and only if it failed. */
static char beginning[256];
static bool has_begun;

/* One call a message; DPDK holds a lock of the stream meanwhile. */
static ssize_t log_write(void *nothing, const char *text, size_t bytes)
{
	size_t line = bytes;

	(void)nothing;
	while (line && text[line - 1] == '\n')
		line--;
	if (line && has_begun)
		relay_log("DPDK says: %.*s", (int)line, text);
	else if (line)
		snprintf(beginning, sizeof(beginning), "%.*s", (int)line, text);
	return (ssize_t)bytes;
}

static int log_begin(void)
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});

	return stream ? rte_openlog_stream(stream) : -ENOMEM;
}

/* One on which the calling thread may run: DPDK pins it there. */
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

/* For secondary processes, of which there are none; empty, and perhaps the one above it as well. */
static void runtime_dir_remove(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", rte_eal_get_runtime_dir());
	if (*path && rmdir(path) == 0)
		(void)rmdir(dirname(path));
}

int eal_begin(struct rte_mempool **pool)
{
	cpu_set_t before;
	int err = log_begin();

	if (err)
		return err;
	/* Further arenas would be made by system calls that the sandbox refuses. */
	(void)mallopt(M_ARENA_MAX, 1);
	CPU_ZERO(&before);
	pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
	err = eal_init(&before);
	pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	runtime_dir_remove();
	has_begun = true;
	if (err) {
		relay_log("DPDK says: %s", beginning);
		return err;
	}
	*pool = rte_pktmbuf_pool_create("frames", BUFFERS, BUFFERS_CACHED, 0,
					RTE_PKTMBUF_HEADROOM + FRAME_BYTES_MAX, SOCKET_ID_ANY);
	return *pool ? 0 : -rte_errno;
}
