/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that a pod leaves to ktsnd when it ends: descriptors whose close blocks on an object that ktsnd has
 * in a queue and closes later, and more of them while it is being removed.
 */
#include "modes.h"

#include "../../fd_message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	/* While ktsnd reads this many messages with a socket, this end closes its own. */
	COPIES = 16,
	CONNECTIONS = 300,
	CONNECTIONS_MAX = 4096,
	RINGS = 156,
	FDS_OF_A_MESSAGE = 250, /* less than SCM_MAX_FD */
	ENDS = 32,
	BATCH = 16,
	BATCHES_MAX = 64,
	NAP_US = 1000,
};

static void rest(const struct target *target)
{
	while (time_left(target))
		usleep(NAP_US);
}

/* ---- a socket whose peer follows it in the same queue ---- */

/* ktsnd closes the last copy of the first, blocks, and does not reach the second. */
static int pair_leave(struct client *client)
{
	struct ktsn_app_request request = client_request(KTSN_APP_HELLO);
	struct lingering lingering;
	int err = lingering_open(&lingering, INT_MAX);

	if (!err)
		err = client_send(client, &request, sizeof(request), -1);
	for (int i = 0; i < COPIES && !err; i++)
		err = client_send(client, &request, sizeof(request), lingering.fd);
	close(lingering.fd);
	if (!err)
		err = client_send(client, &request, sizeof(request), lingering.peer);
	close(lingering.peer);
	close(lingering.listener);
	return err;
}

/* In one message. */
static int fds_send(const struct client *client, const int *fds, size_t count)
{
	return fd_message_send(client->fd, "", 1, fds, count, MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int mode_immortal(const struct target *target)
{
	static struct client clients[CONNECTIONS_MAX];
	const struct ktsn_app_request request = client_request(KTSN_APP_HELLO);
	const long most = target->count ? target->count : CONNECTIONS;
	struct client client;
	long more = 0;
	int err = client_connect(&client, target);

	if (!err && time_left(target))
		err = pair_leave(&client);
	if (err)
		return complain("leave a pair of sockets", err);
	while (more < most && more < CONNECTIONS_MAX && time_left(target) &&
	       client_connect(&clients[more], target) == 0) {
		(void)client_send(&clients[more], &request, sizeof(request), -1);
		more++;
	}
	result_print("left", 1);
	result_print("connections", more);
	rest(target);
	return 0;
}

static int mode_immortal2(const struct target *target)
{
	int fds[RINGS], err = 0;
	struct client client, behind;
	long rings = 0;

	while (rings < RINGS && time_left(target) && !err) {
		err = client_connect(&client, target);
		if (!err)
			err = client_hello(&client);
		if (err)
			break;
		fds[rings++] = dup(client.ring_fd);
		client_close(&client);
	}
	err = client_connect(&behind, target);
	if (!err)
		err = pair_leave(&behind);
	if (!err && rings)
		err = fds_send(&behind, fds, (size_t)rings);
	if (err)
		return complain("leave rings behind a pair of sockets", err);
	result_print("rings", rings);
	/* Waits until ktsnd has read as far as it can. */
	usleep(50 * NAP_US);
	rest(target);
	return 0;
}

/* In a child process, whose end does not wait for the peers, which stay open here. */
static void batch_pass(struct client *client, const struct lingering *batch, int closed_fd)
{
	struct ktsn_app_request request = client_request(KTSN_APP_HELLO);
	int err = 0;
	char byte;

	/* The last copies must belong to ktsnd and to this process. */
	(void)!read(closed_fd, &byte, 1);
	for (int i = 0; i < BATCH && !err; i++)
		err = client_send(client, &request, sizeof(request), batch[i].fd);
	_exit(-err);
}

static int batch_send(struct client *client, const struct lingering *batch)
{
	int ends[2], status = -1;
	pid_t child = pipe2(ends, O_CLOEXEC) ? -1 : fork();

	if (child < 0)
		return -errno;
	if (child == 0) {
		close(ends[1]);
		batch_pass(client, batch, ends[0]);
	}
	for (int i = 0; i < BATCH; i++)
		close(batch[i].fd);
	close(ends[0]);
	close(ends[1]);
	return waitpid(child, &status, 0) < 0 ? -errno : -WEXITSTATUS(status);
}

/* It survives the removal and continues with the connections that it has. */
static int mode_refill(const struct target *target)
{
	static struct lingering batches[BATCHES_MAX][BATCH];
	struct client client = {.fd = -1};
	long sent = 0;

	for (int k = 0; k < BATCHES_MAX && time_left(target); k++) {
		int err = client.fd < 0 ? client_connect(&client, target) : 0;

		for (int i = 0; i < BATCH && !err; i++)
			err = lingering_open(&batches[k][i], INT_MAX);
		if (!err)
			err = batch_send(&client, batches[k]);
		sent += !err;
		if (err && client.fd >= 0)
			client_close(&client);
		usleep(10 * NAP_US);
	}
	result_print("sent", sent);
	rest(target);
	return 0;
}

/* ---- connections in each other's queues ---- */

static int mode_ends(const struct target *target)
{
	static struct client clients[CONNECTIONS_MAX];
	const struct ktsn_app_request request = client_request(KTSN_APP_HELLO);
	const long most = target->count ? target->count : ENDS;
	struct client first;
	long count = 0;
	/* So that nothing of the rest is read for now. */
	int err = client_connect(&first, target);

	if (!err && time_left(target))
		err = pair_leave(&first);
	if (err)
		return complain("leave a pair of sockets", err);
	while (count < most && client_connect(&clients[count], target) == 0)
		count++;
	for (long i = 0; i < count; i++)
		(void)client_send(&clients[i], &request, sizeof(request), clients[(i + 1) % count].fd);
	/* Into its own queue as well. */
	(void)client_send(&first, &request, sizeof(request), first.fd);
	for (long i = 0; i < count; i++)
		client_close(&clients[i]);
	client_close(&first);
	result_print("connections", count);
	rest(target);
	return 0;
}

/* ---- descriptors from ktsnd ---- */

static int mode_returns(const struct target *target)
{
	static const enum ktsn_app_type types[] = {
		KTSN_APP_HELLO,     KTSN_APP_FLOW_OPEN,    KTSN_APP_FLOW_ADOPT,    KTSN_APP_FLOW_WAKE,
		KTSN_APP_HAND_BACK, KTSN_APP_RECEIVE_OPEN, KTSN_APP_RECEIVE_CLOSE,
	};
	long returned = 0, accepted = 0;
	int err = 0;

	while (time_left(target) && !err) {
		struct client client;

		err = client_open(&client, target);
		for (size_t i = 0; i < 3 * sizeof(types) / sizeof(types[0]) && !err; i++, returned++) {
			const int fds[] = {client.ring_fd, client.bell_fd, client.fd};
			struct ktsn_app_request request = client_request(types[i / 3]);
			struct ktsn_app_reply reply;

			request.flow = client.flow;
			request.flags = returned % 2 ? KTSN_APP_WAKE_REPORT : KTSN_APP_WAKE_SPACE;
			err = client_send(&client, &request, sizeof(request), fds[i % 3]);
			if (!err)
				err = client_receive(&client, &reply);
			accepted += !err && !reply.status;
		}
		if (!err)
			client_close(&client);
	}
	result_print("returned", returned);
	result_print("accepted", accepted);
	return err ? complain("have an answer", err) : 0;
}

/* ---- a file of FUSE, with its server in the same queue ---- */

static void fuse_answer(int fd, uint64_t request, const void *answer, size_t bytes)
{
	char message[sizeof(struct fuse_out_header) + 256];
	struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + bytes), .unique = request};

	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), answer, bytes);
	(void)!write(fd, message, sizeof(header) + bytes);
}

/* Answers nothing but its own close. */
static void *fuse_serve(void *argument)
{
	static char message[1 << 17];
	const struct fuse_in_header *in = (const struct fuse_in_header *)message;
	const struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
	const struct fuse_open_out opened = {.fh = 1};
	const int fd = *(int *)argument;

	for (bool closed = false; !closed && read(fd, message, sizeof(message)) > 0;) {
		if (in->opcode == FUSE_INIT)
			fuse_answer(fd, in->unique, &init, sizeof(init));
		else if (in->opcode == FUSE_OPEN)
			fuse_answer(fd, in->unique, &opened, sizeof(opened));
		closed = in->opcode == FUSE_FLUSH && in->pid == (uint32_t)getpid();
		if (closed)
			fuse_answer(fd, in->unique, "", 0);
	}
	return NULL;
}

/* Mounts it with a file as its root. Returns the open file, or -errno. */
static int fuse_mount(int *server_fd, pthread_t *serving)
{
	char path[] = "/tmp/ktsn-test-fuse-XXXXXX", options[96];
	int fd = mkstemp(path), err = 0;

	if (fd < 0)
		return -errno;
	close(fd);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=%d,group_id=%d", *server_fd,
		 getuid(), getgid());
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("ktsn-test", path, "fuse", MS_NODEV | MS_NOSUID, options))
		err = -errno;
	else
		err = -pthread_create(serving, NULL, fuse_serve, server_fd);
	fd = err ? err : open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && !err)
		err = -errno;
	(void)umount2(path, MNT_DETACH);
	unlink(path);
	return err ? err : fd;
}

/* ktsnd blocks in close() until the file's server answers. The server's only descriptor is in a queue that
 * ktsnd has not read yet. No signal interrupts that. */
static int fuse_leave(const struct target *target, uint32_t type)
{
	struct ktsn_app_request request = client_request(type);
	int server_fd, file_fd, err;
	struct client client;
	struct statx status;
	pthread_t serving = 0;

	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return complain("have mounts of its own", -errno);
	server_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	file_fd = server_fd < 0 ? -errno : fuse_mount(&server_fd, &serving);
	if (file_fd < 0)
		return complain("serve a file system", file_fd);
	/* The connection can be aborted through it. */
	if (statx(file_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &status) == 0)
		result_print("connection", status.stx_dev_minor);
	err = client_connect(&client, target);
	if (!err && time_left(target))
		err = client_send(&client, &request, sizeof(request), file_fd);
	close(file_fd);
	pthread_join(serving, NULL);
	if (!err)
		err = client_send(&client, &request, sizeof(request), server_fd);
	close(server_fd);
	result_print("left", !err);
	rest(target);
	return err ? complain("leave a file", err) : 0;
}

static int mode_fuse(const struct target *target)
{
	return fuse_leave(target, KTSN_APP_HELLO);
}

/* The file arrives as a ring that is handed back; ktsnd refuses it before mapping it. */
static int mode_fuse_ring(const struct target *target)
{
	return fuse_leave(target, KTSN_APP_HAND_BACK);
}

/* ---- a socket whose lock is held by a page fault ---- */

/* A page that is never delivered. NULL: not available. */
static void *page_make(int *faults_fd)
{
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*faults_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	area.range = (struct uffdio_range){.start = (uintptr_t)page, .len = bytes};
	if (page == MAP_FAILED || *faults_fd < 0 || ioctl(*faults_fd, UFFDIO_API, &api) ||
	    ioctl(*faults_fd, UFFDIO_REGISTER, &area))
		return NULL;
	return page;
}

struct faulting {
	int fd;
	void *page;
};

/* The kernel holds the socket's lock while it copies the corked data. */
static void *fault(void *argument)
{
	const struct faulting *faulting = argument;

	(void)send(faulting->fd, faulting->page, 64, MSG_MORE);
	return NULL;
}

/* As long as the thread lives, not only for three seconds. */
static int mode_faulted(const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_OPEN);
	struct ktsn_app_reply reply;
	struct faulting faulting;
	struct client client;
	pthread_t thread;
	int faults_fd, err;

	faulting.page = page_make(&faults_fd);
	faulting.fd = socket_to(target);
	if (!faulting.page || faulting.fd < 0)
		return complain("have a page fault and a socket", -errno);
	err = client_open(&client, target);
	if (err || pthread_create(&thread, NULL, fault, &faulting))
		return complain("get a ring and a flow", err);
	usleep(10 * NAP_US);
	if (time_left(target))
		err = client_send(&client, &request, sizeof(request), faulting.fd);
	rest(target);
	/* It is not answered before the page arrives. */
	result_print("held", recv(client.fd, &reply, sizeof(reply), MSG_DONTWAIT) < 0 && errno == EAGAIN);
	close(faults_fd);
	pthread_join(thread, NULL);
	if (!err)
		err = client_receive(&client, &reply);
	client_close(&client);
	return err ? complain("have an answer", err) : 0;
}

const struct mode removal_modes[] = {
	{"immortal", mode_immortal, "passes a file whose close waits for a file that ktsnd has not read yet"},
	{"immortal2", mode_immortal2, "the same, followed by as many rings as it can get"},
	{"fuse", mode_fuse, "the same with a file of FUSE and its server, which no signal interrupts"},
	{"fuse-ring", mode_fuse_ring, "the same with the file as a ring that is handed back"},
	{"faulted", mode_faulted, "passes a socket whose lock a page fault holds (userfaultfd)"},
	{"ends", mode_ends, "puts the ends of COUNT connections into each other"},
	{"refill", mode_refill, "sends lingering sockets into its connections, also when it is removed"},
	{"returns", mode_returns, "passes ktsnd the descriptors that ktsnd gave it"},
	{0},
};
