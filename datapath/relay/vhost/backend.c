/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_vhost.h>

#define BIT(n) (UINT64_C(1) << (n))

/*
 * Features of the device. The relay does not offer what it does not support: no checksum and no segment that
 * it would have to complete, no packed rings, no log of dirty memory, no memory behind an IOMMU of the guest.
 */
#define FEATURES                                                                                             \
	(BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_ANY_LAYOUT) | BIT(VIRTIO_NET_F_MRG_RXBUF) |                  \
	 BIT(VIRTIO_NET_F_MQ) | BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_CTRL_RX) |                      \
	 BIT(VIRTIO_NET_F_GUEST_ANNOUNCE) | BIT(VIRTIO_NET_F_MTU) | BIT(VIRTIO_RING_F_INDIRECT_DESC) |       \
	 BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VHOST_USER_F_PROTOCOL_FEATURES))
#define PROTOCOL_FEATURES                                                                                    \
	(BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_RARP) |                                   \
	 BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) | BIT(VHOST_USER_PROTOCOL_F_NET_MTU) |                         \
	 BIT(VHOST_USER_PROTOCOL_F_STATUS))

/* Under `lock`, except `generation`, which the relay's thread also reads without it. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t taken;
	int event_fd;
	int vid;
	/* Descriptors that the relay's thread has not taken yet. */
	struct {
		bool waits;
		int fd;
	} kick[GUEST_PAIRS_MAX];
	_Atomic uint64_t generation; /* counts changes */
	uint64_t seen;               /* those that the relay's thread knows */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .taken = PTHREAD_COND_INITIALIZER, .event_fd = -1, .vid = -1};

/* ---- librte_vhost's threads, with the lock ---- */

static void kick_put(int pair, int fd)
{
	if (shared.kick[pair].waits && shared.kick[pair].fd >= 0)
		close(shared.kick[pair].fd);
	shared.kick[pair].waits = true;
	shared.kick[pair].fd = fd;
}

/* Copies a kick descriptor: librte_vhost closes its own when the front end passes another one. */
static int kick_copy(int vid, int pair)
{
	struct rte_vhost_vring ring;

	if (rte_vhost_get_vhost_vring(vid, (uint16_t)guest_ring_from(pair), &ring) || ring.kickfd < 0)
		return -1;
	return fcntl(ring.kickfd, F_DUPFD_CLOEXEC, 0);
}

static void change_notify(void)
{
	const uint64_t count = 1;

	atomic_fetch_add_explicit(&shared.generation, 1, memory_order_release);
	(void)!write(shared.event_fd, &count, sizeof(count));
}

/* ---- librte_vhost's threads ---- */

static int guest_came(int vid)
{
	bool other;

	pthread_mutex_lock(&shared.lock);
	other = shared.vid >= 0 && shared.vid != vid;
	if (!other) {
		shared.vid = vid;
		for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++)
			kick_put(pair, kick_copy(vid, pair));
		change_notify();
	}
	pthread_mutex_unlock(&shared.lock);
	if (other)
		relay_log("a second front end is refused: one is connected already; end it first");
	else
		relay_log("a guest connected");
	return other ? -1 : 0;
}

/* The guest's memory is unmapped when this returns. No ring is locked here, because the relay's thread may be
 * about to lock one. */
static void guest_goes(int vid)
{
	uint64_t change;

	pthread_mutex_lock(&shared.lock);
	if (shared.vid != vid) {
		pthread_mutex_unlock(&shared.lock);
		return;
	}
	shared.vid = -1;
	for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++)
		kick_put(pair, -1);
	change_notify();
	change = atomic_load_explicit(&shared.generation, memory_order_relaxed);
	while (shared.seen < change)
		pthread_cond_wait(&shared.taken, &shared.lock);
	pthread_mutex_unlock(&shared.lock);
	relay_log("the guest disconnected");
}

/* The rings are locked here: nothing may wait for the relay's thread. librte_vhost does not use a disabled
 * ring. */
static int ring_changed(int vid, uint16_t ring, int enable)
{
	int pair = ring / 2;

	if (ring != guest_ring_from(pair))
		return 0;
	if (pair >= GUEST_PAIRS_MAX) {
		if (enable)
			relay_log("queue pair %d of the guest is not served; give it %d at most", pair,
				  GUEST_PAIRS_MAX);
		return 0;
	}
	pthread_mutex_lock(&shared.lock);
	if (shared.vid == vid) {
		kick_put(pair, enable ? kick_copy(vid, pair) : -1);
		change_notify();
	}
	pthread_mutex_unlock(&shared.lock);
	return 0;
}

/* ---- the memory of guests ---- */

/* True in the relay's thread, which maps the memory of its own descriptors. */
static _Thread_local bool is_relays;

/*
 * Replaces libc's mmap() for librte_vhost, which maps files that a front end passes. Only files in memory
 * (memfd, tmpfs, hugetlbfs) have seals, and reading seals asks no file system: one that does not answer would
 * block the relay at each access. The relay ends because librte_vhost continues to read the rings in the
 * former memory when it cannot map the next.
 */
void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
	if (fd >= 0 && shared.event_fd >= 0 && !is_relays && fcntl(fd, F_GET_SEALS) < 0) {
		relay_log("the front end passes memory that is no memfd and of no tmpfs or hugetlbfs; give "
			  "the virtual machine such memory; the relay ends");
		_exit(1);
	}
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is an address */
	return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}

/* ---- the relay's thread ---- */

int backend_event_fd(void)
{
	return shared.event_fd;
}

bool backend_changed(void)
{
	return atomic_load_explicit(&shared.generation, memory_order_acquire) != shared.seen;
}

bool backend_take(struct guest *guest)
{
	uint64_t count;
	bool another;

	pthread_mutex_lock(&shared.lock);
	(void)!read(shared.event_fd, &count, sizeof(count));
	another = guest->vid != shared.vid;
	guest->vid = shared.vid;
	for (int pair = 0; pair < GUEST_PAIRS_MAX; pair++) {
		if (!shared.kick[pair].waits)
			continue;
		if (guest->kick_fd[pair] >= 0)
			close(guest->kick_fd[pair]);
		guest->kick_fd[pair] = shared.kick[pair].fd;
		shared.kick[pair].waits = false;
	}
	shared.seen = atomic_load_explicit(&shared.generation, memory_order_relaxed);
	pthread_cond_broadcast(&shared.taken);
	pthread_mutex_unlock(&shared.lock);
	return another;
}

/* ---- start ---- */

static void left_over_remove(const char *path)
{
	struct stat status;

	if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
		(void)unlink(path);
}

static int driver_register(const char *path, bool connects)
{
	static const struct rte_vhost_device_ops ops = {
		.new_device = guest_came,
		.destroy_device = guest_goes,
		.vring_state_changed = ring_changed,
	};
	/* A frame is in one buffer, or is dropped. */
	uint64_t flags = RTE_VHOST_USER_LINEARBUF_SUPPORT | (connects ? RTE_VHOST_USER_CLIENT : 0);

	if (rte_vhost_driver_register(path, flags) || rte_vhost_driver_disable_features(path, ~FEATURES) ||
	    rte_vhost_driver_set_protocol_features(path, PROTOCOL_FEATURES) ||
	    rte_vhost_driver_callback_register(path, &ops))
		return -EIO;
	return 0;
}

/* The socket gets its name when it listens, so that a front end that finds it can connect. */
static int listen_at(const char *path)
{
	char unnamed[PATH_MAX];
	mode_t mask;
	int err;

	if (snprintf(unnamed, sizeof(unnamed), "%s.new", path) >= (int)sizeof(unnamed))
		return -ENAMETOOLONG;
	left_over_remove(unnamed);
	err = driver_register(unnamed, false);
	if (err)
		return err;
	/* Connecting needs write permission, which the user and the group of the relay have. */
	mask = umask(0117);
	err = rte_vhost_driver_start(unnamed) ? -EIO : 0;
	umask(mask);
	if (!err && rename(unnamed, path))
		err = -errno;
	return err;
}

static int connect_to(const char *path)
{
	int err = driver_register(path, true);

	return err ? err : rte_vhost_driver_start(path) ? -EIO : 0;
}

int backend_begin(const char *path, bool connects)
{
	is_relays = true;
	shared.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (shared.event_fd < 0)
		return -errno;
	return connects ? connect_to(path) : listen_at(path);
}
