/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and frees a loop: its memory, shapers and descriptors. The main thread, before and after the loop's
 * thread.
 */
#include "loop.h"

#include "loop_state.h"
#include "realtime.h"
#include "withdrawals.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int egress_create(struct egress *egress, struct ktsn_port *port,
			 const struct ktsn_shaper_config *config)
{
	void *memory = realtime_alloc(ktsn_shaper_bytes());

	if (!memory)
		return -ENOMEM;
	egress->port = port;
	egress->shaper = ktsn_shaper_init(memory, config);
	return 0;
}

static int egresses_create(struct loop *loop)
{
	struct ktsn_shaper_config config = {
		.strategy = loop->config.strategy,
		.link_speed_bps = loop->config.link_speed_bps,
		.guard_band_ns = loop->config.guard_band_ns,
		.delta_ns = loop->config.delta_ns,
		.tolerance_ns = loop->config.late_after_ns,
	};
	int err = egress_create(&loop->egress[EGRESS_UPLINK], loop->config.port, &config);

	config.link_speed_bps = 0;
	return err ? err : egress_create(&loop->egress[EGRESS_BRIDGE], loop->config.bridge_port, &config);
}

static int packets_create(struct loop *loop)
{
	uint32_t packets = loop->config.packets;

	loop->pool.packets = realtime_alloc(packets * sizeof(*loop->pool.packets));
	if (!loop->pool.packets)
		return -ENOMEM;
	for (uint32_t i = packets; i-- > 0;) {
		loop->pool.packets[i].next = loop->pool.free;
		loop->pool.free = &loop->pool.packets[i];
	}
	loop->pool.free_count = packets;
	return 0;
}

static int events_create(struct loop *loop)
{
	struct epoll_event kick = {.events = EPOLLIN, .data.ptr = NULL};

	loop->wait.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->wait.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->retired.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->notifications.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wait.epoll_fd < 0 || loop->wait.kick_fd < 0 || loop->retired.fd < 0 ||
	    loop->notifications.fd < 0)
		return -errno;
	return epoll_ctl(loop->wait.epoll_fd, EPOLL_CTL_ADD, loop->wait.kick_fd, &kick) ? -errno : 0;
}

static void loop_free(struct loop *loop)
{
	if (loop->wait.epoll_fd >= 0)
		close(loop->wait.epoll_fd);
	if (loop->wait.kick_fd >= 0)
		close(loop->wait.kick_fd);
	if (loop->retired.fd >= 0)
		close(loop->retired.fd);
	if (loop->notifications.fd >= 0)
		close(loop->notifications.fd);
	if (loop->rest.schedstat_fd >= 0)
		close(loop->rest.schedstat_fd);
	/* A shaper begins where its memory begins. */
	for (int i = 0; i < EGRESSES; i++)
		free(loop->egress[i].shaper);
	free(loop->pool.packets);
	departures_fini(&loop->departures);
	withdrawals_fini(&loop->withdrawals);
	free(loop);
}

struct loop_classes loop_classes_default(void)
{
	struct loop_classes classes;

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		classes.pcp[class] = (uint8_t)(class > 1 ? class : 1 - class);
	for (unsigned int priority = 0; priority < LOOP_PRIORITIES; priority++)
		classes.of_priority[priority] = classes.pcp[priority % KTSN_CLASSES];
	return classes;
}

int loop_create(struct loop **created, const struct loop_config *config)
{
	struct loop *loop = realtime_alloc(sizeof(*loop));
	int err;

	if (!loop)
		return -ENOMEM;
	loop->config = *config;
	ktsn_txtime_queue_init(&loop->watch.expectations);
	loop->quotas.next_tai_ns = loop->throttle.until_tai_ns = KTSN_SHAPER_NEVER;
	loop->shaping.strategy = config->strategy;
	loop->shaping.classes = loop_classes_default();
	loop->wait.lead_ns = config->spin_ns;
	loop->wait.epoll_fd = loop->wait.kick_fd = loop->retired.fd = loop->notifications.fd =
		loop->rest.schedstat_fd = -1;
	err = egresses_create(loop);
	if (!err)
		err = packets_create(loop);
	if (!err)
		err = departures_init(&loop->departures, config->departures);
	if (!err)
		err = withdrawals_init(&loop->withdrawals, config->withdrawn_max);
	if (!err)
		err = events_create(loop);
	if (err) {
		loop_free(loop);
		return err;
	}
	*created = loop;
	return 0;
}

void loop_destroy(struct loop *loop)
{
	if (loop)
		loop_free(loop);
}
