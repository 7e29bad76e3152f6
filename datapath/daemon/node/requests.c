/* SPDX-License-Identifier: Apache-2.0 */
#include "requests.h"

#include "container_of.h"
#include "doorbell_works.h"
#include "doorbells.h"
#include "notifiers.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A request carries at most one descriptor. */
union request_control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/* Descriptors that a request may have open at once: its own, its doorbell and set, a ring or the maps. */
enum { REQUEST_FDS = 8 };

/* Requests that the threads of pods have not finished. Control thread. */
static uint32_t outstanding;

/* ---- the pod's thread ---- */

/* Returns the descriptor of the message, or -1. */
static int passed_fd_of(struct msghdr *message)
{
	const struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS &&
	    cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(int));
	return fd;
}

/* Receives a request. 1; 0: there is none to serve; or -errno when the connection must be closed. */
static int request_receive(struct app_request *request, int *passed_fd)
{
	union request_control control;
	struct iovec iov = {.iov_base = &request->message, .iov_len = sizeof(request->message)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		/* The kernel closes excess descriptors before they get into ktsnd's table. */
		.msg_controllen = CMSG_LEN(sizeof(int)),
	};
	bool replaced;
	ssize_t bytes;
	int err;

	memset(&request->message, 0, sizeof(request->message));
	(void)pod_thread_closes(true);
	bytes = recvmsg(request->connection_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	err = bytes < 0 ? errno : 0;
	replaced = pod_thread_closes(false);
	if (err)
		return err == EAGAIN || err == EINTR ? 0 : -err;
	*passed_fd = passed_fd_of(&message);
	if (replaced)
		return -ECONNABORTED;
	/* Newer releases send longer requests: MSG_TRUNC is allowed. */
	return bytes == sizeof(request->message) && !(message.msg_flags & MSG_CTRUNC) ? 1 : -EPROTO;
}

/* Reads a socket with a receive ring. To close the ring only the cookies are needed, even of an unbound
 * socket. */
static int receive_socket_read(struct app_request *request, int fd)
{
	struct socket_identity *identity = &request->identity;
	int err;

	if (request->message.type == KTSN_APP_RECEIVE_CLOSE) {
		*identity = (struct socket_identity){.cookie = 0};
		return socket_cookies_read(fd, identity);
	}
	err = socket_identity_read(fd, identity);
	if (!err && identity->attributes.family == AF_PACKET)
		err = -EOPNOTSUPP;
	if (!err)
		receive_socket_attach(fd, request->filter_fd, &request->receive);
	return err;
}

/* Reads the descriptor of a request. Sets *fd to -1 if the request keeps it. */
static int passed_read(struct app_request *request, int *fd)
{
	int err = 0;

	switch (request->message.type) {
	case KTSN_APP_FLOW_OPEN:
	case KTSN_APP_FLOW_ADOPT:
		return socket_identity_read(*fd, &request->identity);
	case KTSN_APP_RECEIVE_OPEN:
	case KTSN_APP_RECEIVE_CLOSE:
		err = receive_socket_read(request, *fd);
		if (!err)
			request->socket_fd = *fd;
		break;
	case KTSN_APP_FLOW_WAKE:
		err = notifier_create(request->message.flags, request->message.address, *fd,
				      &request->notifier);
		break;
	case KTSN_APP_HAND_BACK:
		request->memory_fd = *fd;
		break;
	default:
		return 0;
	}
	if (!err)
		*fd = -1;
	return err;
}

/* Serves a request without a descriptor. Only a closed socket may be named by its cookie, among those of the
 * process. */
static int nothing_passed(struct app_request *request)
{
	const struct ktsn_app_request *message = &request->message;

	if (message->type != KTSN_APP_RECEIVE_CLOSE || message->flags != KTSN_APP_RECEIVE_CLOSE_GONE)
		return -EINVAL;
	request->identity = (struct socket_identity){.cookie = ktsn_app_cookie(message)};
	return 0;
}

/* Whether the request creates a ring. A process gets only one: the rate of its requests is not limited, and
 * adding a doorbell set to the loop takes a lock of the whole machine. */
static bool makes_ring(const struct app_request *request)
{
	return !request->has_ring &&
	       (request->message.type == KTSN_APP_HELLO || request->message.type == KTSN_APP_HAND_BACK);
}

/* Creates and joins a doorbell. On failure doorbell_fd is -errno. */
static void doorbell_prepare(struct app_request *request)
{
	request->doorbell_fd = doorbell_make();
	if (request->doorbell_fd < 0)
		return;
	request->doorbell_set_fd = doorbell_join(request->doorbells, request->doorbell_fd);
	if (request->doorbell_set_fd >= 0)
		return;
	close(request->doorbell_fd);
	request->doorbell_fd = request->doorbell_set_fd;
}

/* Enters the ring into the program's maps. After a failure its filter is detached. */
static void ring_enter(struct app_request *request)
{
	const struct receive_descriptors fds = {request->reply_fds[0], request->reply_fds[1]};

	request->enter_err = receive_ring_enter(&request->entering, request->socket_fd,
						request->identity.cookie, &fds, request->control);
	request->filter_goes = request->enter_err && request->receive.attached;
}

static void socket_finish(struct app_request *request)
{
	if (request->entering.rings >= 0)
		ring_enter(request);
	if (request->socket_fd < 0)
		return; /* its ring was removed before this was run */
	if (request->filter_goes)
		receive_socket_detach(request->socket_fd);
	pod_thread_close_now(request->socket_fd);
	request->socket_fd = -1;
}

/* Sends the reply, in the pod's thread because the kernel wakes any number of watchers of the other end. An
 * application that does not read its replies loses its connection. */
static void reply_send(struct app_request *request)
{
	size_t count = 0;

	while (count < 2 && request->reply_fds[count] >= 0)
		count++;
	request->sent_err = unix_send(request->connection_fd, &request->reply, sizeof(request->reply),
				      request->reply_fds, count, MSG_DONTWAIT);
}

static void request_run(struct pod_work *work)
{
	struct app_request *request = container_of(work, struct app_request, work);
	int fd = -1;

	if (request->replying) {
		reply_send(request);
		return;
	}
	if (request->finishing) {
		socket_finish(request);
		return;
	}
	request->got = request_receive(request, &fd);
	if (request->got > 0)
		request->passed_err = fd < 0 ? nothing_passed(request) : passed_read(request, &fd);
	if (request->got > 0 && makes_ring(request))
		doorbell_prepare(request);
	/* Before the reply: a copy that stays open in ktsnd would keep the socket's port bound. */
	pod_thread_close_now(fd);
}

/* ---- the control thread ---- */

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void app_request_clear(struct app_request *request)
{
	notifier_close(request->thread, request->notifier);
	pod_thread_close(request->thread, request->socket_fd);
	/* Closing a BPF program does not block. */
	fd_close(&request->filter_fd);
	/* Closing the last copy of a doorbell wakes its watchers. */
	pod_thread_close(request->thread, request->reply_fds[0]);
	pod_thread_close(request->thread, request->reply_fds[1]);
	request->socket_fd = request->reply_fds[0] = request->reply_fds[1] = -1;
	receive_maps_close(&request->entering);
	request->control = NULL;
	request->enter_err = 0;
	request->finishing = request->replying = request->filter_goes = request->opens = false;
	pod_thread_close(request->thread, request->memory_fd);
	doorbell_discard(request->thread, request->doorbells, request->doorbell_set_fd, request->doorbell_fd);
	request->notifier = NULL;
	request->memory_fd = request->doorbell_fd = request->doorbell_set_fd = -1;
}

static void request_free(struct app_request *request)
{
	app_request_clear(request);
	pod_thread_put(request->thread);
	free(request);
}

bool app_requests_descriptors_suffice(void)
{
	return unix_descriptors_suffice((outstanding + 1) * REQUEST_FDS);
}

/* Gives the request to the pod's thread, for one of its steps. */
static void request_do(struct app_request *request)
{
	request->busy = true;
	outstanding++;
	pod_thread_do(request->thread, &request->work);
}

static void request_done(struct pod_work *work)
{
	struct app_request *request = container_of(work, struct app_request, work);

	outstanding--;
	request->busy = false;
	if (request->process)
		request->serve(request->process);
	else
		request_free(request);
}

struct app_request *app_request_create(struct process *process, void (*serve)(struct process *process))
{
	struct app_request *request = calloc(1, sizeof(*request));

	if (!request)
		return NULL;
	request->work = (struct pod_work){.run = request_run, .done = request_done};
	request->process = process;
	request->serve = serve;
	request->connection_fd = process->connection.fd;
	request->memory_fd = request->doorbell_fd = request->doorbell_set_fd = -1;
	request->filter_fd = request->socket_fd = request->reply_fds[0] = request->reply_fds[1] = -1;
	request->entering = RECEIVE_MAPS_CLOSED;
	request->doorbells = process->doorbells;
	request->thread = process->thread;
	pod_thread_get(request->thread);
	return request;
}

void app_request_begin(struct app_request *request)
{
	request->has_ring = request->process->ring;
	if (pod_receives(request->process->pod))
		request->filter_fd = receive_filter_open(request->process->pod->node->receive.folder);
	request_do(request);
}

void app_request_finish(struct app_request *request)
{
	request->finishing = true;
	request_do(request);
}

void app_request_reply(struct app_request *request)
{
	request->replying = true;
	request_do(request);
}

void app_request_abandon(struct app_request *request)
{
	if (!request)
		return;
	request->process = NULL;
	if (!request->busy)
		request_free(request);
}
