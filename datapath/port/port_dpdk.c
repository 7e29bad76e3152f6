/* SPDX-License-Identifier: Apache-2.0 */
#include "port_dpdk.h"

#include "packet_ring.h"
#include "vhost_first.h"
#include "vhost_left.h"
#include "vhost_stall.h"
#include "warm_up.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>
#include <rte_thread.h>

enum {
	EAL_ARGS_MAX = 16,
	TX_DESCRIPTORS = 512,
	/* Frames in each of the two queues that Open vSwitch shares with ktsnd. */
	VHOST_DESCRIPTORS = KTSN_PORT_DPDK_WITHDRAWN_MAX,
	VHOST_ATTEMPTS = 3, /* of VHOST_ANSWER_MS each */
	/*
	 * Frames in the af_packet transmit ring. On a veth the other end reads a frame's bytes from this ring
	 * until the receiver has taken the datagram, so the ring must be longer than the receiver's queue.
	 */
	AF_PACKET_FRAMES = 2048,
	AF_PACKET_FRAME_OVERHEAD_BYTES = 128, /* tpacket2_hdr, sockaddr_ll, alignment */
	OWN_LINK_MS = 1000, /* how long to wait at most until ktsnd's own connection has ended */
	MEMORY_FLOOR_MB = 64,
	POOL_CACHE = 256,
};

struct port_dpdk {
	struct ktsn_port port;
	struct rte_mempool *pool;
	uint16_t id;
	uint64_t errors_seen;
	struct packet_ring packet_ring; /* of net_af_packet; empty for other devices */
	struct warm_up *warm_up;        /* NULL for a device that does not send through the kernel */
	bool watched;                   /* the port is for Open vSwitch, which connects and disconnects */
	struct vhost_stall stall;       /* if `watched` */
	uintptr_t *buffers;             /* of the pool, in ascending order; if `watched` */
	/* The path with which the socket for Open vSwitch was created: the file may have been renamed. */
	char vhost_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	void (*connected)(bool connected, void *context); /* may be NULL */
	void (*withdrawn)(uint32_t frames, uint32_t astray, void *context);
	void *context;
};

static struct port_dpdk *dpdk_of(struct ktsn_port *port)
{
	return (struct port_dpdk *)port;
}

static int frame_alloc(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(dpdk_of(port)->pool);

	if (!mbuf)
		return -ENOBUFS;
	frame->handle = mbuf;
	frame->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
	frame->capacity_bytes = rte_pktmbuf_tailroom(mbuf);
	frame->bytes = 0;
	return 0;
}

static void frame_free(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	(void)port;
	rte_pktmbuf_free(frame->handle);
}

/* Frames that the device counted as failed since the last call. */
static uint32_t new_errors(struct port_dpdk *dpdk)
{
	struct rte_eth_stats stats;
	uint64_t added;

	if (rte_eth_stats_get(dpdk->id, &stats))
		return 0;
	added = stats.oerrors - dpdk->errors_seen;
	dpdk->errors_seen = stats.oerrors;
	return (uint32_t)added;
}

/* The last frames that net_af_packet took may not have left: the caller owns them again. */
static uint32_t frames_withdraw(struct port_dpdk *dpdk, struct rte_mbuf **mbufs, uint32_t taken)
{
	uint32_t sent = taken - packet_ring_withdraw(&dpdk->packet_ring, taken);

	rte_pktmbuf_free_bulk(mbufs, sent);
	return sent;
}

static uint32_t frames_send(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
			    uint32_t *errors)
{
	bool withdrawable = dpdk_of(port)->packet_ring.slots != NULL;
	struct rte_mbuf *mbufs[KTSN_PORT_BURST];
	uint32_t sent;

	*errors = 0;
	if (vhost_stalled(&dpdk_of(port)->stall))
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		mbufs[i] = frames[i].handle;
		mbufs[i]->data_len = (uint16_t)frames[i].bytes;
		mbufs[i]->pkt_len = frames[i].bytes;
		/* DPDK frees a frame when it is in the ring. */
		if (withdrawable)
			rte_mbuf_refcnt_update(mbufs[i], 1);
	}
	sent = rte_eth_tx_burst(dpdk_of(port)->id, 0, mbufs, (uint16_t)count);
	*errors = new_errors(dpdk_of(port));
	if (*errors > sent)
		*errors = sent;
	if (!withdrawable)
		return sent;
	/* DPDK counts frames as errors that the kernel did not take, and these are withdrawn below. */
	*errors = 0;
	for (uint32_t i = sent; i < count; i++)
		rte_mbuf_refcnt_update(mbufs[i], -1);
	return frames_withdraw(dpdk_of(port), mbufs, sent);
}

static void warm_up(struct ktsn_port *port)
{
	if (dpdk_of(port)->warm_up)
		warm_up_once(dpdk_of(port)->warm_up);
}

static void thread_attach(struct ktsn_port *port)
{
	(void)port;
	/* Gives the thread a cache of the buffer pool. Without it the pool works too, but slower. */
	(void)rte_thread_register();
}

static void destroy(struct ktsn_port *port)
{
	struct port_dpdk *dpdk = dpdk_of(port);

	if (dpdk->watched)
		vhost_stall_end(&dpdk->stall);
	packet_ring_close(&dpdk->packet_ring);
	(void)rte_eth_dev_stop(dpdk->id);
	(void)rte_eth_dev_close(dpdk->id);
	rte_mempool_free(dpdk->pool);
	(void)rte_eal_cleanup();
	warm_up_destroy(dpdk->warm_up);
	free(dpdk->buffers);
	free(dpdk);
}

static const struct ktsn_port_ops ops = {
	.frame_alloc = frame_alloc,
	.frame_free = frame_free,
	.send = frames_send,
	.warm_up = warm_up,
	.thread_attach = thread_attach,
	.destroy = destroy,
};

/* The smallest power of two that holds a frame of this link. */
static uint32_t af_packet_frame_bytes(uint32_t link_mtu_bytes)
{
	uint32_t bytes = 2048;

	while (bytes < link_mtu_bytes + AF_PACKET_FRAME_OVERHEAD_BYTES)
		bytes *= 2;
	return bytes;
}

static void device_argument(const struct ktsn_port_dpdk_config *config, char *argument, size_t bytes)
{
	uint32_t frame_bytes = af_packet_frame_bytes(config->link_mtu_bytes);
	uint32_t block_bytes = frame_bytes < 4096 ? 4096 : frame_bytes;

	if (!config->device)
		snprintf(argument, bytes,
			 "--vdev=net_af_packet0,iface=%s,qdisc_bypass=1,framesz=%u,blocksz=%u,framecnt=%u",
			 config->interface, frame_bytes, block_bytes, AF_PACKET_FRAMES);
	else if (strncmp(config->device, "net_", 4) == 0)
		snprintf(argument, bytes, "--vdev=%s", config->device);
	else
		snprintf(argument, bytes, "--allow=%s", config->device);
}

/* Size of one buffer: drivers require that they can receive into it, though the port receives nothing. */
static uint32_t buffer_bytes(const struct ktsn_port_dpdk_config *config)
{
	uint32_t receive_bytes = af_packet_frame_bytes(config->link_mtu_bytes);

	return config->buffer_bytes > receive_bytes ? config->buffer_bytes : receive_bytes;
}

/* A virtual device keeps buffers in its queues, even after it sent them. */
static uint32_t buffer_count(const struct ktsn_port_dpdk_config *config)
{
	return config->buffer_count + (config->vhost_path ? 2 * VHOST_DESCRIPTORS : 0);
}

/* Memory for the buffer pool, in MB, with room for DPDK's own structures. */
static uint32_t memory_mb(const struct ktsn_port_dpdk_config *config)
{
	uint64_t pool_bytes = (uint64_t)buffer_count(config) *
			      (buffer_bytes(config) + RTE_PKTMBUF_HEADROOM + sizeof(struct rte_mbuf) + 128);

	return MEMORY_FLOOR_MB + (uint32_t)(pool_bytes >> 20);
}

/* A processor on which the calling thread may run: DPDK pins it there, and a cpuset may lack both processor 0
 * and the configured one. */
static int lcore_processor(const struct ktsn_port_dpdk_config *config, const cpu_set_t *allowed)
{
	if (config->cpu >= 0 && CPU_ISSET(config->cpu, allowed))
		return config->cpu;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, allowed))
			return cpu;
	return 0; /* unknown: more processors than a cpu_set_t has */
}

static int eal_start(const struct ktsn_port_dpdk_config *config, const cpu_set_t *allowed)
{
	char device[512] = "", lcores[32], memory[16], prefix[48];
	const char *args[EAL_ARGS_MAX] = {"ktsnd", "--no-telemetry", "--no-shconf", "--log-level=error"};
	int count = 4;

	/* The device for vhost-user is created after DPDK has started. */
	if (!config->vhost_path)
		device_argument(config, device, sizeof(device));
	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", lcore_processor(config, allowed));
	snprintf(memory, sizeof(memory), "%u", memory_mb(config));
	snprintf(prefix, sizeof(prefix), "--file-prefix=ktsnd-%d", (int)getpid());
	if (!config->vhost_path)
		args[count++] = device;
	args[count++] = lcores;
	args[count++] = prefix;
	/* Ordinary pages suffice where no device reads the memory itself. */
	if (config->vhost_path || strncmp(device, "--vdev", 6) == 0) {
		args[count++] = "--no-huge";
		args[count++] = "--no-pci";
	}
	args[count++] = "-m";
	args[count++] = memory;
	return rte_eal_init(count, (char **)args) < 0 ? -rte_errno : 0;
}

/* DPDK creates a folder for secondary processes, of which there are none, and never removes it. This removes
 * it at once, so that nothing is left if ktsnd is killed. It is empty, and its parent may be empty, too. */
static void runtime_dir_remove(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", rte_eal_get_runtime_dir());
	if (*path && rmdir(path) == 0)
		(void)rmdir(dirname(path));
}

/* DPDK pins the thread that initializes it; this restores the caller's affinity. */
static int eal_start_unpinned(const struct ktsn_port_dpdk_config *config)
{
	cpu_set_t before;
	int err;

	CPU_ZERO(&before);
	pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
	err = eal_start(config, &before);
	pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	runtime_dir_remove();
	return err;
}

bool ktsn_port_dpdk_connected(const struct ktsn_port *port)
{
	const struct port_dpdk *dpdk = (const struct port_dpdk *)port;
	struct rte_eth_link link = {0};

	/* Reads the state from the last interrupt, without a request to the device. */
	return !dpdk->watched ||
	       (rte_eth_link_get_nowait(dpdk->id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP);
}

/* The transmit ring that ktsnd shares with Open vSwitch; NULL: there is none. */
static struct vhost_descriptor *vhost_ring(const struct port_dpdk *dpdk)
{
	const struct rte_memzone *ring;
	char name[RTE_MEMZONE_NAMESIZE];

	/* DPDK's name for the memory of the transmit queue of a virtio device. */
	snprintf(name, sizeof(name), "port%u_vq1", dpdk->id);
	ring = dpdk->watched ? rte_memzone_lookup(name) : NULL;
	return ring && ring->len >= VHOST_DESCRIPTORS * sizeof(struct vhost_descriptor) ? ring->addr : NULL;
}

uint32_t ktsn_port_dpdk_unfetched(const struct ktsn_port *port)
{
	struct vhost_descriptor *ring = vhost_ring((const struct port_dpdk *)port);

	return ring ? vhost_left(ring, VHOST_DESCRIPTORS) : 0;
}

static struct vhost_descriptor *connected_ring(void *context)
{
	struct port_dpdk *dpdk = context;

	return ktsn_port_dpdk_connected(&dpdk->port) ? vhost_ring(dpdk) : NULL;
}

static void withdrawn(uint32_t frames, uint32_t astray, void *context)
{
	struct port_dpdk *dpdk = context;

	if (dpdk->withdrawn)
		dpdk->withdrawn(frames, astray, dpdk->context);
}

/* DPDK's own header is not part of a buffer: the frame comes after it. */
static void buffer_add(struct rte_mempool *pool, void *context, void *mbuf, unsigned int index)
{
	const struct vhost_buffers *buffers = context;

	(void)pool;
	if (index < buffers->count)
		((uintptr_t *)buffers->first)[index] = (uintptr_t)mbuf + sizeof(struct rte_mbuf);
}

static int address_compare(const void *a, const void *b)
{
	uintptr_t first = *(const uintptr_t *)a, second = *(const uintptr_t *)b;

	return first < second ? -1 : first > second;
}

/* Collects the addresses of all buffers. The pool's own list is in memory that Open vSwitch can write. */
static int buffers_collect(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config)
{
	uint32_t count = buffer_count(config);

	dpdk->buffers = calloc(count, sizeof(*dpdk->buffers));
	if (!dpdk->buffers)
		return -ENOMEM;
	dpdk->stall.buffers = (struct vhost_buffers){
		.first = dpdk->buffers, .count = count, .bytes = buffer_bytes(config) + RTE_PKTMBUF_HEADROOM};
	rte_mempool_obj_iter(dpdk->pool, buffer_add, &dpdk->stall.buffers);
	qsort(dpdk->buffers, count, sizeof(*dpdk->buffers), address_compare);
	return 0;
}

static int link_changed(uint16_t id, enum rte_eth_event_type event, void *context, void *nothing)
{
	struct port_dpdk *dpdk = context;
	bool connected = ktsn_port_dpdk_connected(&dpdk->port);

	(void)id;
	(void)event;
	(void)nothing;
	/* A connection that is ended for renewal goes down again, and only that is reported. */
	if (dpdk->connected && !(connected && vhost_renew_due(dpdk->vhost_path)))
		dpdk->connected(connected, dpdk->context);
	return 0;
}

static int link_watch(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config)
{
	dpdk->watched = true;
	snprintf(dpdk->vhost_path, sizeof(dpdk->vhost_path), "%s", config->vhost_path);
	dpdk->connected = config->connected;
	dpdk->withdrawn = config->withdrawn;
	dpdk->context = config->context;
	return rte_eth_dev_callback_register(dpdk->id, RTE_ETH_EVENT_INTR_LSC, link_changed, dpdk);
}

/* DPDK refuses to unregister while the interrupt thread runs the callback. */
static void link_unwatch(struct port_dpdk *dpdk)
{
	while (rte_eth_dev_callback_unregister(dpdk->id, RTE_ETH_EVENT_INTR_LSC, link_changed, dpdk) ==
	       -EAGAIN)
		usleep(1000);
}

static int device_find(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config)
{
	uint32_t cache;

	if (rte_eth_dev_count_avail() != 1)
		return -ENODEV;
	dpdk->id = (uint16_t)rte_eth_find_next(0);
	/* A pool must hold half as much again as the cache of one thread. */
	cache = config->buffer_count / 2 < POOL_CACHE ? config->buffer_count / 2 : POOL_CACHE;
	dpdk->pool = rte_pktmbuf_pool_create("ktsn-frames", buffer_count(config), cache, 0,
					     (uint16_t)(buffer_bytes(config) + RTE_PKTMBUF_HEADROOM),
					     (int)rte_socket_id());
	if (!dpdk->pool)
		return -rte_errno;
	return config->vhost_path ? buffers_collect(dpdk, config) : 0;
}

static int device_start(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config)
{
	struct rte_eth_conf conf = {.intr_conf = {.lsc = config->vhost_path ? 1 : 0}};
	int err;

	/* Drivers require a receive queue. Nothing reads it: the kernel receives. */
	err = rte_eth_dev_configure(dpdk->id, 1, 1, &conf);
	if (!err)
		err = rte_eth_rx_queue_setup(dpdk->id, 0, TX_DESCRIPTORS, SOCKET_ID_ANY, NULL, dpdk->pool);
	if (!err)
		err = rte_eth_tx_queue_setup(dpdk->id, 0, TX_DESCRIPTORS, SOCKET_ID_ANY, NULL);
	if (!err && config->vhost_path)
		err = link_watch(dpdk, config);
	return err ? err : rte_eth_dev_start(dpdk->id);
}

/* This side is the server, so that either side may be restarted while the other runs on. Packed queues
 * restart with each connection: otherwise frames left in them would leave at the next connection, seconds
 * late. */
static int vhost_device_create(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config)
{
	char arguments[PATH_MAX + 64];

	(void)dpdk;
	snprintf(arguments, sizeof(arguments), "path=%s,server=1,packed_vq=1,queue_size=%u",
		 config->vhost_path, VHOST_DESCRIPTORS);
	return rte_eal_hotplug_add("vdev", "net_virtio_user0", arguments);
}

/* Runs a step in which DPDK sends requests to Open vSwitch. -ETIMEDOUT: Open vSwitch is connected and does
 * not answer. */
static int step_with_timeout(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config,
			     int (*step)(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config))
{
	struct vhost_answer *answer;
	int err = vhost_answer_begin(&answer, config->vhost_path);

	if (err)
		return err;
	err = step(dpdk, config);
	return vhost_answer_end(answer) && err ? -ETIMEDOUT : err;
}

static int vhost_device_begin(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config)
{
	int err = vhost_first_begin(config->vhost_path);

	if (err)
		return err;
	err = step_with_timeout(dpdk, config, vhost_device_create);
	if (!err)
		err = device_find(dpdk, config);
	if (!err)
		err = step_with_timeout(dpdk, config, device_start);
	vhost_first_end(config->vhost_path);
	return err;
}

static int vhost_device_start(struct port_dpdk *dpdk, const struct ktsn_port_dpdk_config *config)
{
	int err = vhost_device_begin(dpdk, config);

	/* Tries again if there is no device yet: then ktsnd's own connection may be the first. */
	for (int i = 1; i < VHOST_ATTEMPTS && err == -ETIMEDOUT && !dpdk->pool; i++) {
		(void)unlink(config->vhost_path);
		err = vhost_device_begin(dpdk, config);
	}
	/* If it was ktsnd's own connection, waits until it has ended, so that it is not reported. */
	for (int i = 0;
	     i < OWN_LINK_MS && !err && vhost_first_connected() && ktsn_port_dpdk_connected(&dpdk->port); i++)
		usleep(1000);
	if (err)
		return err;
	dpdk->stall.ring = connected_ring;
	dpdk->stall.withdrawn = withdrawn;
	dpdk->stall.context = dpdk;
	dpdk->stall.ring_count = VHOST_DESCRIPTORS;
	dpdk->stall.stale_after_ns = config->stale_after_ns;
	return vhost_stall_begin(&dpdk->stall);
}

/* The last line of DPDK's log: the cause of the failure. */
static void last_line(const char *log, char *reason, size_t reason_bytes)
{
	size_t end = strlen(log);
	size_t start;

	while (end > 0 && log[end - 1] == '\n')
		end--;
	for (start = end; start > 0 && log[start - 1] != '\n'; start--)
		;
	snprintf(reason, reason_bytes, "%.*s", (int)(end - start), log + start);
}

static bool through_kernel(const struct ktsn_port_dpdk_config *config)
{
	return !config->device && !config->vhost_path;
}

static int port_open(struct port_dpdk **opened, const struct ktsn_port_dpdk_config *config)
{
	struct port_dpdk *dpdk = calloc(1, sizeof(*dpdk));
	int err;

	if (!dpdk)
		return -ENOMEM;
	dpdk->port.ops = &ops;
	err = eal_start_unpinned(config);
	if (!err) {
		err = config->vhost_path ? vhost_device_start(dpdk, config) : device_find(dpdk, config);
		if (!err && !config->vhost_path)
			err = device_start(dpdk, config);
		if (!err && through_kernel(config))
			err = packet_ring_open(&dpdk->packet_ring, config->interface,
					       af_packet_frame_bytes(config->link_mtu_bytes),
					       AF_PACKET_FRAMES);
		/* DPDK's interrupt thread still runs: it must not use freed memory. */
		if (err && dpdk->watched)
			link_unwatch(dpdk);
		if (err)
			(void)rte_eal_cleanup();
	}
	if (err) {
		free(dpdk->buffers);
		free(dpdk);
		return err;
	}
	if (through_kernel(config))
		(void)warm_up_create(&dpdk->warm_up);
	*opened = dpdk;
	return 0;
}

int ktsn_port_dpdk_create(struct ktsn_port **port, const struct ktsn_port_dpdk_config *config, char *reason,
			  size_t reason_bytes)
{
	struct port_dpdk *dpdk;
	char *log = NULL;
	size_t log_bytes;
	FILE *stream = open_memstream(&log, &log_bytes);
	int err;

	if (!stream)
		return -errno;
	rte_openlog_stream(stream);
	err = port_open(&dpdk, config);
	/* The callback `connected` reports that Open vSwitch connects and disconnects. */
	rte_openlog_stream(!err && dpdk->watched ? vhost_renew_log() : NULL);
	fclose(stream);
	if (!err)
		*port = &dpdk->port;
	else
		last_line(log, reason, reason_bytes);
	if (err && !*reason)
		snprintf(reason, reason_bytes, "%s", strerror(-err));
	free(log);
	return err;
}
