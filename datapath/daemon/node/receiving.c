/* SPDX-License-Identifier: Apache-2.0 */
#include "receiving.h"

#include "clock.h"
#include "container_of.h"
#include "encryption.h"
#include "log.h"
#include "pod_thread.h"
#include "socket_identity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LEFT_MAX = 65536, LEFT_MS = 10000 };

/* 0 when an endpoint in the socket's namespace asks for receive rings; -ENOTSUP: none does; -EPROTONOSUPPORT:
 * of an encrypted network only. */
static int namespace_allowed(const struct pod *pod, uint64_t netns_cookie)
{
	int err = pod->endpoints.first ? -EPERM : -ENETDOWN;

	for (const struct endpoint *e = pod->endpoints.first; e; e = e->next) {
		if (e->ns->cookie != netns_cookie)
			continue;
		if (e->receive && encryption_of(&pod->node->routing, e->vni) == LOOP_CLEAR)
			return 0;
		if (err != -EPROTONOSUPPORT)
			err = e->receive ? -EPROTONOSUPPORT : -ENOTSUP;
	}
	return err;
}

/* Counts and logs a refusal, unless the pod did not ask for receive rings. Returns -ENOTSUP. */
static int refuse_socket(struct process *process, enum receive_refusal why, int err)
{
	struct pod *pod = process->pod;

	if (why == RECEIVE_NOT_ASKED)
		return -ENOTSUP;
	pod->receive.refused++;
	pod->receive.why = why;
	pod->receive.refusals[why]++;
	if (!pod->receive.warned)
		log_warning("pod %s: a socket of process %d stays with the kernel, and gets no receive ring: "
			    "%s%s%s",
			    pod->log_name, (int)process->pid, receive_refusal_text(why), err ? ": " : "",
			    err ? strerror(-err) : "");
	pod->receive.warned = true;
	return -ENOTSUP;
}

static struct receive_socket *socket_find(const struct pod *pod, uint64_t cookie)
{
	struct receive_socket *socket = pod->receive.sockets;

	while (socket && socket->cookie != cookie)
		socket = socket->next;
	return socket;
}

static struct receive_user *user_find(const struct process *process, const struct receive_socket *socket)
{
	struct receive_user *user = process->receiving;

	while (user && user->socket != socket)
		user = user->next;
	return user;
}

static int user_add(struct process *process, struct receive_socket *socket)
{
	struct receive_user *user;

	if (user_find(process, socket))
		return 0;
	user = malloc(sizeof(*user));
	if (!user)
		return -ENOMEM;
	*user = (struct receive_user){.socket = socket, .next = process->receiving};
	process->receiving = user;
	socket->users++;
	return 0;
}

/* Charges the ring to the pod. NULL when out of memory. */
static struct receive_socket *socket_make(struct pod *pod, uint64_t cookie, const struct receive_ring *ring,
					  int control)
{
	struct receive_socket *socket = calloc(1, sizeof(*socket));

	if (!socket)
		return NULL;
	socket->control = receive_control_map(control);
	socket->charge = ring_charge_make(&pod->node->ring_charges, pod->quota, ring->ring_id,
					  receive_ring_cost(ring->bytes));
	if (!socket->charge) {
		receive_control_unmap(socket->control);
		free(socket);
		return NULL;
	}
	socket->cookie = cookie;
	socket->ring = *ring;
	socket->next = pod->receive.sockets;
	pod->receive.sockets = socket;
	pod->receive.socket_count++;
	return socket;
}

/* Rings to be removed from the program's maps by the pod's thread. */
struct removal {
	struct pod_work work;
	struct receive_maps maps;
	size_t count;
	struct receive_entry entries[];
};

static void removal_run(struct pod_work *work)
{
	struct removal *removal = container_of(work, struct removal, work);

	receive_rings_remove(&removal->maps, removal->entries, removal->count);
	receive_maps_close(&removal->maps);
	free(removal);
}

/* Returns NULL when out of memory. */
static struct removal *removal_create(const struct node *node, size_t max_count)
{
	struct removal *removal = calloc(1, sizeof(*removal) + max_count * sizeof(removal->entries[0]));

	if (!removal)
		return NULL;
	removal->work.run = removal_run;
	/* If the maps cannot be opened, the removal still notifies the readers. */
	(void)receive_maps_open(node->receive.folder, &removal->maps);
	return removal;
}

static void socket_free(struct node *node, struct receive_socket *socket)
{
	ring_charge_end(&node->ring_charges, socket->charge);
	free(socket);
}

/* Frees a socket without users. If `removal` is NULL for lack of memory, its ring stays until the next ktsnd.
 */
static void socket_end(struct pod *pod, struct receive_socket *socket, struct removal *removal)
{
	struct receive_socket **at = &pod->receive.sockets;

	while (*at != socket)
		at = &(*at)->next;
	*at = socket->next;
	pod->receive.socket_count--;
	receive_counts_add(socket->control, &pod->receive.ended);
	if (removal)
		removal->entries[removal->count++] = (struct receive_entry){socket->cookie, socket->control};
	socket_free(pod->node, socket);
}

/* Removes a user from its list. Returns whether it was the last user of its socket. */
static bool user_end(struct pod *pod, struct receive_user **at, struct removal *removal)
{
	struct receive_user *user = *at;
	bool last = --user->socket->users == 0;

	*at = user->next;
	if (last)
		socket_end(pod, user->socket, removal);
	free(user);
	return last;
}

/* Removes a user of the process. Returns whether it was the last user of its socket. */
static bool user_remove_one(struct process *process, struct receive_user **at)
{
	struct removal *removal = removal_create(process->pod->node, 1);
	bool last = user_end(process->pod, at, removal);

	if (removal)
		pod_thread_do(process->thread, &removal->work);
	return last;
}

static size_t users_count(const struct process *process)
{
	size_t count = 0;

	for (const struct receive_user *user = process->receiving; user; user = user->next)
		count++;
	return count;
}

static void users_end(struct process *process, struct removal *removal)
{
	while (process->receiving)
		(void)user_end(process->pod, &process->receiving, removal);
}

void receiving_end(struct process *process)
{
	size_t max_count = users_count(process);
	struct removal *removal = max_count ? removal_create(process->pod->node, max_count) : NULL;

	users_end(process, removal);
	if (removal)
		pod_thread_do(process->thread, &removal->work);
}

void receiving_end_all(struct pod *pod)
{
	struct removal *removal;
	size_t max_count = 0;

	for (const struct process *p = pod->processes; p; p = p->next)
		max_count += users_count(p);
	removal = max_count ? removal_create(pod->node, max_count) : NULL;
	for (struct process *p = pod->processes; p; p = p->next)
		users_end(p, removal);
	if (removal)
		pod_thread_do(pod->thread, &removal->work);
}

static enum receive_refusal room_check(struct pod *pod, uint32_t ring_id, size_t bytes)
{
	if (pod->receive.socket_count >= pod->quota->limits.sockets ||
	    pod->receive.socket_count >= RECEIVE_POD_SOCKETS_MAX)
		return RECEIVE_SOCKETS;
	return ring_charges_allow(&pod->node->ring_charges, pod->quota, ring_id, receive_ring_cost(bytes))
		       ? RECEIVE_SERVED
		       : RECEIVE_MEMORY;
}

/* Finds the ring that a previous ktsnd has created for the socket, or creates one, within the pod's limits.
 */
static int ring_get(struct process *process, const struct receive_maps *maps, const struct app_request *from,
		    struct receive_ring *ring, struct receive_descriptors *fds)
{
	struct pod *pod = process->pod;
	bool exists = receive_ring_find(maps, from->identity.cookie, ring, fds) == 0;
	enum receive_refusal refusal;
	int err = 0;

	refusal = exists ? room_check(pod, ring->ring_id, ring->bytes)
			 : room_check(pod, 0, from->receive.ring_bytes);
	if (!refusal && !exists)
		err = receive_ring_make(from->receive.ring_bytes, ring, fds);
	if (err)
		return refuse_socket(process, RECEIVE_KERNEL, err);
	if (!refusal)
		return 0;
	pod->node->limit_refusals++;
	if (exists)
		receive_descriptors_close(fds);
	return refuse_socket(process, refusal, 0);
}

/* Finds or creates the socket. On success the descriptors of its ring are open. */
static int socket_get(struct process *process, const struct receive_maps *maps,
		      const struct app_request *from, struct receive_socket **socket,
		      struct receive_descriptors *fds)
{
	struct receive_ring ring;
	int err;

	*socket = socket_find(process->pod, from->identity.cookie);
	if (*socket) {
		err = receive_ring_open(&(*socket)->ring, fds);
		return err ? refuse_socket(process, RECEIVE_KERNEL, err) : 0;
	}
	err = ring_get(process, maps, from, &ring, fds);
	if (err)
		return err;
	*socket = socket_make(process->pod, from->identity.cookie, &ring, fds->control);
	if (*socket)
		return 0;
	receive_descriptors_close(fds);
	return refuse_socket(process, RECEIVE_KERNEL, -ENOMEM);
}

static int ring_serve(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	struct receive_descriptors fds;
	struct receive_socket *socket;
	int err;

	/* An existing filter is ktsnd's own if the socket is in the maps, which only ktsnd writes, or if the
	 * pod has a ring for it and the maps are new. */
	if (from->receive.has_filter && !socket_find(process->pod, from->identity.cookie) &&
	    !receive_socket_entered(&from->entering, from->socket_fd, from->identity.cookie))
		return refuse_socket(process, RECEIVE_FILTER, 0);
	err = socket_get(process, &from->entering, from, &socket, &fds);
	if (err)
		return err;
	from->opens = !user_find(process, socket);
	err = user_add(process, socket);
	if (err) {
		receive_descriptors_close(&fds);
		if (!socket->users)
			socket_end(process->pod, socket, NULL);
		return refuse_socket(process, RECEIVE_KERNEL, err);
	}
	from->control = socket->control;
	from->reply_fds[0] = fds.ring;
	from->reply_fds[1] = fds.control;
	reply->ring_bytes = socket->ring.bytes;
	return 0;
}

static int serve(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	int err = namespace_allowed(process->pod, from->identity.netns_cookie);

	if (err == -ENOTSUP || process->relay)
		return refuse_socket(process, RECEIVE_NOT_ASKED, 0);
	if (err == -EPROTONOSUPPORT)
		return refuse_socket(process, RECEIVE_ENCRYPTED, 0);
	if (err)
		return err;
	if (from->receive.refusal)
		return refuse_socket(process, from->receive.refusal, 0);
	/* Each request changes maps, which other programs of the machine wait for as well. */
	if (!quota_rate_take(&process->pod->quota->receive_works, clock_tai_ns()))
		return refuse_socket(process, RECEIVE_RATE, 0);
	err = receive_maps_open(process->pod->node->receive.folder, &from->entering);
	if (err)
		return refuse_socket(process, RECEIVE_NO_PROGRAM, err);
	err = receive_socket_excluded(&from->entering, from->socket_fd)
		      ? refuse_socket(process, RECEIVE_SHARED, 0)
		      : ring_serve(process, from, reply);
	if (err)
		receive_maps_close(&from->entering);
	return err;
}

void receive_open_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	reply->status = from->passed_err ? from->passed_err : serve(process, from, reply);
	/* Detach a filter without a ring. */
	from->filter_goes = reply->status && from->receive.attached;
}

static struct receive_user **user_of_cookie(struct process *process, uint64_t cookie)
{
	struct receive_user **at = &process->receiving;

	while (*at && (*at)->socket->cookie != cookie)
		at = &(*at)->next;
	return at;
}

void receive_open_finish(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	struct receive_user **at = user_of_cookie(process, from->identity.cookie);

	if (!from->enter_err)
		return;
	if (from->opens && *at)
		(void)user_remove_one(process, at);
	for (int i = 0; i < 2; i++) {
		close(from->reply_fds[i]);
		from->reply_fds[i] = -1;
	}
	reply->status = refuse_socket(process, RECEIVE_KERNEL, from->enter_err);
	reply->ring_bytes = 0;
}

/* Removes the socket from the map of sockets: another process may have a copy of it. */
static void socket_leave(const struct node *node, int socket_fd, bool exclude)
{
	struct receive_maps maps;

	if (receive_maps_open(node->receive.folder, &maps))
		return;
	if (exclude)
		receive_socket_exclude(&maps, socket_fd);
	else
		receive_socket_leave(&maps, socket_fd);
	receive_maps_close(&maps);
}

/* Removes the socket of all processes of the pod. Returns whether it had a ring. */
static bool socket_remove_all(struct process *process, uint64_t cookie)
{
	struct removal *removal = removal_create(process->pod->node, 1);
	bool removed = false;

	for (struct process *p = process->pod->processes; p; p = p->next) {
		struct receive_user **at = user_of_cookie(p, cookie);

		if (*at)
			removed |= user_end(process->pod, at, removal);
	}
	if (removal)
		pod_thread_do(process->thread, &removal->work);
	return removed;
}

/* Returns why the pod's socket goes to the kernel; RECEIVE_SERVED: it was closed, or is not the pod's. */
static enum receive_refusal close_reason(const struct process *process, const struct app_request *from)
{
	static const enum receive_refusal refusals[] = {
		[KTSN_APP_RECEIVE_CLOSE_GONE] = RECEIVE_SERVED,
		[KTSN_APP_RECEIVE_CLOSE_OPTION] = RECEIVE_OPTION,
		[KTSN_APP_RECEIVE_CLOSE_FILTER] = RECEIVE_FILTER,
		[KTSN_APP_RECEIVE_CLOSE_SHARED] = RECEIVE_SHARED,
		[KTSN_APP_RECEIVE_CLOSE_IO_URING] = RECEIVE_IO_URING,
	};

	if (from->message.flags >= sizeof(refusals) / sizeof(*refusals) ||
	    namespace_allowed(process->pod, from->identity.netns_cookie))
		return RECEIVE_SERVED;
	return refusals[from->message.flags];
}

void receive_close_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	struct receive_user **at = user_of_cookie(process, from->identity.cookie);
	enum receive_refusal why;

	reply->status = from->passed_err;
	if (reply->status)
		return;
	why = close_reason(process, from);
	if (why)
		(void)refuse_socket(process, why, 0);
	from->filter_goes = why == RECEIVE_SHARED ? socket_remove_all(process, from->identity.cookie)
						  : *at && user_remove_one(process, at);
	if (from->socket_fd < 0)
		return; /* its filter ends with the socket, and is harmless for copies in other processes */
	if (from->filter_goes || why == RECEIVE_SHARED)
		socket_leave(process->pod->node, from->socket_fd, why == RECEIVE_SHARED);
}

/* Returns NULL when the ring is gone, or without memory. */
static struct receive_socket *socket_take_over(struct pod *pod, uint64_t cookie,
					       const struct receive_ring *ring)
{
	struct receive_descriptors fds;
	struct receive_socket *socket;

	if (receive_ring_open(ring, &fds))
		return NULL;
	socket = socket_make(pod, cookie, ring, fds.control);
	receive_descriptors_close(&fds);
	return socket;
}

int receiving_take_over(struct process *process, uint64_t cookie, const struct receive_ring *ring)
{
	struct receive_socket *socket = socket_find(process->pod, cookie);
	int err;

	if (!socket)
		socket = socket_take_over(process->pod, cookie, ring);
	if (!socket)
		return -ENOMEM;
	err = user_add(process, socket);
	if (err && !socket->users)
		socket_end(process->pod, socket, NULL);
	return err;
}

struct receive_counts receiving_counts(const struct pod *pod)
{
	struct receive_counts sum = pod->receive.ended;

	for (const struct receive_socket *s = pod->receive.sockets; s; s = s->next)
		receive_counts_add(s->control, &sum);
	return sum;
}

void receiving_lefts(const struct pod *pod, uint32_t lefts[KTSN_RECEIVE_LEFTS])
{
	memset(lefts, 0, KTSN_RECEIVE_LEFTS * sizeof(lefts[0]));
	for (const struct receive_socket *s = pod->receive.sockets; s; s = s->next)
		lefts[receive_left(s->control)]++;
}

/* The folder is named after the cookie of ktsnd's network namespace (internal/node/receive/folder.go). */
static int node_folder(const char *folder, char *node_folder, size_t bytes)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie;
	int err, length;

	if (fd < 0)
		return -errno;
	err = socket_netns_cookie(fd, &cookie);
	close(fd);
	if (err)
		return err;
	length = snprintf(node_folder, bytes, "%s/%" PRIu64, folder, cookie);
	return length < 0 || (size_t)length >= bytes ? -ENAMETOOLONG : 0;
}

/* Lists the rings of a previous ktsnd. Only these are removed later: another ktsnd of this kernel may add
 * others. */
void receiving_begin(struct node *node, const char *folder)
{
	struct node_receive *receive = &node->receive;
	struct receive_maps maps;

	/* A kernel without such cookies has no program either. */
	if (node_folder(folder, receive->node_folder, sizeof(receive->node_folder)))
		receive->node_folder[0] = 0;
	receive->folder = receive->node_folder;
	if (receive_maps_open(receive->folder, &maps))
		return;
	receive->left = calloc(LEFT_MAX, sizeof(*receive->left));
	if (receive->left)
		receive->left_count = receive_cookies(&maps, receive->left, LEFT_MAX);
	receive->left_until_ms = clock_monotonic_ms() + LEFT_MS;
	receive_maps_close(&maps);
	if (!receive->left_count)
		receiving_fini(node);
}

static bool is_known(const struct node *node, uint64_t cookie)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		if (socket_find(pod, cookie))
			return true;
	return false;
}

/* Removes all rings in one call, so that the control thread waits only a few milliseconds. */
static void left_remove(const struct node *node)
{
	struct receive_entry *entries = calloc(node->receive.left_count, sizeof(*entries));
	struct receive_maps maps;
	size_t count = 0;

	if (entries && receive_maps_open(node->receive.folder, &maps) == 0) {
		for (size_t i = 0; i < node->receive.left_count; i++)
			if (!is_known(node, node->receive.left[i]))
				entries[count++].cookie = node->receive.left[i];
		receive_rings_remove(&maps, entries, count);
		receive_maps_close(&maps);
	}
	free(entries);
}

int receiving_tick(struct node *node)
{
	int64_t left_ms;

	if (!node->receive.left)
		return -1;
	left_ms = node->receive.left_until_ms - clock_monotonic_ms();
	if (left_ms > 0)
		return (int)left_ms;
	left_remove(node);
	receiving_fini(node);
	return -1;
}

void receiving_fini(struct node *node)
{
	free(node->receive.left);
	node->receive.left = NULL;
	node->receive.left_count = 0;
}
