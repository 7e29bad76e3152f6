/* SPDX-License-Identifier: Apache-2.0 */
#include "front_end.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

enum { DESCRIPTORS = 1024, BUFFERS = 16383, BUFFERS_CACHED = 256 };

static uint16_t device;
static struct rte_mempool *pool;

static int eal_begin(const char *path, int pairs, bool listens)
{
	char device_argument[256], prefix[48], lcores[32];
	const char *args[] = {
		"ktsn-test-guest",   "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",  lcores,
		"--log-level=error", "-m",        "128",      prefix,           device_argument};

	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", sched_getcpu());
	snprintf(prefix, sizeof(prefix), "--file-prefix=ktsn-guest-%d", (int)getpid());
	snprintf(device_argument, sizeof(device_argument),
		 "--vdev=net_virtio_user0,path=%s,queues=%d,queue_size=%d,server=%d", path, pairs,
		 DESCRIPTORS, listens);
	return rte_eal_init(sizeof(args) / sizeof(args[0]), (char **)args) < 0 ? -1 : 0;
}

static int queues_begin(int pairs)
{
	/* With link interrupts the device notices when the back end connects and disconnects. */
	const struct rte_eth_conf conf = {.intr_conf = {.lsc = 1}};
	int err = rte_eth_dev_configure(device, (uint16_t)pairs, (uint16_t)pairs, &conf);

	for (int i = 0; i < pairs && !err; i++) {
		err = rte_eth_rx_queue_setup(device, (uint16_t)i, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool);
		if (!err)
			err = rte_eth_tx_queue_setup(device, (uint16_t)i, DESCRIPTORS, SOCKET_ID_ANY, NULL);
	}
	return err ? err : rte_eth_dev_start(device);
}

int front_end_begin(const char *path, int pairs, bool listens)
{
	cpu_set_t before;
	int err;

	/* DPDK does not remove it, and a killed process leaves its own. */
	if (listens)
		(void)unlink(path);
	/* It pins the thread, which may then run on any allowed processor again. */
	sched_getaffinity(0, sizeof(before), &before);
	err = eal_begin(path, pairs, listens);
	sched_setaffinity(0, sizeof(before), &before);
	if (err)
		return err;
	pool = rte_pktmbuf_pool_create("frames", BUFFERS, BUFFERS_CACHED, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
				       SOCKET_ID_ANY);
	if (!pool || rte_eth_dev_count_avail() != 1)
		return -1;
	device = (uint16_t)rte_eth_find_next(0);
	return queues_begin(pairs);
}

bool front_end_is_connected(void)
{
	struct rte_eth_link link = {0};

	return rte_eth_link_get_nowait(device, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

static struct rte_mbuf *frame_make(const uint8_t *frame, uint16_t bytes)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
	void *room = mbuf ? rte_pktmbuf_append(mbuf, bytes) : NULL;

	if (room)
		memcpy(room, frame, bytes);
	return mbuf;
}

void front_end_send(int pair, const uint8_t *frame, uint16_t bytes)
{
	struct rte_mbuf *mbuf = frame_make(frame, bytes);

	while (mbuf && rte_eth_tx_burst(device, (uint16_t)pair, &mbuf, 1) == 0)
		usleep(100);
}

int front_end_flood(int pair, const uint8_t *frame, uint16_t bytes)
{
	struct rte_mbuf *mbufs[FRONT_END_BURST];
	uint16_t sent;

	if (rte_pktmbuf_alloc_bulk(pool, mbufs, FRONT_END_BURST))
		return 0;
	for (int i = 0; i < FRONT_END_BURST; i++)
		memcpy(rte_pktmbuf_append(mbufs[i], bytes), frame, bytes);
	sent = rte_eth_tx_burst(device, (uint16_t)pair, mbufs, FRONT_END_BURST);
	rte_pktmbuf_free_bulk(mbufs + sent, (unsigned int)(FRONT_END_BURST - sent));
	return sent;
}

uint16_t front_end_receive(int pair, uint8_t frame[FRONT_END_FRAME_BYTES])
{
	struct rte_mbuf *mbuf;
	const void *bytes;
	uint16_t count;

	if (rte_eth_rx_burst(device, (uint16_t)pair, &mbuf, 1) == 0)
		return 0;
	count = mbuf->pkt_len <= FRONT_END_FRAME_BYTES ? (uint16_t)mbuf->pkt_len : 0;
	bytes = rte_pktmbuf_read(mbuf, 0, count, frame);
	if (bytes && bytes != frame)
		memcpy(frame, bytes, count);
	rte_pktmbuf_free(mbuf);
	return count;
}
