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

/* Of what the pod did not ask for nobody needs to hear. */
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
			    pod->called, (int)process->pid, receive_refusal_text(why), err ? ": " : "",
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

/* Rings that the pod's thread takes out of the program's maps. */
struct removing {
	struct pod_work work;
	struct receive_maps maps;
	size_t count;
	struct receive_entry entries[];
};

static void removing_run(struct pod_work *work)
{
	struct removing *removing = container_of(work, struct removing, work);

	receive_rings_remove(&removing->maps, removing->entries, removing->count);
	receive_maps_close(&removing->maps);
	free(removing);
}

/* For so many at most; NULL when out of memory. */
static struct removing *removing_make(const struct node *node, size_t most)
{
	struct removing *removing = calloc(1, sizeof(*removing) + most * sizeof(removing->entries[0]));

	if (!removing)
		return NULL;
	removing->work.run = removing_run;
	/* Where they cannot be opened nothing is looked up in them either, but readers hear of it. */
	(void)receive_maps_open(node->receive.folder, &removing->maps);
	return removing;
}

static void socket_free(struct node *node, struct receive_socket *socket)
{
	ring_charge_end(&node->ring_charges, socket->charge);
	free(socket);
}

/* Nobody uses it any more. Without `removing`, when out of memory, its ring stays until the next ktsnd. */
static void socket_end(struct pod *pod, struct receive_socket *socket, struct removing *removing)
{
	struct receive_socket **at = &pod->receive.sockets;

	while (*at != socket)
		at = &(*at)->next;
	*at = socket->next;
	pod->receive.socket_count--;
	receive_counts_add(socket->control, &pod->receive.ended);
	if (removing)
		removing->entries[removing->count++] =
			(struct receive_entry){socket->cookie, socket->control};
	socket_free(pod->node, socket);
}

/* `at` is where it hangs. True: it was the last user. */
static bool user_end(struct pod *pod, struct receive_user **at, struct removing *removing)
{
	struct receive_user *user = *at;
	bool last = --user->socket->users == 0;

	*at = user->next;
	if (last)
		socket_end(pod, user->socket, removing);
	free(user);
	return last;
}

/* The last user was one of the process. */
static bool one_end(struct process *process, struct receive_user **at)
{
	struct removing *removing = removing_make(process->pod->node, 1);
	bool last = user_end(process->pod, at, removing);

	if (removing)
		pod_thread_do(process->thread, &removing->work);
	return last;
}

static size_t users_count(const struct process *process)
{
	size_t count = 0;

	for (const struct receive_user *user = process->receiving; user; user = user->next)
		count++;
	return count;
}

static void users_end(struct process *process, struct removing *removing)
{
	while (process->receiving)
		(void)user_end(process->pod, &process->receiving, removing);
}

void receiving_end(struct process *process)
{
	size_t most = users_count(process);
	struct removing *removing = most ? removing_make(process->pod->node, most) : NULL;

	users_end(process, removing);
	if (removing)
		pod_thread_do(process->thread, &removing->work);
}

void receiving_end_all(struct pod *pod)
{
	struct removing *removing;
	size_t most = 0;

	for (const struct process *p = pod->processes; p; p = p->next)
		most += users_count(p);
	removing = most ? removing_make(pod->node, most) : NULL;
	for (struct process *p = pod->processes; p; p = p->next)
		users_end(p, removing);
	if (removing)
		pod_thread_do(pod->thread, &removing->work);
}

static enum receive_refusal room_judge(struct pod *pod, uint32_t ring_id, size_t bytes)
{
	if (pod->receive.socket_count >= pod->quota->limits.sockets ||
	    pod->receive.socket_count >= RECEIVE_POD_SOCKETS_MAX)
		return RECEIVE_SOCKETS;
	return ring_charges_allow(&pod->node->ring_charges, pod->quota, ring_id, receive_ring_cost(bytes))
		       ? RECEIVE_SERVED
		       : RECEIVE_MEMORY;
}

/* The ring that a former ktsnd has made for the socket, or a new one, for which there is room. */
static int ring_get(struct process *process, const struct receive_maps *maps, const struct app_request *from,
		    struct receive_ring *ring, struct receive_descriptors *fds)
{
	struct pod *pod = process->pod;
	bool there = receive_ring_find(maps, from->identity.cookie, ring, fds) == 0;
	enum receive_refusal refusal;
	int err = 0;

	refusal = there ? room_judge(pod, ring->ring_id, ring->bytes)
			: room_judge(pod, 0, from->receive.ring_bytes);
	if (!refusal && !there)
		err = receive_ring_make(from->receive.ring_bytes, ring, fds);
	if (err)
		return refuse_socket(process, RECEIVE_KERNEL, err);
	if (!refusal)
		return 0;
	pod->node->limit_refusals++;
	if (there)
		receive_descriptors_close(fds);
	return refuse_socket(process, refusal, 0);
}

/* On success the descriptors of its ring are open. */
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

static int serve_with(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	struct receive_descriptors fds;
	struct receive_socket *socket;
	int err;

	/* Whose filter it is: nobody else enters sockets. What the pod has is ours also when the maps are
	 * new. */
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
	/* Each has maps changed, and other programs of the machine wait for them as well. */
	if (!quota_rate_take(&process->pod->quota->receive_works, clock_tai_ns()))
		return refuse_socket(process, RECEIVE_RATE, 0);
	err = receive_maps_open(process->pod->node->receive.folder, &from->entering);
	if (err)
		return refuse_socket(process, RECEIVE_NO_PROGRAM, err);
	err = receive_socket_excluded(&from->entering, from->socket_fd)
		      ? refuse_socket(process, RECEIVE_SHARED, 0)
		      : serve_with(process, from, reply);
	if (err)
		receive_maps_close(&from->entering);
	return err;
}

void receive_open_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	reply->status = from->passed_err ? from->passed_err : serve(process, from, reply);
	/* A filter that counts for nobody. */
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
		(void)one_end(process, at);
	for (int i = 0; i < 2; i++) {
		close(from->reply_fds[i]);
		from->reply_fds[i] = -1;
	}
	reply->status = refuse_socket(process, RECEIVE_KERNEL, from->enter_err);
	reply->ring_bytes = 0;
}

/* The storage of the socket ends as well: it may live on in another process. */
static void socket_leave(const struct node *node, int socket_fd, bool for_ever)
{
	struct receive_maps maps;

	if (receive_maps_open(node->receive.folder, &maps))
		return;
	if (for_ever)
		receive_socket_exclude(&maps, socket_fd);
	else
		receive_socket_leave(&maps, socket_fd);
	receive_maps_close(&maps);
}

/* For all processes of the pod. Returns whether it had a ring. */
static bool all_end(struct process *process, uint64_t cookie)
{
	struct removing *removing = removing_make(process->pod->node, 1);
	bool had = false;

	for (struct process *p = process->pod->processes; p; p = p->next) {
		struct receive_user **at = user_of_cookie(p, cookie);

		if (*at)
			had |= user_end(process->pod, at, removing);
	}
	if (removing)
		pod_thread_do(process->thread, &removing->work);
	return had;
}

/* Why the pod's socket is the kernel's from now on; RECEIVE_SERVED: it was closed, or is none of the pod's.
 */
static enum receive_refusal close_reason(const struct process *process, const struct app_request *from)
{
	static const enum receive_refusal refusals[] = {
		[KTSN_APP_RECEIVE_CLOSE_GONE] = RECEIVE_SERVED,
		[KTSN_APP_RECEIVE_CLOSE_OPTION] = RECEIVE_OPTION,
		[KTSN_APP_RECEIVE_CLOSE_FILTER] = RECEIVE_FILTER,
		[KTSN_APP_RECEIVE_CLOSE_SHARED] = RECEIVE_SHARED,
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
	from->filter_goes =
		why == RECEIVE_SHARED ? all_end(process, from->identity.cookie) : *at && one_end(process, at);
	if (from->socket_fd < 0)
		return; /* what is at the socket goes with it, or does no harm where another process has it */
	if (from->filter_goes || why == RECEIVE_SHARED)
		socket_leave(process->pod->node, from->socket_fd, why == RECEIVE_SHARED);
}

/* NULL: the ring has gone, or out of memory. */
static struct receive_socket *socket_of_former(struct pod *pod, uint64_t cookie,
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
		socket = socket_of_former(process->pod, cookie, ring);
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

/* Its name is the cookie of the network namespace that ktsnd is in (internal/node/receive/folder.go). */
static int own_folder(const char *folder, char *own, size_t bytes)
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
	length = snprintf(own, bytes, "%s/%" PRIu64, folder, cookie);
	return length < 0 || (size_t)length >= bytes ? -ENAMETOOLONG : 0;
}

/* Only these are removed later: another ktsnd of this kernel may enter others meanwhile. */
void receiving_begin(struct node *node, const char *folder)
{
	struct node_receive *receive = &node->receive;
	struct receive_maps maps;

	/* A kernel without such cookies has no program either. */
	if (own_folder(folder, receive->own, sizeof(receive->own)))
		receive->own[0] = 0;
	receive->folder = receive->own;
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

/* All at once, so that the control thread waits a few milliseconds. */
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
