/* SPDX-License-Identifier: Apache-2.0 */
#include "receive_maps.h"

#include "bpf.h"
#include "receive_layout.h"
#include "receive_socket.h"

#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* More datagrams than a socket ever gets; the sum over billions of sockets still fits. */
enum { COUNT_MAX = INT32_MAX };
/* Few enough for the stack of a pod's thread. */
enum { REMOVED_AT_ONCE = 256 };

static int pinned_open(const char *folder, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return bpf_pinned_open(path);
}

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int receive_maps_open(const char *folder, struct receive_maps *maps)
{
	int err = 0;

	maps->rings = pinned_open(folder, "rings");
	maps->controls = pinned_open(folder, "controls");
	maps->sockets = pinned_open(folder, "sockets");
	if (maps->rings < 0)
		err = maps->rings;
	else if (maps->controls < 0)
		err = maps->controls;
	else if (maps->sockets < 0)
		err = maps->sockets;
	if (err)
		receive_maps_close(maps);
	return err;
}

void receive_maps_close(struct receive_maps *maps)
{
	fd_close(&maps->rings);
	fd_close(&maps->controls);
	fd_close(&maps->sockets);
}

int receive_filter_open(const char *folder)
{
	return pinned_open(folder, "ktsn_receive_kernel");
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* The kernel adds three pages to the records, for its structures and the two positions, and one to the
 * control page. */
size_t receive_ring_cost(size_t bytes)
{
	enum { PAGES = 3 + 2 };

	return bytes + PAGES * page_bytes();
}

static int ring_create(size_t bytes)
{
	const struct bpf_map_shape shape = {.type = BPF_MAP_TYPE_RINGBUF, .entries = (uint32_t)bytes};

	return bpf_map_make(&shape, "ktsn_receive");
}

static int control_create(void)
{
	const struct bpf_map_shape shape = {
		.type = BPF_MAP_TYPE_ARRAY,
		.key_bytes = sizeof(uint32_t),
		.value_bytes = sizeof(struct ktsn_receive_control),
		.entries = 1,
		.flags = BPF_F_MMAPABLE,
	};

	return bpf_map_make(&shape, "ktsn_receive");
}

/* Checks that both maps have the shape that receive_ring_make() gives them, and reads their IDs. */
static int identify(const struct receive_descriptors *fds, struct receive_ring *ring)
{
	struct bpf_map_shape ring_shape, control_shape;
	int err = bpf_map_describe(fds->ring, &ring_shape, &ring->ring_id);

	if (!err)
		err = bpf_map_describe(fds->control, &control_shape, &ring->control_id);
	if (err)
		return err;
	if (ring_shape.type != BPF_MAP_TYPE_RINGBUF || ring_shape.entries < RECEIVE_RING_MIN_BYTES ||
	    ring_shape.entries > RECEIVE_RING_MAX_BYTES || control_shape.type != BPF_MAP_TYPE_ARRAY ||
	    control_shape.value_bytes != sizeof(struct ktsn_receive_control) || control_shape.entries != 1 ||
	    !(control_shape.flags & BPF_F_MMAPABLE))
		return -EINVAL;
	ring->bytes = ring_shape.entries;
	return 0;
}

void receive_descriptors_close(struct receive_descriptors *fds)
{
	fd_close(&fds->ring);
	fd_close(&fds->control);
}

/* Checks two descriptors, each of which may be -errno. */
static int both_check(struct receive_descriptors *fds)
{
	int err = fds->ring < 0 ? fds->ring : fds->control < 0 ? fds->control : 0;

	if (err)
		receive_descriptors_close(fds);
	return err;
}

int receive_ring_make(size_t bytes, struct receive_ring *ring, struct receive_descriptors *fds)
{
	int err;

	fds->ring = ring_create(bytes);
	fds->control = fds->ring < 0 ? -1 : control_create();
	err = both_check(fds);
	if (!err)
		err = identify(fds, ring);
	if (err)
		receive_descriptors_close(fds);
	return err;
}

int receive_ring_open(const struct receive_ring *ring, struct receive_descriptors *fds)
{
	fds->ring = bpf_map_open_id(ring->ring_id);
	fds->control = bpf_map_open_id(ring->control_id);
	return both_check(fds);
}

int receive_ring_find(const struct receive_maps *maps, uint64_t cookie, struct receive_ring *ring,
		      struct receive_descriptors *fds)
{
	int err = bpf_map_get(maps->rings, &cookie, &ring->ring_id);

	if (!err)
		err = bpf_map_get(maps->controls, &cookie, &ring->control_id);
	if (!err)
		err = receive_ring_open(ring, fds);
	if (err)
		return err;
	err = identify(fds, ring);
	if (err)
		receive_descriptors_close(fds);
	return err;
}

struct ktsn_receive_control *receive_control_map(int control)
{
	void *page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);

	return page == MAP_FAILED ? NULL : page;
}

void receive_control_unmap(struct ktsn_receive_control *control)
{
	if (control)
		munmap(control, page_bytes());
}

/* Whether a map of maps has this map at the cookie. */
static bool is_entered(int map_of_maps, uint64_t cookie, int map)
{
	struct bpf_map_shape shape;
	uint32_t id, entered;

	return bpf_map_get(map_of_maps, &cookie, &entered) == 0 && bpf_map_describe(map, &shape, &id) == 0 &&
	       entered == id;
}

static int map_enter(int map_of_maps, uint64_t cookie, int map)
{
	return is_entered(map_of_maps, cookie, map) ? 0 : bpf_map_put(map_of_maps, &cookie, &map);
}

bool receive_socket_entered(const struct receive_maps *maps, int socket_fd, uint64_t cookie)
{
	uint64_t entered;

	return bpf_map_get(maps->sockets, &socket_fd, &entered) == 0 && entered == cookie;
}

/* No socket has the cookie 0. */
static const uint64_t no_cookie;

void receive_socket_exclude(const struct receive_maps *maps, int socket_fd)
{
	(void)bpf_map_put(maps->sockets, &socket_fd, &no_cookie);
}

bool receive_socket_excluded(const struct receive_maps *maps, int socket_fd)
{
	return receive_socket_entered(maps, socket_fd, no_cookie);
}

/* Enters a socket, unless it is excluded: another thread may exclude it at any time, for good. */
static int socket_enter(const struct receive_maps *maps, int socket_fd, uint64_t cookie)
{
	int err = bpf_map_add(maps->sockets, &socket_fd, &cookie);

	if (err != -EEXIST)
		return err;
	return receive_socket_entered(maps, socket_fd, cookie) ? 0 : -EPERM;
}

/* Enters the ring last: then datagrams arrive in it. */
int receive_ring_enter(const struct receive_maps *maps, int socket_fd, uint64_t cookie,
		       const struct receive_descriptors *fds, struct ktsn_receive_control *control)
{
	int err = socket_enter(maps, socket_fd, cookie);

	if (err)
		return err;
	/* An earlier removal may have set this. */
	if (control)
		__atomic_store_n(&control->ended, 0, __ATOMIC_SEQ_CST);
	err = map_enter(maps->controls, cookie, fds->control);
	if (!err)
		err = map_enter(maps->rings, cookie, fds->ring);
	if (!err && receive_socket_excluded(maps, socket_fd))
		err = -EPERM;
	if (err) {
		(void)bpf_map_remove(maps->rings, &cookie);
		(void)bpf_map_remove(maps->controls, &cookie);
		if (!receive_socket_excluded(maps, socket_fd))
			(void)bpf_map_remove(maps->sockets, &socket_fd);
	}
	return err;
}

static struct ktsn_receive_control *control_find(const struct receive_maps *maps, uint64_t cookie)
{
	struct ktsn_receive_control *control;
	uint32_t id;
	int fd;

	if (bpf_map_get(maps->controls, &cookie, &id))
		return NULL;
	fd = bpf_map_open_id(id);
	if (fd < 0)
		return NULL;
	control = receive_control_map(fd);
	close(fd);
	return control;
}

/* Marks the ring as ended: after this readers read the kernel's queue regardless of its counter. */
static void ended_set(const struct receive_maps *maps, const struct receive_entry *entry)
{
	struct ktsn_receive_control *control =
		entry->control ? entry->control : control_find(maps, entry->cookie);

	if (!control)
		return;
	__atomic_store_n(&control->ended, 1, __ATOMIC_SEQ_CST);
	receive_control_unmap(control);
}

static void batch_remove(const struct receive_maps *maps, const struct receive_entry *entries, uint32_t count)
{
	uint64_t cookies[REMOVED_AT_ONCE];

	for (uint32_t i = 0; i < count; i++)
		cookies[i] = entries[i].cookie;
	/* In this order a datagram is in the ring, or is counted, or arrives after readers know that the ring
	 * has ended. */
	(void)bpf_map_remove_all(maps->rings, cookies, sizeof(cookies[0]), count);
	for (uint32_t i = 0; i < count; i++)
		ended_set(maps, &entries[i]);
	(void)bpf_map_remove_all(maps->controls, cookies, sizeof(cookies[0]), count);
}

void receive_rings_remove(const struct receive_maps *maps, const struct receive_entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i += REMOVED_AT_ONCE)
		batch_remove(maps, entries + i,
			     (uint32_t)(count - i < REMOVED_AT_ONCE ? count - i : REMOVED_AT_ONCE));
}

void receive_socket_leave(const struct receive_maps *maps, int socket_fd)
{
	(void)bpf_map_remove(maps->sockets, &socket_fd);
}

/* If the map changes during the iteration, a key may appear twice or not at all. */
static size_t keys_add(int map, uint64_t *cookies, size_t count, size_t max_count)
{
	uint64_t key;
	int err = bpf_map_next_key(map, NULL, &key);

	while (!err && count < max_count) {
		cookies[count++] = key;
		err = bpf_map_next_key(map, &cookies[count - 1], &key);
	}
	return count;
}

size_t receive_cookies(const struct receive_maps *maps, uint64_t *cookies, size_t max_count)
{
	return keys_add(maps->controls, cookies, keys_add(maps->rings, cookies, 0, max_count), max_count);
}

static uint64_t count_limit(uint64_t count)
{
	return count < COUNT_MAX ? count : COUNT_MAX;
}

void receive_counts_add(const struct ktsn_receive_control *control, struct receive_counts *sum)
{
	if (!control)
		return;
	sum->received += count_limit(__atomic_load_n(&control->received, __ATOMIC_RELAXED));
	sum->dropped += count_limit(__atomic_load_n(&control->dropped, __ATOMIC_RELAXED));
	sum->kernel += count_limit(__atomic_load_n(&control->kernel, __ATOMIC_RELAXED));
}

uint32_t receive_left(const struct ktsn_receive_control *control)
{
	uint32_t left = control ? __atomic_load_n(&control->left, __ATOMIC_RELAXED) : KTSN_RECEIVE_LEFT_NOT;

	return left < KTSN_RECEIVE_LEFTS ? left : KTSN_RECEIVE_LEFT_NOT;
}
