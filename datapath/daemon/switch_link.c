/* SPDX-License-Identifier: Apache-2.0 */
#include "switch_link.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	/* Open vSwitch connects once a second, and on busy processors takes longer to set the device up. */
	AWAIT_MS = 4000,
	/* From the connection until all threads of Open vSwitch poll the device. */
	FETCHES_MS = 300,
	POLL_MS = 10,
	/* A polling thread that was interrupted, or that adds a device, continues within this time. */
	DRAIN_MS = 1000,
};

int switch_link_init(struct switch_link *link, const char *path)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	pthread_mutex_init(&link->lock, NULL);
	link->path = path;
	link->changes = (struct event_source){.fd = fd};
	return 0;
}

/* Wakes the control thread. Fails only when the counter is full, and after switch_link_fini(). */
static void changes_notify(const struct switch_link *link)
{
	if (eventfd_write(link->changes.fd, 1))
		return;
}

void switch_link_changed(bool connected, void *context)
{
	struct switch_link *link = context;

	pthread_mutex_lock(&link->lock);
	atomic_store(&link->connected, connected);
	if (link->loop)
		loop_link_set(link->loop, connected);
	changes_notify(link);
	pthread_mutex_unlock(&link->lock);
}

void switch_link_withdrawn(uint32_t frames, uint32_t astray, void *context)
{
	struct switch_link *link = context;

	pthread_mutex_lock(&link->lock);
	if (link->loop)
		loop_frames_withdrawn(link->loop, frames);
	atomic_fetch_add(&link->withdrawn, frames);
	atomic_fetch_add(&link->astray, astray);
	changes_notify(link);
	pthread_mutex_unlock(&link->lock);
}

bool switch_link_await(const struct switch_link *link)
{
	int connected_ms = 0;

	for (int waited_ms = 0; connected_ms < FETCHES_MS; waited_ms += POLL_MS) {
		if (waited_ms >= AWAIT_MS)
			return false;
		usleep(POLL_MS * 1000);
		connected_ms = atomic_load(&link->connected) ? connected_ms + POLL_MS : 0;
	}
	return true;
}

void switch_link_drain(struct switch_link *link, uint32_t (*unfetched)(const struct ktsn_port *port),
		       const struct ktsn_port *port)
{
	int64_t end_ms = clock_monotonic_ms() + DRAIN_MS;
	uint32_t left = unfetched(port), withdrawn;

	while (left > 0 && clock_monotonic_ms() < end_ms) {
		usleep(POLL_MS * 1000);
		left = unfetched(port);
	}
	if (left > 0)
		log_warning("Open vSwitch has not fetched the last %u frames: they may be lost, and count "
			    "as sent unless they were withdrawn; see `ktsn ovs status`",
			    left);
	/* The loop has ended and does not count these. */
	withdrawn = atomic_exchange(&link->withdrawn, 0);
	if (withdrawn > 0)
		log_warning(
			"Open vSwitch fetched nothing while ktsnd ended: the last %u frames were withdrawn "
			"after --stale-after, and counted as sent",
			withdrawn);
}

static void changes_log(struct switch_link *link)
{
	bool connected = atomic_load(&link->connected);
	uint32_t withdrawn = atomic_exchange(&link->withdrawn, 0);
	uint32_t astray = atomic_load(&link->astray);

	if (astray && !link->astray_logged)
		log_error(
			"%u frames in the queue of Open vSwitch do not lie in buffers of ktsnd and were not "
			"overwritten: ovs-vswitchd changed the queue; check it, and restart it (this is "
			"logged once)",
			astray);
	link->astray_logged = astray > 0;
	if (withdrawn)
		log_warning(
			"Open vSwitch fetches nothing: the last %u frames are withdrawn (drop-stale), and "
			"messages that are due wait for --stale-after",
			withdrawn);
	if (connected && !link->logged)
		log_info("Open vSwitch is connected to %s", link->path);
	else if (!connected)
		log_warning("Open vSwitch is not connected to %s: messages that are due are dropped until "
			    "it is; see `ktsn ovs status`",
			    link->path);
	link->logged = connected;
}

static void changes_readable(struct event_source *source)
{
	struct switch_link *link = source->owner;
	eventfd_t count;

	if (eventfd_read(source->fd, &count) == 0)
		changes_log(link);
}

int switch_link_watch(struct switch_link *link, struct loop *loop, struct events *events, bool connected)
{
	link->changes.readable = changes_readable;
	link->changes.owner = link;
	pthread_mutex_lock(&link->lock);
	link->loop = loop;
	pthread_mutex_unlock(&link->lock);
	/* A later change is reported after this one. */
	switch_link_changed(connected, link);
	return events_add(events, &link->changes);
}

void switch_link_fini(struct switch_link *link)
{
	if (link->changes.fd <= 0)
		return;
	pthread_mutex_lock(&link->lock);
	link->loop = NULL;
	close(link->changes.fd);
	link->changes.fd = -1;
	pthread_mutex_unlock(&link->lock);
}
